"""What an `Act` asks of live runs (stop, kill, park, pause, freeze, checkpoint), and the shutdown of the supervisor.
And what people say of a run and of its findings: label, note, rename and mark, which are journaled and change no
judgement.

A stop saves and ends; a kill loses what was not saved; a parked run has saved, holds nothing and waits to be resumed. A
paused one blocks at its next update boundary and keeps what it holds, GPU memory included; a frozen one stands where it
is, at once.

Labels are short words by which to find runs of a kind. The newest note is shown with the run. A name is what people
call it; its id, and with it its folder, stays for good. A mark acknowledges a finding or silences a rule for the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.events.findings import GRAVITY
from mission_tui.fleet.events.journal import FindingMarked, RunLabelled, RunNoted, RunRenamed
from mission_tui.fleet.history.journal_state import NOTE_CHARS, JournalState
from mission_tui.fleet.launch_plan import LABEL, LONGEST_LABEL
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Label, Mark, Note, Rename, Shutdown
from mission_tui.supervisor.ending.ladder import freeze_run, kill_now, stop_gracefully
from mission_tui.supervisor.lifecycle.attempts import ask_checkpoints
from mission_tui.supervisor.lifecycle.outcome import call_off_restarts, waiting_for_restart
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import ON_REQUEST, Core
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.targets import Objection, live_targets, no_objection, the_finding


def _to_end(
    runs: Runs, request: Act, detail: Objection = no_objection
) -> tuple[tuple[str, ...], list[LiveRun], list[str]]:
    """The runs that waited for a restart, which is called off; the live runs that are to end; notes. Raises as
    `live_targets`.
    """
    waiting = waiting_for_restart(runs, request.runs)
    live, notes = live_targets(runs, request.runs, request.verb, detail, waiting)
    call_off_restarts(runs, waiting, request.verb)
    return waiting, live, notes


def _accepted(request: Act, runs: Sequence[LiveRun], notes: Sequence[str], waiting: tuple[str, ...] = ()) -> Accepted:
    return Accepted(re=request.id, runs=waiting + tuple(run.id for run in runs), notes=tuple(notes))


async def stop(core: Core, request: Act) -> Accepted:
    """Ask the runs to save and stop; a run that is stopping already goes on doing so, and stays stopped."""
    waiting, runs, notes = _to_end(core, request)
    for run in runs:
        run.end_for_good()
        if "stop" in core.store.run(run.id).journal.asked:
            notes.append(f"{core.store.view(run.id).name} is stopping already")
            continue
        core.record_verb(run, "stop")
        stop_gracefully(core, run)
    return _accepted(request, runs, notes, waiting)


async def kill(core: Core, request: Act) -> Accepted:
    """Kill the runs through their keepers. Asking again kills again."""

    def detail(run: LiveRun) -> str | None:
        if "unverifiable" not in core.store.view(run.id).flags:
            return None
        who = run.launcher.describe(run.job)
        pids = f" ({who})" if who else ""
        return f"its processes{pids} cannot be verified as its own; check them and end them yourself"

    waiting, runs, notes = _to_end(core, request, detail)
    for run in runs:
        core.record_verb(run, "kill")
        kill_now(core, run)
    return _accepted(request, runs, notes, waiting)


async def park(core: Core, request: Act) -> Accepted:
    """Ask the runs to save and make room. A run is parked when its trainer has saved and is gone."""
    waiting, runs, notes = _to_end(core, request)
    for run in runs:
        run.end_for_good()
        core.record_verb(run, "park")
        stop_gracefully(core, run)
    return _accepted(request, runs, notes, waiting)


async def pause(core: Core, request: Act) -> Accepted:
    """Ask the runs to pause. A run is paused when its trainer says so."""
    runs, notes = live_targets(core, request.runs, "pause", _unreached)
    for run in runs:
        core.record_verb(run, "pause")
        run.pause()
    return _accepted(request, runs, notes)


async def freeze(core: Core, request: Act) -> Accepted:
    """Freeze the runs; notes name processes that did not stop. A run is frozen when it was seen to be."""

    def detail(run: LiveRun) -> str | None:
        if run.freezes:
            return "it is frozen"
        return None if run.job_status.trains else "its trainer is not known yet; try again in a moment"

    runs, notes = live_targets(core, request.runs, "freeze", detail)
    for run in runs:
        core.record_verb(run, "freeze")
    for run, stand in zip(runs, await asyncio.gather(*(freeze_run(core, run) for run in runs)), strict=True):
        if stand is not None and stand.running:
            pids = ", ".join(map(str, stand.running))
            notes.append(f"{core.store.view(run.id).name}: processes {pids} did not stop; they stop when they can")
    return _accepted(request, runs, notes)


async def checkpoint(core: Core, request: Act) -> Accepted:
    """Ask the runs for a checkpoint, and wait for what comes of it as long as was asked; it shows in snapshots too."""
    runs, notes = live_targets(core, request.runs, "checkpoint", _unreached)
    outcomes = await ask_checkpoints(core, runs, request.wait_s)
    return Accepted(re=request.id, runs=tuple(run.id for run in runs), notes=tuple(notes), checkpoints=outcomes)


def _unreached(run: LiveRun) -> str | None:
    """Why nobody there can be asked now; None where its trainer can."""
    return None if run.link is not None else "its trainer is not connected; try again in a moment"


ACTS = {"stop": stop, "kill": kill, "pause": pause, "freeze": freeze, "park": park, "checkpoint": checkpoint}
"""The handler of each word that an `Act` may say."""


async def shutdown(core: Core, request: Shutdown) -> Accepted:
    """Leave once the answer is said. With `with_runs`, the answer comes when every run has saved and ended."""
    runs = [run for run in core.live.values() if not (request.with_runs and run.unseen)]
    unseen = [f"{core.name_of(run.id)} goes on: {run.unseen}" for run in core.live.values() if run.unseen]
    if request.with_runs:
        call_off_restarts(core, waiting_for_restart(core, core.store.live_ids()), "stop")
        for run in runs:
            run.end_for_good()
            if "stop" not in core.store.run(run.id).journal.asked:
                core.record_verb(run, "stop")
                stop_gracefully(core, run)
        await asyncio.gather(*(run.gone.wait() for run in runs))
    core.request_exit(ON_REQUEST)
    notes = tuple(unseen) if request.with_runs or not runs else (f"{len(runs)} runs go on",)
    return Accepted(re=request.id, runs=tuple(run.id for run in runs) if request.with_runs else (), notes=notes)


MOST_LABELS = 16
RULES = frozenset(Limits.__struct_encode_fields__)


async def label(runs: Runs, request: Label) -> Accepted:
    """Journal what changes. Raises `UsageError` for a word that can be no label, or is none of the run's."""
    run_id = resolve_run(runs, request.run)
    has = runs.store.run(run_id).journal.labels
    _check_labels(runs.store.view(run_id).name, has, request)
    added = tuple(dict.fromkeys(word for word in request.add if word not in has))
    removed = tuple(dict.fromkeys(request.remove))
    if not added and not removed:
        return Accepted(re=request.id, runs=(run_id,), notes=("it has these labels already",))
    runs.record_request_of(run_id, lambda seq, t: RunLabelled(seq, t, added, removed))
    return Accepted(re=request.id, runs=(run_id,))


def _check_labels(name: str, has: set[str], request: Label) -> None:
    if not request.add and not request.remove:
        raise UsageError("give at least one +LABEL to put on or -LABEL to take off")
    for word in request.add:
        if not LABEL.fullmatch(word):
            raise UsageError(
                f"label {word[:40]!r} cannot be used: give 1 to {LONGEST_LABEL} letters, digits, '.', '_' or '-', "
                "first a letter or digit"
            )
        if word in request.remove:
            raise UsageError(f"label '{word}' is both put on and taken off; name it once")
    for word in request.remove:
        if word not in has:
            raise UsageError(
                f"{name} has no label '{word[:40]}'{nearest(word, has)}; it has {', '.join(sorted(has)) or 'none'}"
            )
    if len((has | set(request.add)) - set(request.remove)) > MOST_LABELS:
        raise UsageError(f"{name} would have more than {MOST_LABELS} labels; take some off")


async def note(runs: Runs, request: Note) -> Accepted:
    """Journal the text as one line. Raises `UsageError` for one that says nothing or is too long."""
    run_id = resolve_run(runs, request.run)
    text = clean(request.text, NOTE_CHARS + 1)
    if not text:
        raise UsageError("the note is empty; write a few words in quotes")
    if len(text) > NOTE_CHARS:
        raise UsageError(f"a note is one line of at most {NOTE_CHARS} characters; this has {len(request.text):,}")
    runs.record_request_of(run_id, lambda seq, t: RunNoted(seq, t, text))
    return Accepted(re=request.id, runs=(run_id,))


async def rename(runs: Runs, request: Rename) -> Accepted:
    """Journal the new name, unless it is the run's already. Raises `UsageError` for one that cannot be had."""
    run_id = resolve_run(runs, request.run)
    was = runs.store.view(run_id).name
    if request.name == was:
        return Accepted(re=request.id, runs=(run_id,), notes=(f"{was} is its name already",))
    runs.names.check(request.name, run_id)
    namesake = next((it for it in runs.store.run_ids() if runs.store.view(it).name == request.name), None)
    runs.record_request_of(run_id, lambda seq, t: RunRenamed(seq, t, request.name))
    notes = [f"{was} is called {request.name} from now on"]
    if namesake is not None:
        notes.append(f"so is a run that has ended, {namesake}: until one is renamed, only its id says which is meant")
    return Accepted(re=request.id, runs=(run_id,), notes=tuple(notes))


async def mark(runs: Runs, request: Mark) -> Accepted:
    """Journal the mark, unless it is there already. Raises `UsageError` for what cannot be marked.

    Runs that have ended can be marked too.
    """
    run_id = resolve_run(runs, request.run)
    request = _checked_mark(runs, run_id, request)
    if _stands(runs.store.run(run_id).journal, request):
        what = request.rule or request.finding
        return Accepted(re=request.id, runs=(run_id,), notes=(f"{what} is {request.mark} already",))
    runs.record_request_of(run_id, lambda seq, t: FindingMarked(seq, t, request.mark, request.finding, request.rule))
    return Accepted(re=request.id, runs=(run_id,))


def _checked_mark(runs: Runs, run_id: str, request: Mark) -> Mark:
    """`request` with the id of the finding that it names in whatever way. Raises `UsageError`."""
    if bool(request.finding) == bool(request.rule):
        raise UsageError("a mark is for one finding or for one rule; name exactly one")
    if request.rule:
        if request.rule not in RULES:
            raise UsageError(f"there is no health rule '{request.rule}'{nearest(request.rule, RULES)}")
        if request.mark == "acknowledged":
            raise UsageError(f"'{request.rule}' is a rule and can be silenced; only findings are acknowledged")
        return request
    finding = the_finding(runs, run_id, request.finding)
    if request.mark == "silenced":
        raise UsageError(f"'{finding.id}' is a finding, not a rule; name its rule {finding.rule} to silence it")
    if finding.state == "cleared":
        raise UsageError(f"{finding.id} is over since update {finding.last_update}; there is nothing to mark")
    return structs.replace(request, finding=finding.id)


def _stands(journal: JournalState, request: Mark) -> bool:
    if request.rule:
        return (request.rule in journal.silenced) == (request.mark == "silenced")
    known, now = journal.acknowledged.get(request.finding), journal.findings[request.finding].severity
    return (known is not None and GRAVITY[known] >= GRAVITY[now]) if request.mark == "acknowledged" else known is None
