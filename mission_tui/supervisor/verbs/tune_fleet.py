"""Tune a fleet: runs of one preset join one by one, until the last one no longer paid; then all are removed.

They are ordinary runs, and what each brings is judged as for any run that joins. Whoever asked has to stay: when that
client hangs up all of them are killed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from mission_tui.errors import MissionError, UsageError
from mission_tui.ipc.replies import FleetTuned, Progress
from mission_tui.ipc.requests import LaunchItem, TuneFleet
from mission_tui.records.tuning_files import host_fingerprint
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.ending.removal import remove_runs
from mission_tui.supervisor.starting.caller import Caller
from mission_tui.supervisor.starting.launching import begin_runs

if TYPE_CHECKING:
    from mission_tui.fleet.events.marginal_gain import MarginalGain

__all__ = ["tune_fleet"]

LOOK_S = 1.0
SPARE_S = 600.0
"""So much longer than the budget the runs would last by themselves, should nobody be left to end them."""


async def tune_fleet(core: Core, request: TuneFleet) -> AsyncGenerator[Progress | FleetTuned]:
    """Progress in runs, each run's payoff as it is known, and how many pay. Raises `MissionError` when not one trains,
    and where others train already, whose steps do not add up with theirs.
    """
    from mission_tui.fleet.tuning.fleet_size import fleet_run_spec, fleet_size_verdict, may_add_run

    if core.live:
        names = ", ".join(sorted(core.name_of(run_id) for run_id in core.live)[:3])
        raise UsageError(f"{names} would be in the way of measuring: wait until no run is left, or stop them first")
    caller, until = (
        Caller(request.python, request.cwd, request.environ, limits=request.limits),
        time.monotonic() + request.budget_s,
    )
    made: list[str] = []
    payoffs: list[MarginalGain] = []
    ended = ""
    try:
        while not ended and len(payoffs) < request.most and may_add_run(payoffs):
            number = len(made) + 1
            spec = fleet_run_spec(request.item.spec, number, request.budget_s + SPARE_S)
            item = LaunchItem(spec=spec, name=f"{request.item.name}-{number}", group=request.item.group)
            try:
                (run_id,), _ = await begin_runs(core, (item,), caller)
            except MissionError as refused:
                if not made:
                    raise
                ended = str(refused)
                break
            made.append(run_id)
            while (gain := _brought(core, run_id)) is None and not ended:
                yield Progress(re=request.id, done=number - 1, total=request.most, note=_note(core, made))
                ended = _ended(core, made) or ("" if time.monotonic() < until else "the budget is spent")
                with suppress(TimeoutError):
                    await asyncio.wait_for(core.live[run_id].gone.wait() if run_id in core.live else _gone(), LOOK_S)
            if gain is not None:
                payoffs.append(gain)
                fact = msgspec.to_builtins(gain)
                yield Progress(re=request.id, done=number, total=request.most, fact=fact)
        if not payoffs:
            raise MissionError(f"one run of {request.item.spec.preset} could not be measured: {ended}")
        yield FleetTuned(
            re=request.id,
            said=msgspec.to_builtins(fleet_size_verdict(payoffs, request.most, ended)),
            payoffs=tuple(map(msgspec.to_builtins, payoffs)),
            host=host_fingerprint(),
        )
    finally:
        await remove_runs(core, made)


async def _gone() -> None:
    await asyncio.sleep(LOOK_S)


def _brought(core: Core, run_id: str) -> MarginalGain | None:
    """What the run brought by joining, once that is known."""
    return next((each for each in core.store.run(run_id).journal.gains if each.change == "joined"), None)


def _ended(core: Core, made: list[str]) -> str:
    """Why one of the runs does not train any more; empty while all do or will."""
    for run_id in made:
        view = core.store.view(run_id)
        if run_id not in core.live:
            return f"{view.name} {view.outcome or view.state}: {view.cause or 'no cause is known'}"
    return ""


def _note(core: Core, made: list[str]) -> str:
    views = [core.store.view(run_id) for run_id in made]
    speeds = [view.steps_per_s for view in views if view.steps_per_s is not None]
    waiting = next(
        (f"; {view.name} waits: {view.cause}" for view in views if view.state == "queued" and view.cause), ""
    )
    return f"{len(made)} at once: {sum(speeds):,.0f} steps/s in all{waiting}"
