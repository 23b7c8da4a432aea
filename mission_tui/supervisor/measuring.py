"""Runs that are made to be measured: what they take of the machine while they train, and what they left.

`bench` times runs that last as long as was asked; the means are those of the whole run, from its first update on. A
probe of `tune` is ended as soon as it has been measured, and nothing of it stays. It is given up for two reasons only:
a start that takes too long, or updates that do.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

import psutil
from msgspec import Struct, structs

from mission_tui.errors import EX_CONFIG, DamagedError, MissionError
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.timed_runs import Load, Timing, timing_of
from mission_tui.fleet.tuning.record import MEASURED_UPDATES, WARM_UPDATES, ProbeDone, Resolved, probe_spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.ending.removal import kill_live, remove_runs
from mission_tui.supervisor.host.process_files import pss_bytes, read_stat
from mission_tui.supervisor.launchers.order import Caller
from mission_tui.supervisor.lifecycle.first_attempts import begin_runs
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

LOOK_S = 0.5
PSS_EVERY_S = 5.0
"""Adding up the memory maps of a large process takes milliseconds that it would rather train in."""


def pace_of(view: RunView) -> str:
    """How fast the run is; while that is not known, what it does."""
    return f"{view.steps_per_s:,.0f} steps/s" if view.steps_per_s is not None else view.cause or view.state


class MeasuringLimits(Struct, frozen=True, kw_only=True):
    """How long a probe is measured, and how long one waits for its first update and for enough of them."""

    probe_s: float
    start_s: float
    learn_s: float


async def run_probe(
    core: Core, item: LaunchItem, caller: Caller, patience: MeasuringLimits
) -> AsyncGenerator[str | ProbeDone]:
    """What the run of `item` is at, again and again; last what it measured, `seq`, stage and round being left open.

    Whatever fails because of the settings is an answer. Raises `MissionError` for what has other causes: a full disk,
    or somebody who ended the probe. Nothing of it is left when this generator is closed.
    """
    begun, seed = time.monotonic(), item.spec.run.seed if item.spec.run.seed is not None else 1
    spec = probe_spec(item.spec, seed, patience.start_s + patience.learn_s)
    made: list[str] = []

    def done(why: str = "") -> ProbeDone:
        wall_s = round(time.monotonic() - begun, 3)
        return ProbeDone(seq=0, t=time.time(), stage="", round=0, words=(), wall_s=wall_s, seed=seed, why=why)

    try:
        try:
            (run_id,), _ = await begin_runs(core, (structs.replace(item, spec=spec),), caller)
        except MissionError as refused:
            if refused.exit_code != EX_CONFIG:
                raise
            yield done(str(refused))
            return
        made.append(run_id)
        sampler, given_up = UsageSampler(core, run_id), ""
        while (run := core.live.get(run_id)) is not None and not run.gone.is_set():
            sampler.sample()
            yield pace_of(core.store.view(run_id))
            if _is_enough(core, run_id, patience):
                break
            if given_up := _given_up(core, run_id, patience, time.monotonic() - begun):
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(run.gone.wait(), LOOK_S)
        view = core.store.view(run_id)
        ended = view.outcome if view.state in OVER else None
        await kill_live(core, run_id)
        if ended in ("stopped", "killed", "lost"):
            raise MissionError(f"{view.name} was {ended} from outside the tune: {view.cause or 'no cause is known'}")
        found = await _measured(core, run_id, patience, sampler, done())
        if found.steps_per_s is None:
            why = given_up or (f"{ended}: {view.cause}" if ended else "too few updates to take a speed from")
            found = structs.replace(found, why=why)
        yield found
    finally:
        await remove_runs(core, made)


def _is_enough(runs: Runs, run_id: str, patience: MeasuringLimits) -> bool:
    view = runs.store.view(run_id)
    return (view.update or 0) >= WARM_UPDATES + MEASURED_UPDATES and view.trained_s >= patience.probe_s


def _given_up(runs: Runs, run_id: str, patience: MeasuringLimits, waited_s: float) -> str:
    """Why it is given up; empty while it goes on."""
    view = runs.store.view(run_id)
    if view.update is None or view.update == 0:
        # The first update is learning already, and may take as long as the slowest is allowed to.
        started = view.phase in ("rollout", "update")
        limit_s = patience.start_s + (patience.learn_s if started else 0.0)
        if waited_s <= limit_s:
            return ""
        waiting = f"; {view.cause}" if view.cause else ""
        return f"did not finish its first update within {waited_s:.0f} s{waiting}"
    if view.trained_s <= patience.learn_s:
        return ""
    rate = (view.timesteps or 0) / view.trained_s
    return f"too slow: given up after {view.trained_s:.0f} s of learning at {rate:,.0f} steps/s"


async def _measured(
    runs: Runs, run_id: str, patience: MeasuringLimits, sampler: UsageSampler, bare: ProbeDone
) -> ProbeDone:
    run = runs.run_dir(run_id)
    records, peak = await asyncio.to_thread(read_timed, run)
    effective = await asyncio.to_thread(read_effective, run)
    load = sampler.load(peak)
    timing: Timing | None = timing_of(records, patience.probe_s, WARM_UPDATES)
    env, threads = effective.get("env", {}), effective.get("run", {}).get("threads")
    resolved = Resolved(str(env["vec"]), env.get("n_workers"), threads) if "vec" in env else None
    versions = {name: str(value) for name, value in effective.get("host", {}).items() if name != "name"}
    found = structs.replace(
        bare,
        resolved=resolved,
        versions=versions,
        cpu_percent=load.cpu_percent,
        elsewhere_percent=load.elsewhere_percent,
        memory_bytes=load.peak_pss_bytes or load.peak_rss_bytes,
    )
    if timing is None:
        return found
    return structs.replace(
        found,
        steps_per_s=timing.steps_per_s,
        learn_s=timing.duration_s,
        updates=timing.updates,
        rollout_share=timing.rollout_share,
    )


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


class _Sample(Struct, frozen=True):
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
