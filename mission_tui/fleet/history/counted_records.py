"""Which lines of `metrics.jsonl` count: an attempt takes back what others did after its checkpoint."""

from __future__ import annotations

from collections.abc import Iterable

from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted

__all__ = ["counted_records"]


def counted_records(records: Iterable[MetricRecord]) -> tuple[list[MetricRecord], list[int]]:
    """What counts of `records`, in file order, and the `seq` of the rows that later attempts took back."""
    kept: list[MetricRecord] = []
    rewound: list[int] = []
    for record in records:
        if isinstance(record, TrainingStarted):
            ahead = {it.seq for it in kept if not isinstance(it, TrainingStarted) and it.update > record.from_update}
            rewound += ahead
            kept = [it for it in kept if it.seq not in ahead]
        kept.append(record)
    return kept, sorted(rewound)
