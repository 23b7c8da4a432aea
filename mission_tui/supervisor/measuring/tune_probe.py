"""A probe of a tune: an ordinary run that is ended as soon as it has been measured, and of which nothing is left.

Whether it is given up is a matter of time, and of nothing else: a start that takes too long, or updates that do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

from msgspec import Struct, structs

from mission_tui.errors import EX_CONFIG, MissionError
from mission_tui.fleet.bench import Timing, timing_of
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.tuning.record import MEASURED_UPDATES, WARM_UPDATES, ProbeDone, Resolved, probe_spec
from mission_tui.supervisor.ending.removal import kill_live, remove_runs
from mission_tui.supervisor.launchers.caller import Caller
from mission_tui.supervisor.lifecycle.first_attempts import begin_runs
from mission_tui.supervisor.measuring.timed_run import UsageSampler, read_effective, read_timed
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

LOOK_S = 0.5


class Patience(Struct, frozen=True, kw_only=True):
    """How long a probe is measured, and how long one waits for its first update and for enough of them."""

    probe_s: float
    start_s: float
    learn_s: float


async def run_probe(
    core: Core, item: LaunchItem, caller: Caller, patience: Patience
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
            view = core.store.view(run_id)
            pace = f"{view.steps_per_s:,.0f} steps/s" if view.steps_per_s is not None else view.cause or view.state
            yield pace
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
            raise MissionError(f"{view.name} was {ended} by somebody else: {view.cause or 'no cause is known'}")
        found = await _measured(core, run_id, patience, sampler, done())
        if found.steps_per_s is None:
            why = given_up or (f"{ended}: {view.cause}" if ended else "too few updates to take a speed from")
            found = structs.replace(found, why=why)
        yield found
    finally:
        await remove_runs(core, made)


def _is_enough(runs: Runs, run_id: str, patience: Patience) -> bool:
    view = runs.store.view(run_id)
    return (view.update or 0) >= WARM_UPDATES + MEASURED_UPDATES and view.trained_s >= patience.probe_s


def _given_up(runs: Runs, run_id: str, patience: Patience, waited_s: float) -> str:
    """Why nobody waits any longer; empty while somebody does."""
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


async def _measured(runs: Runs, run_id: str, patience: Patience, sampler: UsageSampler, bare: ProbeDone) -> ProbeDone:
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
