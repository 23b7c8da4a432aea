"""Another attempt of a run: what it would be, the verdict on what would change, and its start once that is accepted.

A command goes on by its `run.resume_command`, or from its beginning once a person has said so. A run that restarts by
itself goes on as in the attempt before, from the newest checkpoint that verifies. Such runs come one after the other,
the oldest first, and each only when the machine and its own limits have room for it.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.journal import RestartDue, RunParked
from mission_tui.fleet.events.outcome import Finished
from mission_tui.fleet.events.processes import WaitSeen
from mission_tui.fleet.events.provenance import noted, sources_of
from mission_tui.fleet.history.restart_policy import ASKED, Row
from mission_tui.fleet.resume.judge import apply_choices, judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Grade, ResumeVerdict, Terms
from mission_tui.fleet.specs.preset import change, draft_change, with_words
from mission_tui.fleet.specs.spec import MISSION_GYM, RunSpec, Spec
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import VerdictReply
from mission_tui.ipc.requests import Apply, Resume
from mission_tui.plain_files import make_folder
from mission_tui.records.atomic import StorageError, storing
from mission_tui.records.runs.attempt import read_attempt_spec, read_spec, read_terms, write_spec, write_terms
from mission_tui.records.runs.checkpoint import DamagedCheckpoint, Manifest, newest_intact, verify_checkpoint
from mission_tui.records.runs.code_files import check_rules
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.launchers.order import (
    Caller,
    Spaces,
    absolute_paths,
    attempt_order,
    check_program,
    needs_no_preflight,
    preflight,
    with_spec_env,
)
from mission_tui.supervisor.lifecycle.attempts import begin, open_live_run
from mission_tui.supervisor.lifecycle.capacity import check_machine, refresh_reservations
from mission_tui.supervisor.lifecycle.outcome import due_restarts
from mission_tui.supervisor.lifecycle.run_queue import why_it_waits
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import damaged as file_damaged
from mission_tui.supervisor.runs.live_run import LiveRun
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import rule_files, write_snapshot
from mission_tui.supervisor.runs.targets import caller_for, folder_change

_CLIPPED_ROWS = 20
_STOPPED_LEARNING = frozenset({"policy-frozen", "entropy-collapse"})

log = logging.getLogger(__name__)


class NextAttempt(Struct, frozen=True, kw_only=True):
    """What another attempt would be: of which spec, on what terms, and whose. `agreed`: it was accepted before."""

    was: Spec
    now: Spec
    verdict: ResumeVerdict
    caller: Caller
    terms: Terms = AS_IT_WAS
    agreed: bool = False

    @property
    def start(self) -> str | None:
        """The checkpoint that it goes on from; None where it begins, or where only its program knows."""
        return None

    @property
    def passed_over(self) -> tuple[str, ...]:
        """Newer checkpoints than that, which are damaged."""
        return ()

    @property
    def remedies(self) -> tuple[str, ...]:
        """Those that were taken, as NAME:FIELD."""
        return tuple(f"{change.answered_by}:{change.name}" for change in self.verdict.changes if change.answered_by)

    @property
    def notes(self) -> tuple[str, ...]:
        """What changes, and what that does, a sentence each."""
        said = tuple(f"{change.name}: {change.was} -> {change.now}: {change.why}" for change in self.verdict.changes)
        return said if self.terms.sentence == "" else (*said, self.terms.sentence)


class Plan(NextAttempt, frozen=True, kw_only=True):
    """One that goes on from a verified checkpoint."""

    checkpoint: Manifest
    damaged: tuple[DamagedCheckpoint, ...] = ()
    """Newer ones that it passes over."""

    @property
    def start(self) -> str:
        """The checkpoint's name."""
        return self.checkpoint.name

    @property
    def passed_over(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.damaged)


def check_own_name(runs: Runs, run_id: str) -> None:
    """Raise `UsageError` where another live run took the name of `run_id` after that one had ended."""
    name = runs.store.view(run_id).name
    if holder := runs.names.taken_by(name, run_id):
        raise UsageError(
            f"cannot resume {run_id}: its name '{name}' is taken by {holder}; "
            f"`mission-tui rename {run_id} NAME` gives it another one"
        )


class StartCheck(Struct, frozen=True):
    """Whether an attempt can start now: `warnings` say what the machine is short of, `refusal` why it cannot."""

    warnings: tuple[str, ...] = ()
    refusal: MissionError | None = None

    @property
    def not_now(self) -> str:
        """Why it cannot start now, in a sentence; empty where it can."""
        return "" if self.refusal is None else str(self.refusal)

    def check(self) -> None:
        """Raise the refusal, if there is one."""
        if self.refusal is not None:
            raise self.refusal


def room_for(
    core: Core, run_id: str, spec: Spec, ending: LiveRun | None = None, *, own_name: bool = True
) -> StartCheck:
    """The room for an attempt of `spec` once `ending` is gone. A branch does not need the `own_name` of `run_id`.

    Nothing is raised: a verdict can be had all the same.
    """
    try:
        core.check_room()
        if own_name:
            check_own_name(core, run_id)
        return StartCheck(check_machine(core, (spec,), ending))
    except PresetError as error:
        return StartCheck(refusal=PresetError(f"{core.store.view(run_id).name} cannot go on now: {error}"))
    except MissionError as error:
        return StartCheck(refusal=error)


def damaged_changes(start: Manifest | None, damaged: tuple[DamagedCheckpoint, ...]) -> tuple[Change, ...]:
    """That newer checkpoints than `start` are damaged, and what is lost with them; empty where none is."""
    if not damaged:
        return ()
    newest, at = damaged[0], 0 if start is None else start.update
    lost = max((each.update - at for each in damaged if each.update is not None), default=None)
    updates = "the updates after it" if lost is None else f"{lost:,} update{'' if lost == 1 else 's'}"
    others = f", as {len(damaged) - 1} more newer ones are" if len(damaged) > 1 else ""
    why = f"{newest.name} is damaged{others} ({clean(newest.why)}): {updates} are lost and trained anew"
    now = "from the beginning" if start is None else start.name
    remedy = "restore its files from a copy, or name another one with --checkpoint"
    return (Change("checkpoint", newest.name, now, "warn", clean(why, 400), remedy),)


def journal_damaged(runs: Runs, run_id: str, damaged: tuple[DamagedCheckpoint, ...]) -> None:
    """Have the run's journal say which checkpoints do not hold what was saved there."""
    for each in damaged:
        runs.record_observed_of(run_id, file_damaged(f"checkpoints/{each.name}", each.why))


async def plan_attempt(
    core: Core,
    run_id: str,
    request: Resume | Apply,
    checkpoint: Manifest,
    assignments: tuple[str, ...],
    damaged: tuple[DamagedCheckpoint, ...] = (),
) -> Plan:
    """What an attempt from the verified `checkpoint` with `assignments` would be. Raises `MissionError`.

    `damaged` are newer ones that it was taken instead of: what is lost with them is to be accepted.

    It is judged against the spec that the checkpoint was made under: its moments and statistics belong to that one.
    """
    run, known = core.run_dir(run_id), core.store.run(run_id)
    newest = known.spec if known.spec is not None else read_spec(run.spec)
    was = _made_under(run, checkpoint, newest)
    caller = caller_for(core, run_id, request)
    now = absolute_paths(draft_change(newest, assignments), request.cwd or caller.cwd) if assignments else newest
    facts = await _facts(core, run_id, checkpoint, was, now, caller)
    terms, agreed = AS_IT_WAS, False
    if isinstance(request, Resume) and (request.remedies or request.overrides):
        target = apply_choices(was, now, facts, request.remedies, request.overrides)
        now, terms = target.spec, target.terms
    elif not assignments and (before := terms_before(core, run_id, checkpoint.name)) is not None:
        terms, agreed = before, True
    if not (isinstance(request, Resume) and request.branch):
        terms = with_limit(core, run_id, checkpoint.timesteps, terms)
    since = await core.provenance.no_longer_same(run, checkpoint.attempt, with_spec_env(now, caller), sources_of(now))
    lost = damaged_changes(checkpoint, damaged)
    verdict = noted(judge_resume(was, now, facts, terms), (*folder_change(request, caller), *since))
    if isinstance(request, Resume) and not request.branch:
        verdict = noted(verdict, await _inexact(now, caller, checkpoint))
    verdict = warned(verdict, core.variables.left_behind(run_id, caller, now))
    if isinstance(request, Apply):
        verdict = structs.replace(verdict, changes=tuple(_advised(verdict, assignments)))
    if lost:
        grade: Grade = "refuse" if verdict.grade == "refuse" else "warn"
        verdict = ResumeVerdict(grade, (*lost, *verdict.changes))
    return Plan(
        was=was,
        now=now,
        checkpoint=checkpoint,
        verdict=verdict,
        caller=caller,
        terms=terms,
        agreed=agreed and not lost,
        damaged=damaged,
    )


async def _facts(core: Core, run_id: str, checkpoint: Manifest, was: Spec, now: Spec, caller: Caller) -> ResumeFacts:
    spaces_was, spaces_now = await _spaces(was, now, caller)
    outcome = core.store.run(run_id).journal.outcome
    return ResumeFacts(
        timesteps=checkpoint.timesteps,
        # A callback may have ended it before its budget was used up.
        finished=isinstance(outcome, Finished)
        and outcome.checkpoint == checkpoint.name
        and checkpoint.timesteps >= (was.run.total_timesteps or 0),
        obs_space_was=spaces_was.obs if spaces_was else None,
        obs_space_now=spaces_now.obs if spaces_now else None,
        act_space_was=spaces_was.act if spaces_was else None,
        act_space_now=spaces_now.act if spaces_now else None,
        steps_per_s=_speed(core, run_id),
        grad_clipped_share=clipped_share(core, run_id),
        collapsed=_collapsed(core, run_id, checkpoint),
        replay_kept=checkpoint.extra.get("replay"),
    )


def _advised(verdict: ResumeVerdict, assignments: Sequence[str]) -> Iterator[Change]:
    """The changes, those that are of `assignments` marked as advice that is followed."""
    names = {word.partition("=")[0].strip() for word in assignments}
    for it in verdict.changes:
        yield structs.replace(it, advised=True) if it.name in names else it


def _made_under(run: RunDir, checkpoint: Manifest, newest: Spec) -> Spec:
    """The spec of the attempt that saved `checkpoint`, with what had been set by then; the newest where that cannot be
    read any more.
    """
    try:
        words = msgspec.convert(checkpoint.extra.get("set", ()), tuple[tuple[str, ...], ...])
        return with_words(read_attempt_spec(run, checkpoint.attempt), words)
    except (MissionError, msgspec.ValidationError):
        return newest


def warned(verdict: ResumeVerdict, changes: tuple[Change, ...]) -> ResumeVerdict:
    """The verdict with warnings added."""
    if not changes:
        return verdict
    grade = verdict.grade if verdict.grade == "refuse" else "warn"
    return structs.replace(verdict, grade=grade, changes=(*verdict.changes, *changes))


def verdict_first(request: Resume | Apply, run_id: str, plan: NextAttempt, room: StartCheck) -> VerdictReply | None:
    """The verdict, when it was all that was asked for, when it refuses, or when it warns and was not accepted.

    Raises the refusal of `room` where the attempt would start.
    """
    grade = plan.verdict.grade
    unheard = grade == "warn" and not plan.agreed
    if request.check_only or grade == "refuse" or (unheard and not request.accept):
        return VerdictReply(
            re=request.id,
            run=run_id,
            verdict=plan.verdict,
            accept_needed=unheard,
            checkpoint=plan.start or "",
            damaged=plan.passed_over,
            not_now=room.not_now,
        )
    room.check()
    return None


def start_attempt(core: Core, run_id: str, plan: NextAttempt) -> None:
    """Start what was planned. Raises `MissionError` with nothing started."""
    check_own_name(core, run_id)
    changes = without_remedies(plan.verdict)
    if isinstance(plan, Plan):
        journal_damaged(core, run_id, plan.damaged)
    start_next_attempt(core, run_id, plan.now, plan.caller, plan.start, terms=plan.terms, changes=changes)


def terms_before(runs: Runs, run_id: str, checkpoint: str | None) -> Terms | None:
    """The terms of the newest attempt, if that one began from `checkpoint` too; None if it did not.

    How far terms have come is part of every later checkpoint, so only who begins where it began needs them again.
    Raises `DamagedError`.
    """
    journal = runs.store.run(run_id).journal
    began_from = None if journal.resumed is None else journal.resumed.checkpoint
    return read_terms(runs.run_dir(run_id).attempt(journal.attempt).terms) if checkpoint == began_from else None


def with_limit(runs: Runs, run_id: str, timesteps: int, terms: Terms) -> Terms:
    """`terms` with the end that the newest attempt was given, while an attempt from `timesteps` has not come to it:
    a branch of a trial that was interrupted goes on to where it was to end, and one that is over to its whole budget.
    """
    until = read_terms(runs.run_dir(run_id).attempt(runs.store.run(run_id).journal.attempt).terms).until_timesteps
    return structs.replace(terms, until_timesteps=until if until > timesteps else 0)


def without_remedies(verdict: ResumeVerdict) -> tuple[Change, ...]:
    """What was accepted, without the offers that were not taken."""
    return tuple(structs.replace(change, remedies=()) for change in verdict.changes)


async def _spaces(was: Spec, now: Spec, caller: Caller) -> tuple[Spaces | None, Spaces | None]:
    """The spaces of both environments, asked only when something about the environment itself changes."""
    task_was, task_now = (_task(spec) for spec in (was, now))
    if task_was == task_now:
        return None, None
    return await preflight(was, with_spec_env(was, caller)), await preflight(now, with_spec_env(now, caller))


async def _inexact(now: Spec, caller: Caller, checkpoint: Manifest) -> tuple[Change, ...]:
    """A note where the checkpoint holds a state of environments that was found not to restore them."""
    if not checkpoint.extra.get("env_state") or needs_no_preflight(now) or now.env.id == MISSION_GYM:
        return ()
    spaces = await preflight(now, with_spec_env(now, caller))
    if not spaces.state:
        return ()
    why = clean(f"of env.id '{now.env.id}' {spaces.state}; its episodes begin anew", 400)
    return (Change("environments", "exact", "continued", "note", why),)


def _task(spec: Spec) -> tuple[object, ...]:
    env = spec.env
    return env.id, env.kwargs, env.config, env.wrappers, env.frame_stack, env.imports


def clipped_share(runs: Runs, run_id: str) -> float | None:
    """Mean share (0..1) of clipped gradients over the last updates, where the trainer reports it."""
    columns = runs.store.run(run_id).metrics.columns
    shares = [share for share in columns.tail("train/grad_clipped_share", _CLIPPED_ROWS) if share is not None]
    return sum(shares) / len(shares) if shares else None


def _speed(runs: Runs, run_id: str) -> float | None:
    """Median steps per second of the last updates."""
    tail = runs.store.run(run_id).metrics.columns.tail("steps_per_s", _CLIPPED_ROWS)
    speeds = [speed for speed in tail if speed is not None and speed > 0.0]
    return statistics.median(speeds) if speeds else None


def _collapsed(runs: Runs, run_id: str, checkpoint: Manifest) -> str | None:
    """The sentence of the critical finding that was open at `checkpoint` and says that nothing is learned any more."""
    for finding in runs.store.run(run_id).journal.findings.values():
        severe = finding.rule in _STOPPED_LEARNING and finding.severity == "critical"
        here = finding.attempt == checkpoint.attempt
        # The journal's word on how long an open one lasted is from when it was last told.
        lasts = finding.state != "cleared" or checkpoint.update <= finding.last_update
        if severe and here and lasts and finding.suspect_from <= checkpoint.update:
            return finding.sentence
    return None


def start_next_attempt(
    core: Core,
    run_id: str,
    spec: Spec,
    caller: Caller,
    checkpoint: str | None,
    *,
    terms: Terms = AS_IT_WAS,
    changes: tuple[Change, ...] = (),
    row: Row = ASKED,
) -> None:
    """Write the attempt's files and hand it to a keeper; without a checkpoint it begins anew.

    Raises `MissionError` with nothing started: `StorageError` for a full disk, `DamagedError` for rules edited since.
    """
    core.check_room()
    run, known = core.run_dir(run_id), core.store.run(run_id)
    if run_id in core.live or not core.is_free(run_id):
        raise UsageError(f"cannot resume {run_id}: a process of it is still alive")
    number = max([known.journal.attempt, *run.attempts()]) + 1
    first = read_spec(run.spec)
    # The snapshot holds the rules of the newest attempt, whichever checkpoint this one goes on from.
    rules = rule_files(spec.env, caller.cwd) if spec.env.config != (known.spec or first).env.config else []
    if not rules:
        check_rules(run.snapshot)
    order = attempt_order(core.root, run, number, spec, caller, checkpoint)
    folder = run.attempt(number)
    try:
        with storing(folder.path, "make"):
            make_folder(folder.path)
        if spec != first:
            write_spec(folder.spec, spec)
        write_terms(folder.terms, terms)
        core.seals.write_order(run, order)
        _replace_rules(run, number, rules)
    except MissionError:
        shutil.rmtree(folder.path, ignore_errors=True)
        raise
    core.store.replace_spec(run_id, spec)
    begin(core, open_live_run(core, run, spec), order, checkpoint=checkpoint, changes=changes, terms=terms, row=row)


def _replace_rules(run: RunDir, number: int, rules: Sequence[Path]) -> None:
    """Keep the rules that were trained under so far with the attempt before, and put `rules` in their place."""
    if not rules:
        return
    kept = run.attempt(number - 1).path / run.snapshot.name
    with storing(run.snapshot, "keep"):
        run.snapshot.rename(kept)
    try:
        write_snapshot(run, rules)
    except MissionError:
        shutil.rmtree(run.snapshot, ignore_errors=True)
        kept.rename(run.snapshot)
        raise


_ANEW = Change(
    name="start",
    was="where it ended",
    now="from its beginning",
    grade="warn",
    why="there is no run.resume_command, so the same command runs again; it may overwrite what it wrote before",
    remedy="--set run.resume_command=['CMD', 'ARGS'] says how it goes on",
)


def plan_again(core: Core, run_id: str, spec: Spec, request: Resume) -> NextAttempt:
    """What another attempt of the command of `spec` would be. Raises `MissionError` with nothing started."""
    name = core.store.view(run_id).name
    if request.checkpoint or request.remedies or request.overrides:
        raise UsageError(f"{name} runs a command, which goes on by itself: no checkpoint, remedy or override is for it")
    caller = caller_for(core, run_id, request)
    folder = request.cwd or caller.cwd
    now = absolute_paths(change(spec, request.assignments), folder) if request.assignments else spec
    if now.run.command is None:
        raise UsageError(f"{name} runs a command and stays one; launch another run instead")
    check_program(now, with_spec_env(now, caller))
    changes = list(_changes(spec.run, now.run))
    if now.run.resume_command is None:
        changes.append(_ANEW)
    changes += folder_change(request, caller)
    grade: Grade = "warn" if _ANEW in changes else "note" if changes else "safe"
    verdict = warned(ResumeVerdict(grade, tuple(changes)), core.variables.left_behind(run_id, caller, now))
    return NextAttempt(was=spec, now=now, verdict=verdict, caller=caller)


def _changes(was: RunSpec, now: RunSpec) -> Iterator[Change]:
    for name in was.__struct_fields__:
        before, after = getattr(was, name), getattr(now, name)
        if before != after:
            why = "as the next attempt sees it"
            yield Change(f"run.{name}", _said(before), _said(after), "note", why)


def _said(value: object) -> str:
    match value:
        case None:
            return "not set"
        case tuple():
            return clean(shlex.join(map(str, value))) or "none"
        case dict():
            return clean(" ".join(f"{name}={word}" for name, word in value.items())) or "none"
        case _:
            return clean(str(value))


class Restarts:
    """Looked at once a beat; reading a checkpoint may take longer than one."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._under_way: asyncio.Task[None] | None = None
        self._lacks_room = False

    def poll(self, now: float) -> None:
        """Begin the restarts that are due at unix time `now`. They wait for old processes and for room on disk."""
        if self._under_way is not None and not self._under_way.done():
            return
        due = due_restarts(self._core, now)
        if not due:
            return
        full = self._full()
        ready = [run_id for run_id in due if self._may_begin(run_id, now, full)]
        if ready:
            self._under_way = asyncio.create_task(self._restart_each(ready), name="restarts")
            self._core.duties.follow("restarting runs", self._under_way)

    def _full(self) -> str:
        """What there is to say about the disk while it is full; the log has it once."""
        try:
            self._core.check_room()
        except StorageError as error:
            if not self._lacks_room:
                log.warning("restarts wait: %s", error)
            self._lacks_room = True
            return f"waits for the disk: {error}"
        self._lacks_room = False
        return ""

    def _may_begin(self, run_id: str, now: float, full: str) -> bool:
        core = self._core
        if not core.is_free(run_id):
            return False
        why = full or why_it_waits(core, run_id, now) or _lacks(core, run_id) or _variables(core, run_id)
        core.apply(run_id, WaitSeen(why))
        return not why

    async def _restart_each(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            await self._restart(run_id)

    async def _restart(self, run_id: str) -> None:
        core = self._core
        newest, damaged = await asyncio.to_thread(newest_intact, core.run_dir(run_id).checkpoints)
        await refresh_reservations(core)
        # Stopped, resumed or removed by somebody while the checkpoint was read.
        if run_id not in core.store.live_ids() or (due := core.store.run(run_id).journal.restart) is None:
            return
        # One that began a moment ago may have taken its place.
        if why := why_it_waits(core, run_id, time.time()) or _lacks(core, run_id) or _variables(core, run_id):
            core.apply(run_id, WaitSeen(why))
            return
        attempt, row = core.store.run(run_id).journal.attempt, _row(core, run_id, due)
        try:
            recalled = core.variables.recover_of(core.run_dir(run_id), attempt)
            if recalled.lack:
                # Gone since a moment ago: the next beat says what it waits for.
                return
            if due.choices is not None and await self._resumed(run_id, due, newest, damaged):
                return
            lost = damaged_changes(newest, damaged)
            journal_damaged(core, run_id, damaged)
            start_again(core, run_id, recalled.caller, None if newest is None else newest.name, row, lost)
            for change in lost:
                core.fail_for(run_id, "restart", f"went on from {change.now}: {change.why}")
        except MissionError as error:
            log.warning("%s: %s", run_id, error)
            if isinstance(error, StorageError) and error.full:
                return
            why = f"could not be restarted: {error}"
            core.record_observed_of(run_id, lambda seq, t: RunParked(seq, t, attempt, why))

    async def _resumed(
        self, run_id: str, due: RestartDue, newest: Manifest | None, damaged: tuple[DamagedCheckpoint, ...]
    ) -> bool:
        """Start what was chosen and waited for its turn; false where the run begins anew. Raises `MissionError`."""
        core, chosen, spec = self._core, due.choices, self._core.store.run(run_id).spec
        assert chosen is not None
        request = Resume(
            id=0, run=run_id, accept=True, assignments=chosen.assignments, remedies=chosen.remedies,
            overrides=chosen.overrides,
        )  # fmt: skip
        plan: NextAttempt
        if spec is not None and spec.run.command is not None:
            plan = plan_again(core, run_id, spec, request)
        else:
            if chosen.checkpoint is not None:
                named = core.run_dir(run_id).checkpoints / chosen.checkpoint
                newest, damaged = await asyncio.to_thread(verify_checkpoint, named), ()
            if newest is None:
                return False
            plan = await plan_attempt(core, run_id, request, newest, request.assignments, damaged)
        if plan.verdict.grade == "refuse":
            raise UsageError(f"what was asked is refused by now: {'; '.join(it.why for it in plan.verdict.changes)}")
        # Called off, or resumed, while that was planned.
        if core.store.run(run_id).journal.restart == due:
            start_attempt(core, run_id, plan)
        return True


def _lacks(core: Core, run_id: str) -> str:
    """What the machine lacks for the run: memory, room on disk, a driver. It had them before: they are waited for."""
    spec = core.store.run(run_id).spec
    try:
        check_machine(core, () if spec is None else (spec,))
    except PresetError as error:
        return f"waits for the machine: {error}"
    return ""


def _variables(core: Core, run_id: str) -> str:
    """Which variables have no value anywhere any more, as a sentence. A missing order is found out when it begins."""
    known = core.store.run(run_id)
    order = core.seals.check(core.run_dir(run_id), known.journal.attempt).order
    if order is None or not core.variables.recover(order, known.spec).lack:
        return ""
    core.variables.lacking[run_id] = order
    return core.variables.why_it_waits(run_id)


def _row(runs: Runs, run_id: str, due: RestartDue) -> Row:
    journal = runs.store.run(run_id).journal
    if due.after == "request":
        return ASKED
    return Row(journal.restarts, due.number) if due.after != "failure" else Row(due.number, journal.reboots)


def start_again(
    core: Core,
    run_id: str,
    caller: Caller,
    checkpoint: str | None,
    row: Row = ASKED,
    lost: tuple[Change, ...] = (),
) -> None:
    """Start an attempt like the one before; without a checkpoint it begins anew. Raises `MissionError`.

    `lost` says what went with newer checkpoints that are damaged.
    """
    spec = core.store.run(run_id).spec
    assert spec is not None
    check_machine(core, (spec,))
    terms = terms_before(core, run_id, checkpoint) or AS_IT_WAS
    # A checkpoint is called by its timesteps.
    timesteps = int(checkpoint) if checkpoint is not None and checkpoint.isdecimal() else 0
    terms = with_limit(core, run_id, timesteps, terms)
    start_next_attempt(core, run_id, spec, caller, checkpoint, terms=terms, changes=lost, row=row)
