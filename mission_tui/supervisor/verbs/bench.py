"""Bench and tune: timed runs, one at a time, of presets in turns, or of one with other settings until one has won.

They are ordinary supervised runs in a group, so that a screen shows them and a person can stop them. Whoever asked has
to stay: when that client hangs up, the run that is under way is ended and all are removed. What a bench measured is
said, and nothing is left of it. A tune journals each probe as it comes, and the next one goes on there; what is probed
next is decided by `fleet.tuning`, from the journal alone. To tune a fleet, runs of one preset join one by one, until
the last one no longer paid; what each brings is judged as for any run that joins.

While they train it is measured what they take of the machine. The means of a bench are those of the whole run, from its
first update on. A probe of a tune is ended as soon as it has been measured, and nothing of it stays. It is given up for
two reasons only: a start that takes too long, or updates that do.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import time
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from mission_tui.control_groups import usable_cores
from mission_tui.errors import EX_CONFIG, DamagedError, MissionError, UsageError
from mission_tui.fleet.events.marginal_gain import MarginalGain
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.launch_plan import check_name, repeat_seed
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.timed_runs import (
    MOST_TIMES,
    Load,
    Repeat,
    Side,
    Timing,
    is_enough,
    order_of,
    timing_of,
    undisturbed_rounds,
    work_of,
)
from mission_tui.fleet.tuning.record import (
    MEASURED_UPDATES,
    WARM_UPDATES,
    DeviceSpeeds,
    ProbeDone,
    Resolved,
    TuneBegun,
    patience_s,
    probe_spec,
)
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Benched, FleetTuned, Progress, Tuned
from mission_tui.ipc.requests import Bench, Tune, TuneFleet
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import read_exit
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.tuning_files import host_fingerprint, make_tune_folder, newest_tune, read_tune, tune_journal
from mission_tui.supervisor.ending.removal import kill_live, remove_runs
from mission_tui.supervisor.host.machine import Processors
from mission_tui.supervisor.host.process_files import pss_bytes, read_stat
from mission_tui.supervisor.launchers.order import Caller, caller_from
from mission_tui.supervisor.lifecycle.capacity import device_speeds
from mission_tui.supervisor.lifecycle.first_attempts import begin_runs
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

if TYPE_CHECKING:
    from mission_tui.fleet.events.marginal_gain import MarginalGain
    from mission_tui.fleet.timed_runs import Repeat, Side
    from mission_tui.fleet.tuning.record import DeviceSpeeds, ProbeDone, TuneBegun
    from mission_tui.fleet.tuning.tune_state import Field, NextProbe

MOST_SIDES = len(ascii_lowercase)
"""Each has a letter; more would take hours."""
LOOK_S = 1.0
LEAST_LOOKS = 5
"""During a run that lasts as long as was asked: what it met is the mean from the first to the last."""
ENOUGH_UPDATES = 5
PROBE_LOOK_S = 0.5
PSS_EVERY_S = 5.0
"""Adding up the memory maps of a large process takes milliseconds that it would rather train in."""


async def bench(core: Core, request: Bench) -> AsyncGenerator[Progress | Benched]:
    """Progress in seconds, then every repeat of every side. Raises `MissionError` for a run that does not finish; in a
    sweep only for one of the first side, and others are left out from then on.
    """
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
        places = undisturbed_rounds(loads, request.repeats)
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
    sampler, run = UsageSampler(core, run_id), core.live.get(run_id)
    while run is not None and not run.gone.is_set():
        sampler.sample()
        view = core.store.view(run_id)
        yield min(view.trained_s, duration_s), pace_of(view)
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


_at_work: set[Path] = set()
SPARE_S = 600.0
"""So much longer than the budget the runs last by themselves, in case nothing is left to end them."""


async def tune(core: Core, request: Tune) -> AsyncGenerator[Progress | Tuned]:
    """Progress in probes, each probe as it is done, and the whole journal at the end.

    Raises `MissionError` when the preset itself cannot be probed; what is known by then stays in the journal.
    """
    # Not before somebody tunes: every start of a supervisor would wait for it.
    from mission_tui.fleet.tuning.tune_state import tune_state

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
    name = newest_tune(runs.root, preset) if request.go_on else check_name(request.name)
    if name is None:
        raise UsageError(f"no tune of {preset} was begun in {runs.root}: leave --continue out")
    path = tune_journal(runs.root, name)
    if path in _at_work:
        raise UsageError(f"{name} is at work already; wait for it, or end it first")
    _at_work.add(path)
    try:
        make_tune_folder(runs.root, name)
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
    cores, host, spec = usable_cores(), host_fingerprint(), request.item.spec
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


def _patience(begun: TuneBegun, done: list[ProbeDone]) -> MeasuringLimits:
    plan = begun.plan
    return MeasuringLimits(probe_s=plan.probe_s, start_s=plan.start_s, learn_s=patience_s(plan, done))


def _journaled(log: AppendLog, found: ProbeDone, ask: NextProbe) -> ProbeDone:
    return log.append(
        lambda seq: structs.replace(found, seq=seq, stage=ask.stage, round=ask.round, words=ask.candidate.words)
    )


async def tune_fleet(core: Core, request: TuneFleet) -> AsyncGenerator[Progress | FleetTuned]:
    """Progress in runs, each run's payoff as it is known, and how many pay. Raises `MissionError` when not one trains,
    and where others train already, whose steps do not add up with theirs.
    """
    from mission_tui.fleet.tuning.tune_state import fleet_run_spec, fleet_size_verdict, may_add_run

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
                await asyncio.wait_for(run.gone.wait(), PROBE_LOOK_S)
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
        self._processors = Processors()
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
        sample = _Sample(
            now, self._processors.busy_s(self._cores), sum(stat.cpu_s for stat in known), time.process_time()
        )
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
