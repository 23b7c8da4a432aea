"""What a timed run left: its records and peak memory, the versions that its trainer said it ran with, its company."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import Any

from mission_tui.errors import DamagedError
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.records.files.given_files import read_toml
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.runs.core import Core

__all__ = ["co_running_names", "read_effective", "read_timed"]


def read_timed(run: RunDir) -> tuple[list[MetricRecord], int | None]:
    """The records of the run, and its trainer's peak memory in bytes; None where that is not known."""
    records, _ = read_all(run.metrics, MetricRecord)
    with suppress(DamagedError):
        ended = read_exit(run.attempt(1).exit)
        return records, None if ended is None else ended.peak_rss_bytes
    return records, None


def read_effective(run: RunDir) -> dict[str, Any]:
    """What its first attempt really ran with; empty where the trainer did not come so far."""
    path = run.attempt(1).effective
    with suppress(DamagedError):
        if path.is_file():
            return read_toml(path, DamagedError)
    return {}


def co_running_names(core: Core, made: Collection[str]) -> tuple[str, ...]:
    """Names of the live runs of this runs root that are none of `made`."""
    return tuple(core.store.view(run_id).name for run_id in core.live if run_id not in made)
