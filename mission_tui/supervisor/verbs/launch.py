"""Launch, clone and what is asked before one: a check, a quote, and whether packages have changed under live runs.

All of the asked runs get a directory and a keeper, or none does and the reason is said. A clone has the settings, the
rules and the seed of another run, but for what is changed; nothing is learned. The source is only read, so it may be
live. An exact one is as the source began: its first spec, rules and caller. What is so no longer is accepted first.

A check looks at what a launch would look at, then does a smoke run in the run's own Python, with no run made of it. A
quote says what a launch would cost and be told, before anything of it is made.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs
from msgspec.structs import replace

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.capacity.admission import Admit, QueuedRun, Wait
from mission_tui.fleet.capacity.demand import (
    MIB,
    Cost,
    ReferenceSpeed,
    claim_elsewhere,
    claim_for,
    cost_of,
    estimated_cost,
)
from mission_tui.fleet.events.provenance import Origin, diff_of, sources_of
from mission_tui.fleet.launch_plan import check_names
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Change, ResumeVerdict
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import (
    SMOKE_STEPS,
    STEPS,
    Accepted,
    Checked,
    CheckFigures,
    CheckStep,
    Launched,
    Level,
    Progress,
    Quoted,
    Upgrade,
    UpgradesReply,
    VerdictReply,
    unreached,
)
from mission_tui.ipc.requests import Check, Clone, GetUpgrades, Launch, Quote
from mission_tui.records.runs.attempt import read_attempt_spec
from mission_tui.records.runs.code_files import kept_rules, rules_of
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.children import Task, TaskError, run_task, said_of_limits
from mission_tui.supervisor.launchers.order import (
    VISIBLE,
    Caller,
    absolute_paths,
    as_module,
    attempt_order,
    caller_from,
    check_program,
    needs_no_preflight,
    preflight,
    program,
    trainer_environ,
    with_script_python,
    with_spec_env,
)
from mission_tui.supervisor.lifecycle import first_attempts
from mission_tui.supervisor.lifecycle.capacity import device_speeds
from mission_tui.supervisor.lifecycle.first_attempts import check_new, foreseen, thread_warnings, would_wait
from mission_tui.supervisor.lifecycle.run_queue import gain_shortage, held_in_groups, waits_for_others
from mission_tui.supervisor.readonly.history import estimate_paces
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.machine_state import DECISIVE_S, MachineState
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import create_run
from mission_tui.supervisor.runs.targets import caller_for

_MOST_DIFFERENCES = 16
"""Differences that the new run remembers as its origin."""
_COMMAND = "MISSION_TUI_COMMAND"
_YOURS = "clone without --exact uses yours"


async def launch(core: Core, request: Launch) -> Launched:
    """Make and start the runs; `Launched` means that they are on disk. Raises `MissionError` with nothing made."""
    caller = caller_from(request)
    made, warnings = await first_attempts.begin_runs(core, request.items, caller)
    views = tuple(core.store.view(run_id) for run_id in made)
    return Launched(re=request.id, runs=views, warnings=(*warnings, *said_of_limits(request.limits), *_queued(views)))


def _queued(views: Sequence[RunView]) -> Iterator[str]:
    """What the new runs wait for, a sentence for all that wait for the same."""
    names: dict[str, list[str]] = {}
    for view in views:
        if view.state == "queued" and view.cause:
            names.setdefault(view.cause, []).append(view.name)
    for cause, waiting in names.items():
        yield f"{waiting[0]} {cause}" if len(waiting) == 1 else f"{', '.join(waiting)}: each {cause}"


async def clone(core: Core, request: Clone) -> Accepted | VerdictReply:
    """Make and start the new run, or say what an exact one would not have any more and was not accepted.

    Raises `MissionError` with nothing made.
    """
    run_id = resolve_run(core, request.run)
    if request.exact:
        return await _exactly(core, run_id, request)
    was = core.store.run(run_id).spec
    if was is None:
        raise MissionError(f"cannot clone {core.store.view(run_id).name}: its spec cannot be read")
    caller = caller_for(core, run_id, request)
    now = first_attempts.with_seed(
        absolute_paths(change(was, request.assignments), request.cwd or caller.cwd) if request.assignments else was
    )
    rules = first_attempts.rules_for(core, core.run_dir(run_id), was, now, caller)
    changes = judge_resume(was, now, ResumeFacts(0)).changes
    made, lacking = await _cloned(core, run_id, request, now, rules, caller, changes)
    note = core.store.view(made).origins[0].sentence
    return Accepted(re=request.id, runs=(made,), notes=(note, *lacking, *cautions(now)))


async def _exactly(core: Core, run_id: str, request: Clone) -> Accepted | VerdictReply:
    if request.assignments:
        raise UsageError("an exact clone has the settings of its run: leave out --set, or --exact")
    begun = await original_launch(core, run_id, request)
    if begun.changes and not request.accept:
        verdict = ResumeVerdict("note", begun.changes)
        return VerdictReply(re=request.id, run=run_id, verdict=verdict, accept_needed=True)
    made, lacking = await _cloned(
        core, run_id, request, first_attempts.with_seed(begun.spec), begun.rules, begun.caller, begun.changes
    )
    said = tuple(f"{it.name}: {it.was} -> {it.now}" for it in begun.changes)
    same = () if said else ("nothing that is recorded of it has changed since",)
    return Accepted(re=request.id, runs=(made,), notes=(*same, *said, *lacking))


async def _cloned(
    core: Core,
    source_id: str,
    request: Clone,
    spec: Spec,
    rules: list[Path],
    caller: Caller,
    changes: tuple[Change, ...],
) -> tuple[str, tuple[str, ...]]:
    """The new run, started, and what the machine lacks for it."""
    core.check_room()
    source_name = core.store.view(source_id).name
    with first_attempts.new_run(core, request.name, f"{source_name[:24]}-clone") as (run, name):
        async with first_attempts.reserved(core, (spec,), caller.environ) as lacking:
            home = with_spec_env(spec, caller)
            check_program(spec, home)
            inexact = "" if needs_no_preflight(spec) else (await preflight(spec, home)).continued(spec)
            order = attempt_order(core.root, run, 1, spec, caller, None)
            origin = Origin("cloned", source_id, source_name, diff=diff_of(changes)[:_MOST_DIFFERENCES])
            made = partial(
                create_run, core.root, core.seals, run, spec, order, rules, name, request.group, origin=origin
            )
            created = await asyncio.to_thread(made)
            first_attempts.begin_first_attempt(core, run, spec, order, created)
    return run.id, (*lacking, *filter(None, (inexact,)))


class OriginalLaunch(Struct, frozen=True):
    """What the run's first attempt was launched with; `changes` are all that such a launch now would not have."""

    spec: Spec
    rules: list[Path]
    caller: Caller
    changes: tuple[Change, ...]


async def original_launch(core: Core, run_id: str, request: Clone) -> OriginalLaunch:
    """How the run began, held against now. Raises `MissionError` when that cannot be read, or be had any more."""
    run = core.run_dir(run_id)
    spec = await asyncio.to_thread(read_attempt_spec, run, 1)
    environ = request.environ or {}
    caller, withheld = _caller(core, run, environ)
    if caller.limits is None:
        # Begun by an earlier version, which recorded none.
        caller = replace(caller, limits=request.limits)
    name = core.store.view(run_id).name
    if shutil.which(caller.python) is None:
        raise UsageError(f"cannot clone {name} exactly: its Python {caller.python} is gone; {_YOURS}")
    if not await asyncio.to_thread(Path(caller.cwd).is_dir):
        raise UsageError(f"cannot clone {name} exactly: its folder {caller.cwd} is gone; {_YOURS}")
    home = with_script_python(spec, with_spec_env(spec, caller), 1)
    since = await core.provenance.every_difference(run, 1, home, sources_of(spec))
    own = (*_on_its_way(core, run_id, spec), *_weights(core, run_id), *withheld)
    return OriginalLaunch(spec, await asyncio.to_thread(_rules, run), caller, (*own, *since))


def _caller(core: Core, run: RunDir, environ: Mapping[str, str]) -> tuple[Caller, tuple[Change, ...]]:
    """Who launched the first attempt. Secrets that are lost come from the client that asks now; each is a change."""
    caller = core.variables.caller_of(run, 1)
    forgotten = sorted(caller.secrets - caller.environ.keys())
    known = {name: environ[name] for name in forgotten if name in environ}
    words = {_COMMAND: environ[_COMMAND]} if _COMMAND in environ else {}
    why = "its value was a secret and never written down"
    changes = tuple(
        Change(f"variable {name}", "set", "as in your shell" if name in known else "not set", "note", why)
        for name in forgotten
    )
    return replace(caller, environ={**caller.environ, **known, **words}), changes


def _rules(run: RunDir) -> list[Path]:
    """The rules of the first attempt."""
    folder = rules_of(run, 1)
    return kept_rules(folder) if folder.is_dir() else []


def _on_its_way(runs: Runs, run_id: str, first: Spec) -> Iterator[Change]:
    newest = runs.store.run(run_id).spec
    why = "it was changed while it trained; a clone starts with the settings of its beginning"
    for made in () if newest is None else judge_resume(first, newest, ResumeFacts(0)).changes:
        if made.was != made.now:
            yield Change(made.name, made.now, made.was, "note", why)


def _weights(runs: Runs, run_id: str) -> Iterator[Change]:
    for origin in runs.store.view(run_id).origins:
        if origin.kind in ("branch", "imported"):
            was = f"{origin.name} at {origin.checkpoint}" if origin.checkpoint else origin.name
            yield Change("weights", was, "none", "note", "it began with weights; an exact clone begins from scratch")


_DETAIL_CHARACTERS = 1000
_SPARE_S = 30.0
"""The smoke run limits its own time; one that hangs beyond that is ended from here."""


async def check(core: Core, request: Check) -> AsyncGenerator[Progress | Checked]:
    """Progress, then every step. A client that leaves does not end the smoke run, which soon ends by itself."""
    await core.machine.measure(DECISIVE_S)
    spec = absolute_paths(request.spec, request.cwd)
    caller = caller_from(request)
    steps = [_checked("machine", lambda: _machine(core, spec, caller)), _checked("place", lambda: _place(spec, caller))]
    figures = None
    if spec.run.command is None and all(step.level != "failed" for step in steps):
        async with aclosing(_smoke(core.root, spec, caller, request.limit_s)) as hearing:
            async for said in hearing:
                match said:
                    case CheckStep():
                        steps = [step for step in steps if step.name != said.name] + [said]
                    case CheckFigures():
                        figures = said
                    case str():
                        yield Progress(re=request.id, done=len(steps) - 2, total=len(SMOKE_STEPS), note=said)
    if figures is not None:
        steps += await _speed(core, spec, caller)
    if spec.run.command is None:
        steps += unreached(tuple(steps))
        steps.sort(key=_turn)
    yield Checked(re=request.id, steps=tuple(steps), figures=figures)


async def _smoke(
    root: Path, spec: Spec, caller: Caller, limit_s: float
) -> AsyncGenerator[CheckStep | CheckFigures | str]:
    """Each step as it is over, what is being done meanwhile, and the figures."""
    home = with_spec_env(spec, caller)
    words, home = as_module(spec, home, "mission_tui.trainer.checking.check")
    environ = {**home.environ, **trainer_environ(spec)}
    task = Task((*words, f"{limit_s:g}", str(root)), home.cwd, environ, msgspec.json.encode(spec), limits=home.limits)
    begun = SMOKE_STEPS[0]
    try:
        async with aclosing(run_task(task, limit_s * len(SMOKE_STEPS) + _SPARE_S)) as hearing:
            async for said in hearing:
                begun = str(said.get("begin", begun))
                if "figures" in said:
                    yield msgspec.convert(said["figures"], CheckFigures)
                elif "step" in said:
                    yield _step(said)
                elif "doing" in said:
                    yield clean(str(said["doing"]))
    except TaskError as error:
        yield CheckStep(name=begun, level="failed", detail=str(error), exit_code=error.exit_code)
    except msgspec.ValidationError as error:
        yield CheckStep(name=begun, level="failed", detail=f"the answer of the smoke run cannot be read: {error}")


def _turn(step: CheckStep) -> int:
    """Those that are looked at from here come first."""
    return STEPS.index(step.name) if step.name in STEPS else -1


async def _speed(core: Core, spec: Spec, caller: Caller) -> list[CheckStep]:
    """Whether the net is faster on the CPU or on the GPU; nothing where there is no GPU."""
    begun = time.monotonic()
    speeds = await device_speeds(core, spec, caller)
    if speeds is None:
        return []
    caution = speeds.caution(spec.run.device)
    level: Level = "note" if caution else "ok"
    seconds = time.monotonic() - begun
    return [CheckStep(name="speed", level=level, detail=caution or speeds.sentence, seconds=seconds)]


def _step(said: dict[str, Any]) -> CheckStep:
    detail = clean(str(said.get("detail", "")), _DETAIL_CHARACTERS)
    return msgspec.convert({**said, "name": said["step"], "detail": detail}, CheckStep)


def _checked(name: str, look: Callable[[], tuple[str, ...]]) -> CheckStep:
    """What `look` says as a step: its first sentence is the fact, the others are notes."""
    begun = time.monotonic()
    try:
        fact, *notes = look()
    except MissionError as error:
        return CheckStep(name=name, level="failed", detail=str(error), exit_code=error.exit_code)
    detail = "; ".join((fact, *notes))
    return CheckStep(name=name, level="note" if notes else "ok", detail=detail, seconds=time.monotonic() - begun)


def _machine(core: Core, spec: Spec, caller: Caller) -> tuple[str, ...]:
    core.check_room()
    visible = caller.environ.get(VISIBLE)
    waits = (f"launched now it {why}" for why in would_wait(core, (spec,), visible) if why)
    warnings = (*check_new(core, (spec,), visible), *waits, *cautions(spec), *_seen(core.machine, spec))
    return (f"{core.machine.host.cores} cores beside {len(core.live)} live runs", *warnings)


def _seen(machine: MachineState, spec: Spec) -> tuple[str, ...]:
    """How far the estimate of its memory was from what runs like it took."""
    peak = machine.peaks.of(spec)
    if peak is None:
        return ()
    estimated = claim_for(spec, machine.host.cores, None).ram_bytes
    gpu = "" if peak.vram_bytes is None else f" and {peak.vram_bytes / MIB:,.0f} MiB of GPU memory"
    return (f"estimated {estimated / MIB:,.0f} MiB of memory, seen {peak.rss_bytes / MIB:,.0f} MiB{gpu} last time",)


def _place(spec: Spec, caller: Caller) -> tuple[str, ...]:
    home = with_spec_env(spec, caller)
    check_program(spec, home)
    started = home.python if spec.run.command is None else program(spec.run, home, 1)[0]
    return (f"{started} in {home.cwd}",)


async def quote(core: Core, request: Quote) -> Quoted:
    """The costs of every item, and why all would be refused, if they would. An environment is not tried here.

    Raises `MissionError` only where nothing can be said at all: the machine's own limits cannot be read.
    """
    await core.machine.measure(DECISIVE_S)
    items = [structs.replace(item, spec=absolute_paths(item.spec, request.cwd)) for item in request.items]
    specs = [item.spec for item in items]
    caller = caller_from(request)
    visible = caller.environ.get(VISIBLE)
    warnings: tuple[str, ...] = ()
    held: Sequence[str] = ()
    refused = ""
    try:
        core.check_room()
        check_names(items)
        for name in (item.name for item in items if item.name is not None):
            core.names.check(name)
        held = held_in_groups(core, items, [_waits_for(core, item) for item in items])
        for spec in specs:
            check_program(spec, with_spec_env(spec, caller))
        warnings = (*check_new(core, specs, visible), *thread_warnings(core, specs, caller.environ))
    except MissionError as error:
        refused = str(error)
    warnings = (*warnings, *(f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec)))
    decided = foreseen(core, specs, visible, held)
    costs = tuple(
        _cost(core.machine, spec, *taken, pace)
        for spec, taken, pace in zip(specs, decided, estimate_paces(core, specs), strict=True)
    )
    return Quoted(re=request.id, costs=costs, refused=refused, warnings=tuple(dict.fromkeys(warnings)))


def _waits_for(core: Core, item: LaunchItem) -> str:
    """What the run would wait for beside room. Raises `UsageError` for a run to follow that is not there."""
    waits = waits_for_others(core, tuple(resolve_run(core, ref) for ref in item.after))
    gain = item.spec.keep.limits.marginal_gain
    if waits or gain is None:
        return waits
    return gain_shortage(core, gain, time.time()) or ""


def _cost(machine: MachineState, spec: Spec, run: QueuedRun, turn: Admit | Wait, pace: ReferenceSpeed | None) -> Cost:
    uuids = [gpu.uuid for gpu in machine.gpu.gpus]
    gpu = uuids.index(turn.gpu) if isinstance(turn, Admit) and turn.gpu in uuids else None
    waits = turn.why if isinstance(turn, Wait) else ""
    peak = machine.peaks.of(spec)
    # Of a node nothing is known but what the run will ask for there.
    claim = claim_elsewhere(spec, peak) if run.elsewhere else run.claim
    if machine.gpu.present() and not uuids and not run.elsewhere:
        # Nobody has said yet which GPUs there are, which is not to have none.
        return structs.replace(estimated_cost(spec, machine.host.cores, peak, pace, driver=True), waits=waits)
    return cost_of(claim, peak, pace, gpu=gpu, waits=waits)


async def upgrades(core: Core, request: GetUpgrades) -> UpgradesReply:
    """Look with the interpreter, folder and environment of each live run; those launched alike are one look."""
    found = [one for one in await asyncio.gather(*(_upgrade_of(core, run_id) for run_id in tuple(core.live))) if one]
    return UpgradesReply(re=request.id, upgrades=tuple(one for one in found if one.changes), looked=len(found))


async def _upgrade_of(core: Core, run_id: str) -> Upgrade | None:
    """What changed under the run; None where that cannot be known."""
    run, attempt = core.run_dir(run_id), core.store.run(run_id).journal.attempt
    with suppress(UsageError):
        caller, spec = core.variables.caller_of(run, attempt), core.store.run(run_id).spec
        if spec is not None:
            caller = with_script_python(spec, caller, attempt)
        changes = await core.provenance.upgraded(run, attempt, caller)
        return None if changes is None else Upgrade(run=run_id, name=core.name_of(run_id), changes=changes)
    return None
