"""Bench: timed runs of one preset, or of several in turns, one at a time; what they measured, and nothing left of them.

They are ordinary supervised runs in a group, so that a screen shows them and a person can stop them. Whoever asked has
to stay: when that client hangs up, the run that is under way is killed and all are removed.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing, suppress
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from mission_tui.errors import EX_CONFIG, MissionError, UsageError
from mission_tui.fleet.launch_plan import repeat_seed
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.ipc.replies import Benched, Progress
from mission_tui.ipc.requests import Bench
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.tuning_files import host_fingerprint
from mission_tui.supervisor.ending.removal import remove_runs
from mission_tui.supervisor.launchers.caller import caller_from
from mission_tui.supervisor.lifecycle.first_attempts import begin_runs
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

if TYPE_CHECKING:
    from mission_tui.fleet.bench.repeat import Repeat, Side


MOST_SIDES = len(ascii_lowercase)
"""Each has a letter; more would take hours."""
LOOK_S = 1.0
LEAST_LOOKS = 5
"""During a run that lasts as long as was asked: what it met is the mean from the first to the last."""
ENOUGH_UPDATES = 5


async def bench(core: Core, request: Bench) -> AsyncGenerator[Progress | Benched]:
    """Progress in seconds, then every repeat of every side. Raises `MissionError` for a run that does not finish; in a
    sweep only for one of the first side, and others are left out from then on.
    """
    # Not before somebody measures: every start of a supervisor would wait for it.
    from mission_tui.fleet.bench.ratio import MOST_TIMES, is_enough, quiet_rounds

    if not 1 <= len(request.items) <= (MOST_SIDES if request.sweep else 2):
        raise UsageError(f"bench takes one preset, and one to compare it with; a sweep at most {MOST_SIDES}")
    rounds: list[dict[int, Repeat]] = []
    loads: list[tuple[float | None, ...]] = []
    made: list[str] = []
    dropped: dict[int, str] = {}
    try:
        for number in range(1, MOST_TIMES * request.repeats + 1):
            async with aclosing(_round(core, request, number, made, dropped)) as steps:
                async for step in steps:
                    if isinstance(step, Progress):
                        yield step
                    else:
                        rounds.append(step)
                        loads.append(tuple(repeat.load.elsewhere_percent for repeat in step.values()))
            if is_enough(loads, request.repeats) or (request.sweep and len(dropped) == len(request.items) - 1):
                break
        places = quiet_rounds(loads, request.repeats)
        sides = [
            await asyncio.to_thread(_side, core, item.spec, request.duration_s, [each[side] for each in rounds], places)
            for side, item in enumerate(request.items)
            if side not in dropped
        ]
        yield Benched(
            re=request.id,
            sides=tuple(map(msgspec.to_builtins, sides)),
            others=_co_running(core, made),
            dropped=dropped,
            host=await asyncio.to_thread(host_fingerprint) if request.sweep else {},
        )
    finally:
        await remove_runs(core, made, keep=request.keep)


async def _round(
    core: Core, request: Bench, number: int, made: list[str], dropped: dict[int, str]
) -> AsyncGenerator[Progress | dict[int, Repeat]]:
    """Progress while each side is run once; last their repeats by side, none where after the first round a run did too
    few updates: the machine had little time for it. Runs are added to `made`, but for one that fails and so
    ends the bench with a `MissionError`: it stays, for its log to be read. Sides of a sweep that fail are `dropped`.
    """
    from mission_tui.fleet.bench.ratio import order_of

    caller, sides = caller_from(request), len(request.items)
    planned = max(number, request.repeats)
    found: dict[int, Repeat] = {}
    turns = [side for side in order_of(number, sides) if side not in dropped]
    for turn, side in enumerate(turns):
        item = structs.replace(_numbered(request.items[side], side, number), probe=not request.keep)
        try:
            (run_id,), _ = await begin_runs(core, (item,), caller)
        except MissionError as refused:
            if not request.sweep or side == 0 or refused.exit_code != EX_CONFIG:
                raise
            dropped[side] = str(refused)
            continue
        made.append(run_id)
        letter = f"{ascii_uppercase[side]} " if sides > 1 else ""
        label = f"{letter}{item.spec.preset} {number} of {planned}"
        before_s = ((number - 1) * len(turns) + turn) * request.duration_s
        async with aclosing(_trained(core, run_id, request.duration_s)) as steps:
            async for step in steps:
                if isinstance(step, tuple):
                    done_s, total_s = round(before_s + step[0]), round(planned * len(turns) * request.duration_s)
                    yield Progress(re=request.id, done=done_s, total=total_s, note=f"{label}: {step[1]}")
                else:
                    found[side] = step
        if side in found:
            continue
        view = core.store.view(run_id)
        if number > 1 and view.outcome == "finished":
            return
        if request.sweep and side > 0 and view.outcome in ("finished", "failed"):
            dropped[side] = _unfinished(core, run_id, request.duration_s, stays=request.keep)
            continue
        stays = view.outcome == "failed"
        if stays:
            made.remove(run_id)
        raise MissionError(_unfinished(core, run_id, request.duration_s, stays=stays))
    yield {side: found[side] for side in sorted(found)}


def _numbered(item: LaunchItem, side: int, number: int) -> LaunchItem:
    """Repeat `number` of all sides has the same seed: what one meets, the others do."""
    run = structs.replace(item.spec.run, seed=repeat_seed(item.spec.run.seed, number))
    return structs.replace(
        item, spec=structs.replace(item.spec, run=run), name=f"{item.name}-{ascii_lowercase[side]}{number}"
    )


async def _trained(core: Core, run_id: str, duration_s: float) -> AsyncGenerator[tuple[float, str] | Repeat]:
    """Seconds trained and the pace while the run lives; last its `Repeat`, if it finished and did enough updates."""
    from mission_tui.fleet.bench.repeat import Repeat, timing_of
    from mission_tui.supervisor.measuring import UsageSampler, read_timed

    sampler, run = UsageSampler(core, run_id), core.live.get(run_id)
    while run is not None and not run.gone.is_set():
        sampler.sample()
        view = core.store.view(run_id)
        pace = f"{view.steps_per_s:,.0f} steps/s" if view.steps_per_s is not None else view.cause or view.state
        yield min(view.trained_s, duration_s), pace
        with suppress(TimeoutError):
            await asyncio.wait_for(run.gone.wait(), min(LOOK_S, duration_s / LEAST_LOOKS))
    view = core.store.view(run_id)
    if view.outcome != "finished":
        return
    records, peak = await asyncio.to_thread(read_timed, core.run_dir(run_id))
    timing = timing_of(records, duration_s)
    if timing is not None:
        yield Repeat(run=run_id, seed=view.seed, timing=timing, load=sampler.load(peak))


def _unfinished(runs: Runs, run_id: str, asked_s: float, *, stays: bool) -> str:
    view = runs.store.view(run_id)
    if view.outcome == "finished":
        done = view.update or 1
        taken_s = max(view.trained_s, asked_s)
        enough_s = 10 * math.ceil(ENOUGH_UPDATES * taken_s / done / 10)
        return (
            f"{view.name} did {done} update{'' if done == 1 else 's'} in {taken_s:.0f} s, too few to take a speed from "
            f"after a warm-up; give --duration {enough_s}s or more"
        )
    why = f": {view.cause}" if view.cause else ""
    logs = f"; it stays, `mission-tui logs {view.name}` shows its output" if stays else ""
    return f"{view.name} {view.outcome or view.state}{why}{logs}"


def _side(core: Core, spec: Spec, asked_s: float, repeats: list[Repeat], counted: tuple[int, ...]) -> Side:
    """One preset's repeats, of which those at the places `counted` count, with what the machine was and the versions
    that the trainer said it ran with.
    """
    from mission_tui.fleet.bench.repeat import Side, work_of
    from mission_tui.supervisor.measuring import read_effective

    run = core.run_dir(repeats[0].run)
    host = {"host": socket.gethostname(), "cores": str(core.machine.host.cores)}
    provenance = read_provenance(run, 1)
    if provenance is not None:
        host |= provenance.machine
    versions = {name: str(value) for name, value in read_effective(run).get("host", {}).items()}
    versions.pop("name", None)
    return Side(
        preset=spec.preset,
        asked_s=asked_s,
        repeats=tuple(repeats[place] for place in counted),
        set_aside=tuple(repeat for place, repeat in enumerate(repeats) if place not in counted),
        work=work_of(spec),
        host=host,
        versions=versions,
    )


def _co_running(runs: Runs, made: Collection[str]) -> tuple[str, ...]:
    """Names of the live runs of this runs root that are none of `made`."""
    return tuple(runs.store.view(run_id).name for run_id in runs.live if run_id not in made)
