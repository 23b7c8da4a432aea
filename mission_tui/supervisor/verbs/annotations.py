"""Label, note, rename and mark: what people say of a run and of its findings, journaled; no judgement changes.

Labels are short words by which to find runs of a kind. The newest note is shown with the run. A name is what people
call it; its id, and with it its folder, stays for good. A mark acknowledges a finding or silences a rule for the run.
"""

from __future__ import annotations

from msgspec import structs

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.events.findings import GRAVITY
from mission_tui.fleet.events.journal import FindingMarked, RunLabelled, RunNoted, RunRenamed
from mission_tui.fleet.history.journal_state import JournalState
from mission_tui.fleet.history.run import NOTE_CHARS
from mission_tui.fleet.launch_plan import LABEL, LONGEST_LABEL
from mission_tui.fleet.specs.thresholds import Limits
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Label, Mark, Note, Rename
from mission_tui.supervisor.runs.catalog import resolve_run
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.targets import the_finding

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
