"""What a recorded training is on disk: a gzipped trace of its own records, and one line of the manifest about it.

A trace holds the records of `metrics.jsonl` as the trainer wrote them, with floats cut to 5 significant digits and at
most 16 episodes an update. The specs come first: the run's, and those of attempts that were resumed with another one.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import structs

from benchmarks.health.halves import Half
from mission_tui.fleet.events.metrics import Episodes, Metric, MetricRecord, UpdateDone
from mission_tui.fleet.specs.preset import as_tables, from_tables
from mission_tui.fleet.specs.spec import Spec

__all__ = [
    "MANIFEST",
    "TRACES",
    "Trace",
    "TraceLabel",
    "read_manifest",
    "read_trace",
    "trace_path",
    "write_manifest",
    "write_trace",
]

TRACES = Path(__file__).parent / "traces"
MANIFEST = TRACES / "manifest.csv"

_DIGITS = 5
_EPISODES = 16
_RECORD = msgspec.json.Decoder(MetricRecord)


@dataclass(frozen=True, slots=True)
class Trace:
    """One training. `resumed` holds the specs of later attempts that were resumed with changes, by attempt.

    `busy` are spans of updates in which the trainer had less than 0.6 of the core it asked for, because it slept or
    because others ran: a loss of throughput there is true.
    """

    name: str
    spec: Spec
    records: tuple[MetricRecord, ...]
    resumed: Mapping[int, Spec] = field(default_factory=dict)
    busy: tuple[tuple[int, int], ...] = ()

    @property
    def updates(self) -> tuple[UpdateDone, ...]:
        """The rows of updates alone."""
        return tuple(record for record in self.records if isinstance(record, UpdateDone))


@dataclass(frozen=True, slots=True)
class TraceLabel:
    """What is known of a trace, and how: a positive is one whose harm was found, whatever was done to it. Of tasks with
    `THREE_LABELS` one to which something harmful was done, and whose harm was not found, is unclear and not healthy.

    `onset_update` is the first update under the intervention, None where there was none; `harm_update` the first update
    at which the harm is there, `harm_until` the last where it passed. `rules` are the ids of which at least one must be
    found. `busy` is the trace's.
    """

    name: str
    construction: str
    env: str
    seed: int
    half: Half
    label: Literal["positive", "healthy", "unclear"]
    onset_update: int | None
    harm_update: int | None
    rules: tuple[str, ...]
    twin: str | None
    updates: int
    harm: str
    note: str = ""
    busy: tuple[tuple[int, int], ...] = ()
    harm_until: int | None = None


def trace_path(name: str, folder: Path = TRACES) -> Path:
    """Where trace `name` lies."""
    return folder / f"{name}.jsonl.gz"


def read_trace(path: Path) -> Trace:
    """The trace at `path`. Raises `OSError`, `msgspec.DecodeError` or `PresetError` for anything else."""
    specs: dict[int, Spec] = {}
    records: list[MetricRecord] = []
    busy: tuple[tuple[int, int], ...] = ()
    name = path.name.removesuffix(".jsonl.gz")
    with gzip.open(path, "rb") as lines:
        for line in lines:
            if line.startswith(b'{"kind":"spec"'):
                head = msgspec.json.decode(line)
                specs[head["attempt"]] = from_tables(head["spec"], str(path))
            elif line.startswith(b'{"kind":"busy"'):
                busy = msgspec.convert(msgspec.json.decode(line)["spans"], tuple[tuple[int, int], ...])
            else:
                records.append(_RECORD.decode(line))
    return Trace(name, specs.pop(1), tuple(records), specs, busy)


def write_trace(path: Path, trace: Trace) -> None:
    """Write `trace`; the same trace gives the same bytes."""
    lines = [_spec_line(1, trace.spec)]
    lines += [_spec_line(attempt, spec) for attempt, spec in trace.resumed.items()]
    lines.append(msgspec.json.encode({"kind": "busy", "spans": trace.busy}))
    lines += [msgspec.json.encode(_compact(record)) for record in trace.records]
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(gzip.compress(b"\n".join(lines) + b"\n", mtime=0))
    part.replace(path)


def read_manifest(path: Path = MANIFEST) -> tuple[TraceLabel, ...]:
    """All labels, in the order they stand in. Raises `OSError` when nothing was recorded."""
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(_label(row) for row in csv.DictReader(file))


def write_manifest(labels: Iterable[TraceLabel], path: Path = MANIFEST) -> None:
    """Write `labels`, one line each."""
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [column.name for column in fields(TraceLabel)], lineterminator="\n")
        writer.writeheader()
        for label in labels:
            spans = "|".join(f"{first}-{last}" for first, last in label.busy)
            writer.writerow(asdict(label) | {"rules": "|".join(label.rules), "busy": spans})
    part.replace(path)


def _label(row: dict[str, Any]) -> TraceLabel:
    row["rules"] = [word for word in row["rules"].split("|") if word]
    row["busy"] = [span.split("-") for span in row["busy"].split("|") if span]
    for name in ("onset_update", "harm_update", "harm_until", "twin"):
        row[name] = row[name] or None
    return msgspec.convert(row, TraceLabel, strict=False)


def _spec_line(attempt: int, spec: Spec) -> bytes:
    tables = as_tables(spec)
    # What is kept of a run says nothing about how it learned.
    del tables["keep"]
    return msgspec.json.encode({"kind": "spec", "attempt": attempt, "spec": tables})


def _compact(record: MetricRecord) -> MetricRecord:
    record = structs.replace(record, t=round(record.t, 3))
    if not isinstance(record, UpdateDone):
        return record
    return structs.replace(
        record,
        rollout_s=_cut(record.rollout_s),
        update_s=_cut(record.update_s),
        env_s=None if record.env_s is None else _cut(record.env_s),
        steps_per_s=_cut(record.steps_per_s),
        metrics={tag: _cut_metric(metric) for tag, metric in record.metrics.items()},
        episodes=_thinned(record.episodes),
    )


def _thinned(episodes: Episodes) -> Episodes:
    held = len(episodes.r)
    last = min(held, _EPISODES) - 1
    chosen = [round(i * (held - 1) / last) for i in range(last + 1)] if last > 0 else range(held)
    return Episodes(
        n=episodes.n,
        r=tuple(_cut_metric(episodes.r[i]) for i in chosen),
        l=tuple(episodes.l[i] for i in chosen),
        outcomes=episodes.outcomes,
    )


def _cut_metric(metric: Metric) -> Metric:
    return metric if isinstance(metric, str) else _cut(metric)


def _cut(value: float) -> float:
    if not value or not math.isfinite(value):
        return value
    return round(value, _DIGITS - 1 - math.floor(math.log10(abs(value))))
