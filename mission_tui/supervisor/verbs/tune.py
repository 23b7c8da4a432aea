"""Tune: probes of one preset with other settings, one at a time, each journaled as it comes, until one has won.

What is probed next is `fleet.tuning`'s to say, of the journal alone. Whoever asked has to stay: when that client hangs
up the probe under way is ended and removed, and the journal is where the next one goes on. To tune a fleet, runs of one
preset join one by one, until the last one no longer paid; then all are removed. They are ordinary runs, and what each
brings is judged as for any run that joins.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.launch_plan import check_name, repeat_seed
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import FleetTuned, Progress, Tuned
from mission_tui.ipc.requests import Tune, TuneFleet
from mission_tui.plain_files import make_folder
from mission_tui.records.files.append import AppendLog
from mission_tui.records.tuning_files import host_fingerprint
from mission_tui.supervisor.ending.removal import remove_runs
from mission_tui.supervisor.launchers.caller import caller_from
from mission_tui.supervisor.lifecycle.device_speeds import device_speeds
from mission_tui.supervisor.lifecycle.first_attempts import begin_runs
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

if TYPE_CHECKING:
    from mission_tui.fleet.bench.device_speeds import DeviceSpeeds
    from mission_tui.fleet.events.marginal_gain import MarginalGain
    from mission_tui.fleet.tuning.record import ProbeDone, TuneBegun
    from mission_tui.fleet.tuning.tune_state import Field, NextProbe
    from mission_tui.supervisor.measuring import Patience


_at_work: set[Path] = set()
LOOK_S = 1.0
SPARE_S = 600.0
"""So much longer than the budget the runs last by themselves, in case nothing is left to end them."""


async def tune(core: Core, request: Tune) -> AsyncGenerator[Progress | Tuned]:
    """Progress in probes, each probe as it is done, and the whole journal at the end.

    Raises `MissionError` when the preset itself cannot be probed; what is known by then stays in the journal.
    """
    # Not before somebody tunes: every start of a supervisor would wait for it.
    from mission_tui.fleet.tuning.record import ProbeDone
    from mission_tui.fleet.tuning.tune_state import tune_state
    from mission_tui.supervisor.measuring import run_probe

    caller = caller_from(request)
    yield Progress(re=request.id, done=0, total=1, note="looking at the machine")
    # Of a tune that goes on it stands in its journal.
    devices = None if request.go_on else await device_speeds(core, request.item.spec, caller)
    with _journal(core, request, devices) as (log, name, begun, known):
        await remove_runs(core, _left_behind(core, name))
        done = list(known)
        kept: dict[object, Field] = {}
        while (ask := tune_state(begun, done, kept).ask) is not None:
            item = _item(ask, begun, name, len(done) + 1)
            found: ProbeDone | None = None
            async with aclosing(run_probe(core, item, caller, _patience(begun, done))) as said:
                async for each in said:
                    if isinstance(each, ProbeDone):
                        found = each
                        continue
                    note = f"{ask.candidate.label}, round {ask.round}: {each}"
                    yield Progress(re=request.id, done=len(done), total=len(done) + 1 + ask.most, note=note)
            assert found is not None
            if found.steps_per_s is None and not ask.candidate.words:
                raise MissionError(f"{begun.spec.preset} cannot be probed as it is: {found.why}")
            done.append(await asyncio.to_thread(_journaled, log, found, ask))
            fact = msgspec.to_builtins(done[-1])
            yield Progress(re=request.id, done=len(done), total=len(done) + ask.most, fact=fact)
    yield Tuned(
        re=request.id,
        name=name,
        begun=msgspec.to_builtins(begun),
        probes=tuple(map(msgspec.to_builtins, done)),
        others=tuple(sorted(core.name_of(run_id) for run_id in core.live)),
    )


@contextmanager
def _journal(
    runs: Runs, request: Tune, devices: DeviceSpeeds | None
) -> Iterator[tuple[AppendLog, str, TuneBegun, tuple[ProbeDone, ...]]]:
    """The open journal, the tune's name, and what it tells; a new one, or that of the last tune of the preset."""
    preset = request.item.spec.preset
    from mission_tui.records.tuning_files import newest_tune, tune_journal

    name = newest_tune(runs.root, preset) if request.go_on else check_name(request.name)
    if name is None:
        raise UsageError(f"no tune of {preset} was begun in {runs.root}: leave --continue out")
    path = tune_journal(runs.root, name)
    if path in _at_work:
        raise UsageError(f"{name} is at work already; wait for it, or end it first")
    _at_work.add(path)
    try:
        make_folder(path.parent)
        log = AppendLog(path)
        try:
            yield (log, name, *_begun(log, path, request, name, devices))
        finally:
            log.close()
    finally:
        _at_work.discard(path)


def _begun(
    log: AppendLog, path: Path, request: Tune, name: str, devices: DeviceSpeeds | None
) -> tuple[TuneBegun, tuple[ProbeDone, ...]]:
    from mission_tui.fleet.tuning.record import TuneBegun
    from mission_tui.records.tuning_files import read_tune

    cores, host, spec = len(os.sched_getaffinity(0)), host_fingerprint(), request.item.spec
    if not request.go_on:
        begun = log.append(
            lambda seq: TuneBegun(
                seq=seq, t=time.time(), spec=spec, plan=request.plan, cores=cores, host=host, devices=devices
            )
        )
        return begun, ()
    begun, done = read_tune(path)
    if begun.host != host:
        there = ", ".join(
            f"{key} {begun.host.get(key)} then, {host.get(key)} now" for key in _differing(begun.host, host)
        )
        raise UsageError(f"{name} was begun on another machine ({there}): leave --continue out")
    if structs.replace(begun.spec, description="") != structs.replace(spec, description=""):
        raise UsageError(
            f"{name} was begun with other settings of {spec.preset}: leave --continue out, or give them again"
        )
    return begun, done


def _differing(one: dict[str, str], other: dict[str, str]) -> list[str]:
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def _left_behind(runs: Runs, name: str) -> list[str]:
    """Probes of this tune that outlived their supervisor."""
    return [run_id for run_id in runs.live if runs.store.view(run_id).group == name]


def _item(ask: NextProbe, begun: TuneBegun, name: str, number: int) -> LaunchItem:
    """Every candidate of a round has the same seed: what one meets, the others do."""
    spec = ask.candidate.spec
    run = structs.replace(spec.run, seed=repeat_seed(begun.spec.run.seed, ask.round))
    return LaunchItem(spec=structs.replace(spec, run=run), name=f"{name}-{number}", group=name, probe=True)


def _patience(begun: TuneBegun, done: list[ProbeDone]) -> Patience:
    from mission_tui.fleet.tuning.record import patience_s
    from mission_tui.supervisor.measuring import Patience

    plan = begun.plan
    return Patience(probe_s=plan.probe_s, start_s=plan.start_s, learn_s=patience_s(plan, done))


def _journaled(log: AppendLog, found: ProbeDone, ask: NextProbe) -> ProbeDone:
    return log.append(
        lambda seq: structs.replace(found, seq=seq, stage=ask.stage, round=ask.round, words=ask.candidate.words)
    )


async def tune_fleet(core: Core, request: TuneFleet) -> AsyncGenerator[Progress | FleetTuned]:
    """Progress in runs, each run's payoff as it is known, and how many pay. Raises `MissionError` when not one trains,
    and where others train already, whose steps do not add up with theirs.
    """
    from mission_tui.fleet.tuning.tune_result import fleet_run_spec, fleet_size_verdict, may_add_run

    if core.live:
        names = ", ".join(sorted(core.name_of(run_id) for run_id in core.live)[:3])
        raise UsageError(f"{names} would disturb the measurement: wait until no run is left, or stop them first")
    caller, until = caller_from(request), time.monotonic() + request.budget_s
    made: list[str] = []
    payoffs: list[MarginalGain] = []
    ended = ""
    try:
        while not ended and len(payoffs) < request.most and may_add_run(payoffs):
            number = len(made) + 1
            spec = fleet_run_spec(request.item.spec, number, request.budget_s + SPARE_S)
            item = LaunchItem(spec=spec, name=f"{request.item.name}-{number}", group=request.item.group, probe=True)
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


def _brought(runs: Runs, run_id: str) -> MarginalGain | None:
    """What the run brought by joining, once that is known."""
    return next((each for each in runs.store.run(run_id).journal.gains if each.change == "joined"), None)


def _ended(runs: Runs, made: list[str]) -> str:
    """Why one of the runs does not train any more; empty while all do or will."""
    for run_id in made:
        view = runs.store.view(run_id)
        if run_id not in runs.live:
            return f"{view.name} {view.outcome or view.state}: {view.cause or 'no cause is known'}"
    return ""


def _note(runs: Runs, made: list[str]) -> str:
    views = [runs.store.view(run_id) for run_id in made]
    speeds = [view.steps_per_s for view in views if view.steps_per_s is not None]
    waiting = next(
        (f"; {view.name} waits: {view.cause}" for view in views if view.state == "queued" and view.cause), ""
    )
    return f"{len(made)} at once: {sum(speeds):,.0f} steps/s in all{waiting}"
