"""What a request is about: live runs, or a run's checkpoint, and whose Python, folder and variables it is done with.

The words are resolved, each run once, and all of them are fit for the verb or none is touched.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Container, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from mission_tui.errors import CheckpointError, UsageError, nearest
from mission_tui.fleet.commands import never, objection, refusal
from mission_tui.fleet.events.findings import Finding, harmed_from
from mission_tui.fleet.events.journal import AttemptStarting, FleetEvent
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.provenance import sources_of
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.own_code import found_in_a_folder
from mission_tui.fleet.specs.quantity import parse_whole
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc import requests
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import SPECS, read_spec
from mission_tui.records.runs.checkpoint import (
    Manifest,
    best_checkpoint,
    list_checkpoints,
    newest_undamaged,
    verify_checkpoint,
)
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.children import Task, TaskError, run_task
from mission_tui.supervisor.launchers.order import Caller, as_module
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs

Objection = Callable[[LiveRun], str | None]


def no_objection(_run: LiveRun) -> str | None:
    """Nothing is known against it."""
    return None


def check_runs_are_ours(core: Core, request: requests.OperatorRequest) -> None:
    """Raise `UsageError` for a request that would act on a run which is foreign, or whose specs were changed.

    Every request that names runs comes through here. Looking may be done at all of them, and removing: that starts
    nothing and signals nobody.
    """
    starts = True
    match request:
        case requests.Act():
            refs, verb, starts = request.runs, str(request.verb), False
        case requests.Undo():
            refs, verb, starts = request.runs, "undo", False
        case requests.Rename() | requests.Note() | requests.Label() | requests.Mark():
            refs, verb, starts = (request.run,), type(request).__name__.lower(), False
        case requests.Resume():
            refs, verb = (request.run,), "branch" if request.branch else "resume"
        case requests.Try():
            refs, verb, starts = (request.run,), "try", request.do in ("begin", "take")
        case (
            requests.Set()
            | requests.Clone()
            | requests.Apply()
            | requests.Evaluate()
            | requests.Export()
            | requests.Film()
            | requests.Play()
        ):
            refs, verb = (request.run,), type(request).__name__.lower()
        case _:
            return
    for ref in refs:
        for run_id in _meant(core, ref):
            core.check_ours(run_id, verb, starts=starts)


def _meant(runs: Runs, ref: str) -> tuple[str, ...]:
    """The runs that `ref` means; none where it means none: the handler of the request says so."""
    try:
        return runs.store.resolve(ref)
    except UsageError:
        return ()


def live_targets(
    runs: Runs, refs: Sequence[str], verb: str, detail: Objection, passing: Container[str] = ()
) -> tuple[list[LiveRun], list[str]]:
    """The live runs that `refs` mean, and notes about those of `@live`, or of a group, that were passed over.

    Which runs can take the verb says the catalogue of commands; `detail` is what only the supervisor knows against it.
    Runs in `passing` have had their answer. Raises `UsageError` when a run that was named cannot take the verb; then
    nothing is to be done to any.
    """
    chosen: dict[str, LiveRun] = {}
    notes: list[str] = []
    for ref in refs:
        meant = runs.store.resolve(ref)
        for run_id in meant:
            run = runs.live.get(run_id)
            if run_id in passing:
                continue
            runs.fetch(run_id)
            name = runs.store.view(run_id).name
            if run is None:
                against: str | None = _over(runs, run_id)
            else:
                view = runs.store.view(run_id)
                against = never(verb, view) or _unseen(run) or objection(verb, view)
                against = against or detail(run)
            if run is not None and against is None:
                chosen[run_id] = run
            elif ref == "@live" or len(meant) > 1:
                notes.append(f"{name} was passed over: {against}")
            else:
                raise UsageError(f"cannot {verb} {name}: {against}")
    return list(chosen.values()), notes


def _unable(runs: Runs, run_id: str, verb: str) -> str | None:
    """Why the run, whatever its state, cannot take `verb`; None when it can."""
    return refusal(runs.store.view(run_id).can, verb)


def require(runs: Runs, run_id: str, verb: str) -> None:
    """Raise `UsageError` for a run that cannot take `verb` whatever its state."""
    against = _unable(runs, run_id, verb)
    if against is not None:
        raise UsageError(f"cannot {verb} {runs.store.view(run_id).name}: {against}")


def the_finding(runs: Runs, run_id: str, named: str) -> Finding:
    """The finding of the run, as it stands now, by its id, its rule, or its number in what `findings` shows.

    Raises `UsageError` with the nearest.
    """
    view = runs.store.view(run_id)
    if named.isdecimal():
        if not 1 <= int(named) <= len(view.findings):
            has = f"it has 1 to {len(view.findings)}" if view.findings else "it has none"
            raise UsageError(f"{view.name} has no finding {named}: {has}")
        named = view.findings[int(named) - 1].id
    named = next((it.id for it in view.findings if it.rule == named), named)
    findings = runs.store.run(run_id).journal.findings
    if named not in findings:
        raise UsageError(
            f"{view.name} has no finding '{named}'{nearest(named, findings) if findings else ': it has none'}"
        )
    return findings[named]


def _unseen(run: LiveRun) -> str | None:
    """Why none of the run's processes can be reached: then nothing is journaled either that would be done later."""
    return f"it is {run.unseen}" if run.unseen and not run.outlived else run.unseen or None


def check_seen(runs: Runs, run_id: str, verb: str) -> None:
    """Raise `UsageError` for a live run of which no process can be reached now."""
    run = runs.live.get(run_id)
    if run is not None and (against := _unseen(run)) is not None:
        raise UsageError(f"cannot {verb} {runs.store.view(run_id).name}: {against}")


def _over(runs: Runs, run_id: str) -> str:
    said = {"parked": "it is parked", "queued": "it waits for its restart"}
    return said.get(runs.store.run(run_id).state, "it has ended")


class Subject(Struct, frozen=True):
    """A checkpoint of a run, its spec, and who launched it."""

    run: RunDir
    checkpoint: str
    spec: Spec
    caller: Caller
    lack: str = ""
    """The variables of the run whose values are lost."""
    specs: Mapping[str, str] = {}
    """SHA-256 of the specs that were sealed: the process reads them again."""

    def task(self, module: str, *words: str, attended: bool = False) -> Task:
        """A short process that is `module` with `words` in the run's own Python.

        A run that was launched in a folder that is gone is played from its own, unless its code came from there. Raises
        `PresetError`, and `UsageError` in that case.
        """
        argv, home = as_module(self.spec, self.caller, module)
        if not Path(home.cwd).is_dir():
            if sources_of(self.spec):
                raise UsageError(
                    f"{self.run.id} was launched in {home.cwd}, which is gone, and code of its own may come from "
                    "there; put the folder back"
                )
            home = replace(home, cwd=str(self.run.path))
        environ = {**home.environ, SPECS: json.dumps(dict(self.specs))}
        return Task((*argv, *words), home.cwd, environ, about=self.run.id, attended=attended, limits=home.limits)

    async def hear(self, task: Task) -> AsyncGenerator[dict[str, Any]]:
        """What the process says. Raises `TaskError`, with the variables that it may have failed for."""
        async with aclosing(run_task(task)) as hearing:
            try:
                async for said in hearing:
                    yield said
            except TaskError as error:
                if not self.lack:
                    raise
                raise TaskError(
                    f"{error}; {self.run.id} was trained with {self.lack}: export what is missing and ask again",
                    error.exit_code,
                ) from error


async def subject_of(
    core: Core, ref: str, checkpoint: str | None, verb: str, environ: Mapping[str, str] | None = None
) -> Subject:
    """The named checkpoint of the run, for `verb`: by its step, "best" or "latest"; None takes the newest.

    Variables of the run that are not in memory are taken from `environ`, that of the client that asks.

    Raises `UsageError` without one, `CheckpointError` where the newest is damaged: an older one has to be named.
    """
    run_id = resolve_run(core, ref)
    require(core, run_id, verb)
    run = core.run_dir(run_id)
    if checkpoint == "best":
        name = await asyncio.to_thread(_best, run)
    elif checkpoint not in (None, "latest"):
        name = named_checkpoint(run, checkpoint)
    else:
        newest = await asyncio.to_thread(newest_undamaged, run.checkpoints)
        if newest is None:
            view = core.store.view(run_id)
            hint = "" if view.state in OVER else " yet; `mission-tui checkpoint` asks for one"
            raise UsageError(f"{view.name} has no checkpoint{hint}")
        name = newest.name
    known = core.store.run(run_id)
    spec = known.spec if known.spec is not None else read_spec(run.spec)
    recalled = core.variables.recover(core.variables.order_of(run, known.journal.attempt), spec, environ)
    return Subject(run, name, spec, recalled.caller, recalled.lack, core.seals.sealed_specs(run))


async def changed_source(core: Core, subject: Subject) -> str:
    """That the code which the task comes from is not what the checkpoint was trained on, in a sentence; else empty."""
    sources = sources_of(subject.spec)
    if not sources:
        return ""
    attempt = max(
        (it.attempt for it in list_checkpoints(subject.run.checkpoints) if it.name == subject.checkpoint), default=1
    )
    since = await core.provenance.every_difference(subject.run, attempt, subject.caller, sources)
    for change in since:
        if change.name.startswith("source of"):
            return (
                f"{change.name} is {change.now} now and was {change.was} when {subject.run.id} was trained: its "
                "returns may be those of another task"
            )
    return ""


def _best(run: RunDir) -> str:
    """The checkpoint of the highest mean return. Raises `UsageError` where no return is known of any."""
    name = best_checkpoint(run, list_checkpoints(run.checkpoints))
    if name is None:
        raise UsageError(f"no return is known of any checkpoint of {run.id}; name one by its step, or say 'latest'")
    return name


def named_checkpoint(run: RunDir, name: str) -> str:
    """The checkpoint `name`, as `meant` understands it. Raises `UsageError` with the nearest."""
    names = [manifest.name for manifest in list_checkpoints(run.checkpoints)]
    if (found := meant(name, names)) is None:
        raise UsageError(f"{run.id} has no checkpoint '{name}'{_those_there(name, names)}")
    return found


_NAMED = 8
"""So many checkpoints are named one by one; of more, those about the step that was asked for."""


def _those_there(name: str, names: Sequence[str]) -> str:
    """Which there are instead, after what was asked for."""
    steps, known = parse_whole(name), [it for it in names if it.isdigit()]
    if len(names) <= _NAMED:
        return f"{nearest(name, names)}; it has {', '.join(names) or 'none'}"
    if steps is None or not known:
        return f"{nearest(name, names)}; it has {len(names)}, from {names[0]} to {names[-1]}"
    about = sorted(sorted(known, key=lambda it: abs(int(it) - steps))[: _NAMED // 2])
    return f"; of its {len(names)} the nearest are {', '.join(about)}"


def meant(name: str, names: Sequence[str]) -> str | None:
    """Which of the checkpoints `names` is called `name`: by its own, by its steps (`100352`, `1M`), or as screens round
    them (`100k`) where that is one alone.
    """
    steps = parse_whole(name)
    known = {it: int(it) for it in names if it.isdigit()}
    found = [it for it in names if it == name or (steps is not None and known.get(it) == steps)]
    if not found and steps is not None and name[-1:].isalpha():
        found = [it for it, at in known.items() if abs(at - steps) <= _rounded_by(name, steps)]
        return found[0] if len(found) == 1 else None
    return found[0] if found else None


def _rounded_by(text: str, steps: int) -> float:
    """How far from `steps` a number may be that is shown as `text`, such as `1.2M`: half of its last digit."""
    number = text.strip()[:-1]
    return 0.5 * steps / (float(number) or 1.0) / 10.0 ** len(number.partition(".")[2])


def last_good(run: RunDir, finding: Finding, findings: Iterable[Finding] = ()) -> Manifest | None:
    """The newest verified checkpoint taken before the finding's trouble began, None if there is none; and before any
    other of the run's `findings` began that is open and says that the policy was harmed.

    It is looked for in the finding's attempt, then in the one that this attempt went on from, and so on: what an
    earlier attempt saved after the point that was gone back to is not the past of this policy.
    """
    starts = {
        event.attempt: event.checkpoint
        for event in read_all(run.events, FleetEvent)[0]
        if isinstance(event, AttemptStarting)
    }
    manifests = {manifest.name: manifest for manifest in list_checkpoints(run.checkpoints)}
    attempt, before = finding.attempt, harmed_from(finding, findings)
    while attempt > 0:
        own = [it for it in manifests.values() if it.attempt == attempt and it.update < before]
        begun = manifests.get(starts.get(attempt) or "")
        for manifest in (*reversed(own), *([begun] if begun is not None and begun.update < before else [])):
            with suppress(CheckpointError):
                return verify_checkpoint(run.checkpoints / manifest.name)
        if begun is None:
            return None
        # A later attempt may have saved the same step under the same name: go down whatever the manifest says.
        attempt, before = min(begun.attempt, attempt - 1), min(begun.update, before)
    return None


def caller_for(core: Core, run_id: str, request: requests.ContinuingRequest) -> Caller:
    """The client that asks, where it says who it is; else who launched the newest attempt of `run_id`. A client that
    asks from a folder without the run's own code has it run where that lies.

    Raises `UsageError` as `Variables.caller_of`.
    """
    if request.python is not None and request.cwd is not None and request.environ is not None:
        folder = _folder_of_its_code(core, run_id, request.cwd)
        return Caller(request.python, folder, request.environ, limits=request.limits)
    return core.variables.caller_of(core.run_dir(run_id), core.store.run(run_id).journal.attempt)


def _folder_of_its_code(core: Core, run_id: str, asked: str) -> str:
    """`asked`, or the folder of the newest attempt where code of the run lies that is not in `asked`."""
    known = core.store.run(run_id)
    paths = () if known.spec is None else found_in_a_folder(known.spec)
    if not paths:
        return asked
    try:
        before = core.variables.order_of(core.run_dir(run_id), known.journal.attempt).cwd
    except UsageError:
        return asked
    lies = [path for path in paths if Path(before, path).exists()]
    there = any(Path(asked, path).exists() for path in lies)
    return before if lies and not there else asked


def folder_change(request: requests.ContinuingRequest, caller: Caller) -> tuple[Change, ...]:
    """A note where `caller_for` has the run go on in another folder than that of the client."""
    if request.cwd is None or request.cwd == caller.cwd:
        return ()
    why = "its own code lies in the folder of its last attempt, and not in the one that you ask from"
    return (Change("folder", request.cwd, caller.cwd, "note", why),)
