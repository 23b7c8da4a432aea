"""A run that is timed: what it takes of the machine while it trains, what others take meanwhile, and what it left.

The means are those of the whole run, from its first update on; starting is other work.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psutil

from mission_tui.errors import DamagedError
from mission_tui.fleet.bench import Load
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.records.files.given_files import read_toml
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.process_files import pss_bytes, read_stat
from mission_tui.supervisor.runs.core import Core

PSS_EVERY_S = 5.0
"""Adding up the memory maps of a large process takes milliseconds that it would rather train in."""


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


@dataclass(frozen=True, slots=True)
class _Sample:
    """Seconds of processor time so far: of the cores, of the run, of this process."""

    at: float
    busy_s: float
    run_s: float
    own_s: float


class UsageSampler:
    """Looked at about once a second while the run lives."""

    def __init__(self, core: Core, run_id: str) -> None:
        self._core = core
        self._run_id = run_id
        self._cores = os.sched_getaffinity(0)
        self._first: _Sample | None = None
        self._last: _Sample | None = None
        self._peak_pss: int | None = None
        self._pss_at = float("-inf")

    def sample(self) -> None:
        """One more sample, unless the run is not in its updates."""
        run = self._core.store.run(self._run_id)
        pids = [pid for pid in (run.observed.pids.trainer, *run.observed.pids.workers) if pid is not None]
        if run.metrics.row is None or run.observed.phase not in ("rollout", "update") or not pids:
            return
        stats = [read_stat(pid) for pid in pids]
        known = [stat for stat in stats if stat is not None]
        if len(known) < len(pids):
            return
        now = time.monotonic()
        sample = _Sample(now, self._busy_s(), sum(stat.cpu_s for stat in known), time.process_time())
        self._first = self._first or sample
        self._last = sample
        if now - self._pss_at >= PSS_EVERY_S:
            self._pss_at = now
            sizes = [size for size in map(pss_bytes, pids) if size is not None]
            self._peak_pss = max(sum(sizes), self._peak_pss or 0) if sizes else self._peak_pss

    def load(self, peak_rss_bytes: int | None) -> Load:
        """The means between the first look and the last."""
        first, last = self._first, self._last
        if first is None or last is None or last.at <= first.at:
            return Load(peak_rss_bytes=peak_rss_bytes, peak_pss_bytes=self._peak_pss)
        seconds, run_s = last.at - first.at, last.run_s - first.run_s
        others_s = last.busy_s - first.busy_s - run_s - (last.own_s - first.own_s)
        return Load(
            peak_rss_bytes=peak_rss_bytes,
            peak_pss_bytes=self._peak_pss,
            cpu_percent=round(100.0 * run_s / seconds, 1),
            elsewhere_percent=round(max(0.0, 100.0 * others_s / (seconds * len(self._cores))), 1),
        )

    def _busy_s(self) -> float:
        every = psutil.cpu_times(percpu=True)
        usable = [every[core] for core in self._cores if core < len(every)]
        # Guests are part of user time already.
        return sum(it.user + it.nice + it.system + it.irq + it.softirq + it.steal for it in usable)
