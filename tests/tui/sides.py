"""Runs as they are compared: each rises by as much an update as a test says."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from mission_tui.fleet.comparison_sides import Side, trace_of
from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import RETURN, MetricRecord, UpdateDone
from mission_tui.fleet.views.snapshot import RunView
from tests.tui.fake_client import a_spec

__all__ = ["a_side"]


def a_side(view: RunView, seed: int, gain: float, **ppo: Any) -> Side:
    """A run that rises by `gain` an update."""
    spec = a_spec("heavy", **ppo)
    records: list[MetricRecord] = [
        UpdateDone(
            seq=n, attempt=1, update=n, timesteps=8192 * n, t=float(n), rollout_s=4.0, update_s=1.0, steps_per_s=1600.0,
            metrics={RETURN: gain * n + (n * 7 + seed) % 5},
        )
        for n in range(1, 120)
    ]  # fmt: skip
    findings: dict[Severity, int] = {"warning": 2}
    run = structs.replace(spec.run, seed=seed)
    return Side(
        view=view,
        spec=structs.replace(spec, run=run),
        trace=trace_of(records),
        findings=findings,
        peak_rss_bytes=400 << 20,
    )
