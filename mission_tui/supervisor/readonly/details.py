"""Details: all that is known of one run beyond its view, read from its directory on demand.

What was done to it and by whom is read out of its journal: people, rules and its own restarts, oldest first.

Of foreign runs it is everything that they would run: what a person is shown before one is adopted.
"""

from __future__ import annotations

import asyncio
import shlex
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import structs

from mission_tui.errors import DamagedError, UsageError
from mission_tui.fleet.events import journal
from mission_tui.fleet.events.outcome import outcome_word
from mission_tui.fleet.events.provenance import diff_of
from mission_tui.fleet.history.journal_state import NOTE_CHARS
from mission_tui.fleet.search import SearchResult
from mission_tui.fleet.specs.own_code import own_code
from mission_tui.fleet.specs.spec import Tracker
from mission_tui.fleet.text import clean, spelled_out
from mission_tui.ipc.replies import (
    Adoptable,
    AdoptableReply,
    AdoptRow,
    AttemptView,
    AuditEntry,
    CheckpointView,
    DetailsReply,
)
from mission_tui.ipc.requests import GetAdoptable, GetDetails
from mission_tui.paths import sha256
from mission_tui.plain_files import names_in, read_plain
from mission_tui.records.atomic import StorageError, read_json
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import LaunchOrder, TrackState, read_handle, read_spec
from mission_tui.records.runs.checkpoint import Manifest, list_checkpoints
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals, digest_of, orders_of, words_of_change
from mission_tui.records.runs.trash import tree_bytes
from mission_tui.supervisor.runs import RunCatalog, resolve_run
from mission_tui.supervisor.runs.run_on_disk import RunOnDisk, newest_attempt, read_run, read_specs

SHOWN_EVALUATIONS = 50
EVALUATION_BYTES = 1 << 18
MOST_EVALUATIONS = 10_000
SEARCH_BYTES = 8 << 20
MOST_NUMBER = 2**63
"""No integer of an evaluation means more; who reads the answer may know no larger ones."""
SHOWN = 200
_ITSELF = "the run's own rule"


async def details(core: RunCatalog, request: GetDetails) -> DetailsReply:
    """The run's spec, effective values, attempts, checkpoints (unverified) and newest evaluations."""
    run_id = resolve_run(core, request.run)
    known, run = core.store.run(run_id), core.run_dir(run_id)
    spec = known.spec or read_spec(run.spec)
    read, size = await asyncio.to_thread(lambda: (_read(run, known.journal.attempt), tree_bytes(run.path)))
    core.record_size(run_id, size)
    return DetailsReply(re=request.id, view=core.store.view(run_id), spec=spec, **read)


def _read(run: RunDir, attempt: int) -> dict[str, Any]:
    try:
        manifests = list_checkpoints(run.checkpoints)
    except StorageError:
        # That none can be saved or read there is a finding; all else about the run is known without.
        manifests = []
    events = read_all(run.events, journal.FleetEvent)[0]
    return {
        "effective": _effective(run, attempt),
        "audit_log": audit_log_of(events),
        "attempts": _attempts(events, {manifest.name: manifest.timesteps for manifest in manifests}),
        "checkpoints": tuple(_checkpoint(manifest) for manifest in manifests),
        "evaluations": _evaluations(run.evaluations),
        "provenance": read_provenance(run, attempt),
        "search": _search(run),
    }


def _search(run: RunDir) -> SearchResult | None:
    """What the search has come to that the run drives; None where it drives none, or its file holds something else."""
    with suppress(OSError, ValueError, RecursionError):
        raw = read_plain(run.search, SEARCH_BYTES)
        return msgspec.convert(_cleaned(msgspec.json.decode(raw)), SearchResult)
    return None


def _effective(run: RunDir, attempt: int) -> dict[str, Any]:
    """What the model really uses; empty until the trainer has written it."""
    path = run.attempt(attempt).effective
    try:
        table: dict[str, Any] = _cleaned(read_toml(path, DamagedError)) if path.is_file() else {}
    except DamagedError as error:
        return {"damaged": {"effective.toml": clean(str(error))}}
    return table


def _attempts(events: Sequence[journal.FleetEvent], timesteps: dict[str, int]) -> tuple[AttemptView, ...]:
    views: list[AttemptView] = []
    for event in events:
        match event:
            case journal.AttemptStarting():
                first = event.checkpoint is None
                views.append(
                    AttemptView(
                        attempt=event.attempt,
                        started_t=event.t,
                        ended_t=None,
                        outcome=None,
                        cause=None,
                        from_checkpoint=event.checkpoint,
                        from_timesteps=0 if first else timesteps.get(event.checkpoint or ""),
                        changes=event.changes,
                    )
                )
            case journal.AttemptEnded() if views:
                word, cause = outcome_word(event.outcome), clean(event.outcome.cause, 400)
                views[-1] = msgspec.structs.replace(views[-1], ended_t=event.over_t, outcome=word, cause=cause)
    return tuple(views)


def _checkpoint(manifest: Manifest) -> CheckpointView:
    return CheckpointView(
        name=manifest.name,
        update=manifest.update,
        timesteps=manifest.timesteps,
        t=manifest.t,
        size_bytes=manifest.size_bytes,
        reason=clean(manifest.reason),
    )


def _evaluations(folder: Path) -> tuple[dict[str, Any], ...]:
    """The newest evaluations, oldest first; files that hold something else are passed over."""
    results = []
    for path in _newest(folder):
        with suppress(OSError, ValueError, RecursionError):
            raw = read_plain(path, EVALUATION_BYTES)
            results.append(_cleaned(msgspec.json.decode(raw, type=dict[str, Any])))
    return tuple(results)


def _newest(folder: Path) -> list[Path]:
    """The plain files that may be evaluations, the newest so many, oldest first."""
    found: list[tuple[float, str]] = []
    with suppress(OSError):
        for name in names_in(folder, MOST_EVALUATIONS):
            with suppress(OSError):
                facts = (folder / name).lstat()
                if name.endswith(".json") and stat.S_ISREG(facts.st_mode):
                    found.append((facts.st_mtime, name))
    return [folder / name for _, name in sorted(found)[-SHOWN_EVALUATIONS:]]


def _cleaned(value: Any) -> Any:
    """`value` with every text in it made harmless: foreign code may have written these files."""
    match value:
        case str():
            return clean(value, 400)
        case dict():
            return {clean(str(key)): _cleaned(item) for key, item in value.items()}
        case list():
            return [_cleaned(item) for item in value]
        case int() if abs(value) > MOST_NUMBER:
            return None
        case bool() | int() | float() | None:
            return value
        case _:
            return clean(str(value))


def audit_log_of(events: Sequence[journal.FleetEvent]) -> tuple[AuditEntry, ...]:
    """The newest entries: what was done to the run, when, by whom and with what."""
    rules = {event.finding.id: event.finding.rule for event in events if isinstance(event, journal.FindingChanged)}
    return tuple(entry for event in _by_people(events) for entry in _entries(event, rules))[-SHOWN:]


def _by_people(events: Sequence[journal.FleetEvent]) -> Iterator[journal.FleetEvent]:
    """All but what was asked for by a rule: its next line tells that it was."""
    for event, following in pairwise((*events, None)):
        by_rule = (
            isinstance(event, journal.Asked)
            and isinstance(following, journal.HealthActed)
            and following.act == event.verb
        )
        if event is not None and not by_rule:
            yield event


def _entries(event: journal.FleetEvent, rules: dict[str, str]) -> Iterator[AuditEntry]:
    match event:
        case journal.RunCreated():
            origin = event.origin.sentence if event.origin is not None else f"preset {event.preset}"
            after = f", to begin after {', '.join(event.after)}" if event.after else ""
            yield AuditEntry(t=event.t, what="launch", detail=clean(origin + after, NOTE_CHARS), by=event.asker)
        case journal.AttemptStarting() if event.attempt > 1:
            yield _attempt(event)
        case journal.Asked():
            yield AuditEntry(t=event.t, what=event.verb, by=event.asker)
        case journal.SettingsAsked():
            yield AuditEntry(t=event.t, what="set", detail=", ".join(diff_of(event.changes)), by=event.asker)
        case journal.PriorityAsked():
            yield AuditEntry(t=event.t, what="priority", detail=str(event.priority), by=event.asker)
        case journal.RunRenamed():
            yield AuditEntry(t=event.t, what="rename", detail=clean(event.name), by=event.asker)
        case journal.RunNoted():
            yield AuditEntry(t=event.t, what="note", detail=clean(event.text, NOTE_CHARS), by=event.asker)
        case journal.RunLabelled():
            words = [*(f"+{label}" for label in event.added), *(f"-{label}" for label in event.removed)]
            yield AuditEntry(t=event.t, what="label", detail=clean(" ".join(words)), by=event.asker)
        case journal.TrialBegun():
            yield AuditEntry(t=event.t, what="try", detail=clean(event.plan.settings, NOTE_CHARS), by=event.asker)
        case journal.TrialJudged():
            number, says = event.number, event.verdict.says
            yield AuditEntry(t=event.t, what="tried", detail=clean(f"trial {number}: {says} {event.verdict.why}"))
        case journal.TrialClosed():
            detail = clean(f"trial {event.number}: {event.how} {event.branch}")
            yield AuditEntry(t=event.t, what="try", detail=detail, by=event.asker)
        case journal.FindingMarked():
            yield AuditEntry(t=event.t, what=event.mark, detail=clean(event.rule or event.finding), by=event.asker)
        case journal.HealthActed(act="applied"):
            detail = clean(f"{event.finding} {event.detail}")
            yield AuditEntry(t=event.t, what="apply", detail=detail, by=event.asker)
        case journal.HealthActed(failed=name) if name:
            yield AuditEntry(t=event.t, what="failed", detail=clean(event.detail, NOTE_CHARS))
        case journal.HealthActed():
            rule = rules.get(event.finding, event.finding)
            yield AuditEntry(t=event.t, what=event.act, detail=clean(event.detail), by=clean(f"rule {rule}"))
        case _:
            yield from _unasked(event)


def _unasked(event: journal.FleetEvent) -> Iterator[AuditEntry]:
    """What happened unasked, and how attempts ended: it explains what people did next."""
    match event:
        case journal.DutyFailureSeen():
            yield AuditEntry(t=event.t, what="failed", detail=clean(f"{event.duty}: {event.why}", NOTE_CHARS))
        case journal.DutyDoneSeen():
            yield AuditEntry(
                t=event.t, what="done again", detail=clean(f"{event.duty}, after {event.times} failures", NOTE_CHARS)
            )
        case journal.RestartDue(after="request"):
            yield AuditEntry(t=event.t, what="queued", detail="it goes on when its group lets it", by=_ITSELF)
        case journal.RestartDue():
            wait_s = round(event.due_t - event.t)
            detail = f"{event.number} of {event.most} in a row, {f'in {wait_s} s' if wait_s > 0 else 'at once'}"
            yield AuditEntry(t=event.t, what="restart due", detail=f"{detail}, after a {event.after}", by=_ITSELF)
        case journal.RunParked():
            yield AuditEntry(t=event.t, what="park", detail=clean(event.why), by=_ITSELF)
        case journal.ClockStepped():
            how = "forward" if event.by_s > 0.0 else "back"
            yield AuditEntry(t=event.t, what="clock set", detail=f"{_how_far(abs(event.by_s))} {how}", by="outside")
        case journal.GoalReached():
            detail = clean(f"{event.goal} with update {event.update:,}, at {event.timesteps:,} steps")
            yield AuditEntry(t=event.t, what="goal reached", detail=detail)
        case journal.RunFrozen(by="outside"):
            # Where there is a reason it was no signal: the machine slept, or its engine has it stand.
            by = "outside" if event.why else "outside, by a signal"
            yield AuditEntry(t=event.t, what="freeze", detail=clean(event.why), by=by)
        case journal.RunThawed(by="outside"):
            yield AuditEntry(t=event.t, what="thaw", by="outside")
        case journal.AttemptEnded():
            cause = f"{outcome_word(event.outcome)}: {event.outcome.cause}".removesuffix(": ")
            yield AuditEntry(t=event.t, what="ended", detail=clean(cause, NOTE_CHARS))


def _how_far(seconds: float) -> str:
    """By how much a clock was set: seconds mean nothing to who looks for three hours."""
    for unit_s, word in ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 1.5 * unit_s:
            return f"{seconds / unit_s:.1f} {word}".replace(".0 ", " ")
    return f"{seconds:.0f} s"


def _attempt(event: journal.AttemptStarting) -> AuditEntry:
    again = bool(event.restart or event.reboots)
    origin = f"attempt {event.attempt} from {event.checkpoint or 'scratch'}"
    detail = ", ".join((origin, *diff_of(event.changes)))
    by = event.asker or (_ITSELF if again else "")
    return AuditEntry(t=event.t, what="restart" if again else "resume", detail=clean(detail, NOTE_CHARS), by=by)


SHEET_CHARACTERS = 1 << 20
"""More of one run is not read through by a person; what needs more to be shown is not adopted."""
ANSWER_CHARACTERS = 2 << 20
"""In one answer; further runs are asked for again, by name."""
MOST_ATTEMPTS = 1000
"""A run that is started a few times a day for a year has fewer."""
MOST_ORDERS_BYTES = 16 << 20
"""Of all launch orders of a run together."""


async def adoptable(core: RunCatalog, seals: Seals, request: GetAdoptable) -> AdoptableReply:
    """What each run would run. Raises `UsageError` for one that is ours already."""
    named = [resolve_run(core, ref) for ref in request.runs]
    items: list[Adoptable] = []
    wanted = list(dict.fromkeys(named or core.store.run_ids()))
    room = ANSWER_CHARACTERS
    while wanted and room > 0:
        run_id = wanted.pop(0)
        if not named:
            core.fetch(run_id)
            await asyncio.sleep(0)
        sheet = await asyncio.to_thread(adoption_sheet, core.run_dir(run_id), seals)
        name = core.store.view(run_id).name if run_id in core.store else run_id
        if sheet is not None:
            items.append(structs.replace(sheet, name=name))
            room -= sum(len(row.value) for row in sheet.rows)
        elif named and not request.every:
            raise UsageError(f"{name} is yours already")
    return AdoptableReply(re=request.id, items=tuple(items), more=tuple(wanted))


def adoption_sheet(run: RunDir, seals: Seals) -> Adoptable | None:
    """Why the run is not ours, or not as it was, and what it would run; None for one that is ours as it was.

    The digest is empty, and the reason says why, for one that cannot be adopted.
    """
    attempts = run.attempts()
    sizes = [size for number in attempts if (size := _size(run.attempt(number).launch)) is not None]
    if len(attempts) > MOST_ATTEMPTS or sum(sizes) > MOST_ORDERS_BYTES:
        why = seals.check(run, attempts[-1]).foreign or "it may be yours"
        return _refused(run, why, f"it has {len(attempts):,} attempts, and orders of {sum(sizes):,} bytes")
    with_order = [number for number in attempts if _size(run.attempt(number).launch) is not None]
    states = [seals.check(run, number) for number in with_order or [1]]
    foreign = next((sealed.foreign for sealed in states if sealed.foreign), "")
    why = foreign or next((words for sealed in states if (words := words_of_change(sealed.changed))), "")
    if not why:
        return None
    raw_digest, found, orders = digest_of(run), read_run(run), dict(orders_of(run))
    rows = tuple(dict.fromkeys(_rows(found, orders.values())))
    if found.unreadable:
        return _refused(run, why, found.unreadable)
    if newest_attempt(found) not in orders:
        return _refused(run, why, f"the launch order of its newest attempt, {newest_attempt(found)}, cannot be read")
    if sum(len(row.value) for row in rows) > SHEET_CHARACTERS:
        return _refused(run, why, f"what it would run takes more than {SHEET_CHARACTERS:,} characters to show")
    # The rows are part of it: what was shown was read after what was digested, and may have been changed in between.
    said = msgspec.json.encode((raw_digest, rows))
    return Adoptable(run=run.id, name="", foreign=bool(foreign), why=why, rows=rows, digest=sha256(said).hexdigest())


def _refused(run: RunDir, why: str, against: str) -> Adoptable:
    return Adoptable(run=run.id, name="", why=f"{why}; it cannot be adopted: {clean(against)}", rows=(), digest="")


def _size(path: Path) -> int | None:
    """Bytes of the file; None where there is none."""
    with suppress(OSError):
        return path.lstat().st_size
    return None


def _rows(found: RunOnDisk, orders: Iterable[LaunchOrder]) -> Iterator[AdoptRow]:
    """Everything that any attempt of it was started with, and what its specs name besides; variables come last."""
    orders = list(orders)
    for order in orders:
        yield _row("command", shlex.join(order.argv))
        yield _row("python", order.python or (order.argv[0] if order.argv else ""))
        yield _row("folder", order.cwd)
    for spec in (spec for spec in read_specs(found) if spec is not None):
        yield _row("environment", spec.env.id)
        for part in own_code(spec):
            yield _row(part.kind, part.value)
    for attempt in found.dir.attempts():
        with suppress(DamagedError, OSError):
            if (handle := read_handle(found.dir.attempt(attempt).handle)) is not None and handle.address:
                yield _row("ray address", handle.address)
    for name in get_args(Tracker):
        if name == "tensorboard":
            continue  # it writes into the run's folder and sends nothing
        # What was not passed on yet is, by the next supervisor, and into the run there that this file names.
        with suppress(DamagedError, OSError):
            if (state := read_json(found.dir.track(name), TrackState)) is not None:
                there = f", as its run {state.handle}" if state.handle else ""
                yield _row("tracker", f"sends settings and curves to what your {name} names{there}")
    for order in orders:
        for name, value in sorted(order.env.items()):
            yield _row("variable", f"{name}={value}")
        for name in sorted(set(order.withheld) - order.env.keys()):
            yield _row("variable", f"{name}=(a secret, which is not written down)")


def _row(kind: str, value: str) -> AdoptRow:
    """The whole of `value`: nothing that a person agrees to is cut off or taken out."""
    return AdoptRow(kind, spelled_out(value))
