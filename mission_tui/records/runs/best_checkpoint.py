"""Which checkpoint of a run was taken at the highest mean return."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mission_tui.fleet.events.metrics import RETURN, MetricRecord, UpdateDone
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.manifest import Manifest


def best_checkpoint(run: RunDir, manifests: Sequence[Manifest]) -> str | None:
    """The name of that one of `manifests`; None where no return is known of any."""
    returns = _returns(run)
    judged = [manifest for manifest in manifests if (manifest.attempt, manifest.update) in returns]
    return max(judged, key=lambda it: returns[it.attempt, it.update]).name if judged else None


def _returns(run: RunDir) -> dict[tuple[int, int], float]:
    """Mean returns by attempt and update."""
    returns = {}
    for record in read_all(run.metrics, MetricRecord)[0]:
        if isinstance(record, UpdateDone):
            value = record.metrics.get(RETURN)
            if isinstance(value, float | int) and math.isfinite(value):
                returns[record.attempt, record.update] = float(value)
    return returns
