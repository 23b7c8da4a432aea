"""Which live runs a request means: the words resolved, each run once, and all of them fit for the verb or none."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.commands import objection, refusal
from mission_tui.fleet.events.findings import Finding
from mission_tui.ipc.requests import (
    Act,
    Apply,
    Clone,
    Evaluate,
    Export,
    Label,
    Mark,
    Note,
    OperatorRequest,
    Rename,
    Resume,
    Set,
    Undo,
)
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun

__all__ = ["check_runs_are_ours", "check_seen", "live_targets", "require", "the_finding"]

Objection = Callable[[LiveRun], str | None]


def _nothing(_run: LiveRun) -> str | None:
    """Nothing is known against it."""
    return None


def check_runs_are_ours(core: Core, request: OperatorRequest) -> None:
    """Raise `UsageError` for a request that would act on a run which is foreign, or whose specs were changed.

    Every request that names runs comes through here. Looking may be done at all of them, and removing: that starts
    nothing and signals nobody.
    """
    starts = True
    match request:
        case Act():
            refs, verb, starts = request.runs, str(request.verb), False
        case Undo():
            refs, verb, starts = request.runs, "undo", False
        case Rename() | Note() | Label() | Mark():
            refs, verb, starts = (request.run,), type(request).__name__.lower(), False
        case Resume():
            refs, verb = (request.run,), "branch" if request.branch else "resume"
        case Set() | Clone() | Apply() | Evaluate() | Export():
            refs, verb = (request.run,), type(request).__name__.lower()
        case _:
            return
    for ref in refs:
        for run_id in _meant(core, ref):
            core.check_ours(run_id, verb, starts=starts)


def _meant(core: Core, ref: str) -> tuple[str, ...]:
    """The runs that `ref` means; none where it means none: whoever carries out the request says so."""
    try:
        return core.store.resolve(ref)
    except UsageError:
        return ()


def live_targets(
    core: Core, refs: Sequence[str], verb: str, detail: Objection = _nothing, passing: Container[str] = ()
) -> tuple[list[LiveRun], list[str]]:
    """The live runs that `refs` mean, and notes about those of `@live`, or of a group, that were passed over.

    Which runs can take the verb says the catalogue of commands; `detail` is what only the supervisor knows against it.
    Runs in `passing` have had their answer. Raises `UsageError` when a run that was named cannot take the verb; then
    nothing is to be done to any.
    """
    chosen: dict[str, LiveRun] = {}
    notes: list[str] = []
    for ref in refs:
        meant = core.store.resolve(ref)
        for run_id in meant:
            run = core.live.get(run_id)
            if run_id in passing:
                continue
            core.fetch(run_id)
            name = core.store.view(run_id).name
            if run is None:
                against: str | None = _over(core, run_id)
            else:
                view = core.store.view(run_id)
                against = refusal(view.can, verb) or _unseen(run) or objection(verb, view.can, view.state)
                against = against or detail(run)
            if run is not None and against is None:
                chosen[run_id] = run
            elif ref == "@live" or len(meant) > 1:
                notes.append(f"{name} was passed over: {against}")
            else:
                raise UsageError(f"cannot {verb} {name}: {against}")
    return list(chosen.values()), notes


def _unable(core: Core, run_id: str, verb: str) -> str | None:
    """Why the run, whatever its state, cannot take `verb`; None when it can."""
    return refusal(core.store.view(run_id).can, verb)


def require(core: Core, run_id: str, verb: str) -> None:
    """Raise `UsageError` for a run that cannot take `verb` whatever its state."""
    against = _unable(core, run_id, verb)
    if against is not None:
        raise UsageError(f"cannot {verb} {core.store.view(run_id).name}: {against}")


def the_finding(core: Core, run_id: str, finding_id: str) -> Finding:
    """The finding of the run, as it stands now. Raises `UsageError` with the nearest."""
    findings = core.store.run(run_id).journal.findings
    if finding_id not in findings:
        name = core.store.view(run_id).name
        raise UsageError(f"{name} has no finding '{finding_id}'{nearest(finding_id, findings)}")
    return findings[finding_id]


def _unseen(run: LiveRun) -> str | None:
    """Why nobody of the run can be told anything: then nothing is written down either that would be done later."""
    return f"it is {run.unseen}" if run.unseen and not run.outlived else run.unseen or None


def check_seen(core: Core, run_id: str, verb: str) -> None:
    """Raise `UsageError` for a live run of which nobody can be told anything now."""
    run = core.live.get(run_id)
    if run is not None and (against := _unseen(run)) is not None:
        raise UsageError(f"cannot {verb} {core.store.view(run_id).name}: {against}")


def _over(core: Core, run_id: str) -> str:
    said = {"parked": "it is parked", "queued": "it waits for its restart"}
    return said.get(core.store.run(run_id).state, "it has ended")
