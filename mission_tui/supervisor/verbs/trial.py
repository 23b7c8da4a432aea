"""Try: branches of a run from its last good checkpoint, with and without other settings, for a short budget each.

A branch is a run like any other: it waits for its turn, behind whatever the user launches. It goes on with all that the
checkpoint holds but for its seed, which it shares with the other branch of its pair. Where trouble began before the
first checkpoint, branches begin at the start: what is left of a policy that died tells nothing. All branches are made,
and the trial is in the run's journal, before it is acknowledged.

It is judged once its branches are over, and the winner comes in the run's place. What is to be done next follows from
the journals of the run and of its branches, so a supervisor that is started anew does it too. A place changes hands
step by step, each of which may have been done before: the run ends, names change, the branch trains on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import assert_never

from msgspec import Struct, structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet import trials
from mission_tui.fleet.events.findings import GRAVITY, Finding
from mission_tui.fleet.events.journal import FleetEvent, RunRenamed, TrialBegun, TrialClosed, TrialJudged
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.events.provenance import Origin, diff_of
from mission_tui.fleet.events.trials import ARMS, Arm, TrialBranch, TrialEnd, TrialPlan, TrialVerdict
from mission_tui.fleet.history.journal_state import TrialState
from mission_tui.fleet.launch_plan import LONGEST_NAME
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Terms
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.trials import BranchEnd, Branches, BranchReading, BranchState, TypicalUpdate
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume, Try
from mission_tui.records.jsonl import read_all, read_newest
from mission_tui.records.runs.attempt import LaunchOrder, write_terms
from mission_tui.records.runs.checkpoint import Manifest, newest_intact
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.ending.removal import kill_live, objection, to_trash, undo_launch
from mission_tui.supervisor.host.children import TaskError
from mission_tui.supervisor.launchers.order import (
    Caller,
    absolute_paths,
    attempt_order,
    needs_no_preflight,
    preflight,
    with_spec_env,
)
from mission_tui.supervisor.lifecycle.capacity import refresh_reservations
from mission_tui.supervisor.lifecycle.first_attempts import begin_first_attempt, new_run, reserved, rules_for
from mission_tui.supervisor.lifecycle.further_attempts import plan_attempt, start_again, start_next_attempt
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import create_run, remove_run, take_checkpoint
from mission_tui.supervisor.runs.targets import caller_for, last_good, require, the_finding

_PACE_BYTES = 1 << 16
_PACE_ROWS = 20
_NAME = LONGEST_NAME - len("-try999-advised-16")

log = logging.getLogger(__name__)
TRY = "try"


async def try_(core: Core, request: Try) -> Accepted:
    """Begin a trial of the run, or do something about its newest one. Raises `MissionError` with nothing done."""
    run_id = resolve_run(core, request.run)
    match request.do:
        case "begin":
            return await _begin(core, run_id, request)
        case "discard":
            return await _discard(core, run_id, request)
        case "take":
            return await _take(core, run_id, request)
        case "return":
            return await _return(core, run_id, request)
        case _:
            assert_never(request.do)


class _Start(Struct, frozen=True):
    """Where the branches begin, and what is to be said about that."""

    checkpoint: Manifest | None
    """None: at the start, untrained."""
    notes: tuple[str, ...] = ()


class _Settings(Struct, frozen=True):
    """What the branches of one arm train with, where the run trained with `was`, and on whose behalf."""

    was: Spec
    now: Spec
    caller: Caller
    changes: tuple[Change, ...]


class _Branch(Struct, frozen=True):
    """A branch of which the directory is on disk and which has not begun."""

    run: RunDir
    spec: Spec
    order: LaunchOrder
    created: FleetEvent


async def _begin(core: Core, run_id: str, request: Try) -> Accepted:
    await refresh_reservations(core)
    known = core.store.run(run_id)
    name, spec = known.journal.name, known.spec
    require(core, run_id, "branch")
    if spec is None:
        raise MissionError(f"cannot try {name}: its spec cannot be read")
    if open_ := next((it for it in known.journal.trials.values() if it.has_work), None):
        raise UsageError(
            f"{name} is being tried already (trial {open_.plan.number}, {open_.plan.settings}): "
            f"`mission-tui try {name} --wait` waits for it, --discard gives it up"
        )
    asked = trials.check_pairs(request.seeds)
    finding = _finding(core, run_id, request)
    assignments = request.assignments or (() if finding is None else finding.advice_set)
    if not assignments:
        raise UsageError(_nothing_to_try(core, run_id, finding))
    trials.own_seed(assignments)
    try:
        draft_change(spec, assignments)  # before whatever else is in the way: no checkpoint makes a wrong key right
    except PresetError as error:
        raise UsageError(f"cannot try this on {name}: {error}") from error
    start = await asyncio.to_thread(_start, core, run_id, finding)
    pace = await asyncio.to_thread(_pace, core.run_dir(run_id))
    begin = start.checkpoint
    trained = 0 if begin is not None else core.store.view(run_id).update or 0
    updates, said = trials.updates_of(request.budget, pace, trained)
    pairs = asked if asked is not None else trials.usual_pairs(updates, pace)
    number = max(known.journal.trials, default=0) + 1
    until = trials.until_timesteps(spec, begin.timesteps if begin is not None else 0, updates)
    longer = trials.needed_total(spec, until)
    plan = TrialPlan(
        number=number,
        checkpoint=begin.name if begin is not None else "",
        from_update=begin.update if begin is not None else 0,
        from_timesteps=begin.timesteps if begin is not None else 0,
        until_timesteps=until,
        updates=updates,
        seeds=trials.pair_seeds(spec.run.seed, number, pairs),
        group=f"{name[:_NAME]}-try{number}",
        assignments=assignments,
        finding="" if finding is None else finding.id,
    )
    arms = {arm: await _planned(core, run_id, begin, longer, assignments, arm) for arm in ARMS}
    made, lacking = await _make(core, run_id, plan, arms)
    # Why it matters is said of what goes on with it.
    changes = tuple(
        f"{it.name}: {it.was} -> {it.now}" + (f": {it.why}" if begin is not None else "")
        for it in arms["advised"].changes
    )
    same = () if arms["advised"].now != arms["control"].now else ("these settings are those that the run has already",)
    notes = (f"trial {number} of {name}: {2 * pairs} branches from {plan.origin}", said)
    return Accepted(
        re=request.id,
        runs=made,
        notes=(*notes, *same, *changes, *lacking),
        warnings=start.notes,
        checkpoint=plan.checkpoint,
    )


def _finding(runs: Runs, run_id: str, request: Try) -> Finding | None:
    """The one that is named by id, rule or number; without a name and without settings the most severe with advice.

    Raises `UsageError` for one that there is not, and for one whose advice has no setting where that is to be tried.
    """
    shown = runs.store.view(run_id).findings
    wanted = request.finding
    if not wanted:
        if request.assignments:
            return None
        able = [it for it in shown if it.state != "cleared" and it.advice_set]
        return max(able, key=lambda it: GRAVITY[it.severity], default=None)
    found = the_finding(runs, run_id, wanted)
    if not found.advice_set and not request.assignments:
        raise UsageError(_nothing_to_try(runs, run_id, found))
    return found


def _nothing_to_try(runs: Runs, run_id: str, finding: Finding | None) -> str:
    name = runs.store.view(run_id).name
    if finding is None:
        return f"{name} has no open finding that advises a setting: say with --set KEY=VALUE what is to be tried"
    return f"{finding.id} of {name} advises no setting ({finding.advice}): say with --set KEY=VALUE what is to be tried"


def _start(runs: Runs, run_id: str, finding: Finding | None) -> _Start:
    """The last good checkpoint: from before the finding, or else before everything that is open. Where all are later,
    or there is none, the start. Raises `MissionError` where nothing is wrong and there is none to go on from.
    """
    run, view = runs.run_dir(run_id), runs.store.view(run_id)
    trouble = finding
    if trouble is None:
        severe = [it for it in view.findings if it.state == "open" and it.severity != "info"]
        trouble = min(severe, key=lambda it: (it.attempt, it.suspect_from), default=None)
    good = None if trouble is None else last_good(run, trouble, view.findings)
    if good is not None:
        return _Start(good)
    if trouble is not None:
        late = (
            f"no checkpoint is from before update {trouble.suspect_from}, where {trouble.rule} began: the branches "
            "begin at the start"
        )
        return _Start(None, (late,))
    newest, _ = newest_intact(run.checkpoints)
    if newest is None:
        hint = f"; `mission-tui checkpoint {view.name}` saves one" if view.state in ALIVE else ""
        raise MissionError(f"cannot try {view.name}: it has no checkpoint to branch from{hint}")
    return _Start(newest)


def _pace(run: RunDir) -> TypicalUpdate:
    """What its last updates were like."""
    records = read_newest(run.metrics, MetricRecord, _PACE_BYTES)
    known = [record for record in records if isinstance(record, UpdateDone)]
    if not known:
        return TypicalUpdate()
    rows = known[-_PACE_ROWS:]
    seconds = sum(row.rollout_s + row.update_s for row in rows) / len(rows)
    # An episode may last for more updates than those.
    rows = rows if any(row.episodes.n for row in rows) else known
    return TypicalUpdate(seconds if seconds > 0.0 else None, sum(row.episodes.n for row in rows) / len(rows))


async def _planned(
    core: Core,
    run_id: str,
    checkpoint: Manifest | None,
    longer: tuple[str, ...],
    assignments: tuple[str, ...],
    arm: Arm,
) -> _Settings:
    """What a branch of `arm` would be. Raises `UsageError` for settings that no branch can have."""
    name = core.store.view(run_id).name
    words = (*longer, *assignments) if arm == "advised" else longer
    try:
        if checkpoint is None:
            plan = _planned_anew(core, run_id, words)
        else:
            found = await plan_attempt(core, run_id, Resume(id=0, run=run_id, branch=True), checkpoint, words)
            plan = _Settings(found.was, found.now, found.caller, found.verdict.changes)
    except PresetError as error:
        raise UsageError(f"cannot try this on {name}: {error}") from error
    # A policy that has collapsed is what a trial may be about, and one that begins has nothing that could not go on;
    # returns of another task tell nothing.
    wrong = [it for it in plan.changes if checkpoint is not None or it.name == "env.id"]
    refused = next((it for it in wrong if it.grade == "refuse" and it.name != "policy"), None)
    if refused is not None:
        instead = f"; {refused.remedy}" if refused.remedy else ""
        raise UsageError(
            f"cannot try this on {name}: {refused.name}: {refused.was} -> {refused.now}: {refused.why}{instead}"
        )
    for violation in violations(plan.now):
        raise UsageError(f"cannot try this on {name}: {violation.sentence}")
    if not needs_no_preflight(plan.now):
        try:
            await preflight(plan.now, with_spec_env(plan.now, plan.caller))
        except (PresetError, TaskError) as error:
            raise UsageError(f"cannot try this on {name}: {error}") from error
    return plan


def _planned_anew(core: Core, run_id: str, words: tuple[str, ...]) -> _Settings:
    """What a branch that begins at the start would be. Raises `PresetError` for settings that are none."""
    was = core.store.run(run_id).spec
    assert was is not None  # whoever asks has looked
    caller = caller_for(core, run_id, Resume(id=0, run=run_id))
    now = absolute_paths(draft_change(was, words), caller.cwd) if words else was
    changes = judge_resume(was, now, ResumeFacts(timesteps=0), AS_IT_WAS).changes
    return _Settings(was, now, caller, tuple(it for it in changes if it.was != it.now))


async def _make(
    core: Core, run_id: str, plan: TrialPlan, arms: dict[Arm, _Settings]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The branches, begun, and what the machine lacks for them. Raises `MissionError` with nothing made."""
    core.check_room()
    caller = arms["control"].caller
    places = [(arm, pair) for pair in range(1, len(plan.seeds) + 1) for arm in ARMS]
    specs = [trials.branch_spec(arms[arm].now, plan.seeds[pair - 1]) for arm, pair in places]
    with ExitStack() as names:
        runs = [
            names.enter_context(new_run(core, f"{plan.group}-{arm}-{pair}", plan.group)).dir for arm, pair in places
        ]
        # They wait for their turn one by one: two, of either arm, say what any of them needs.
        async with reserved(core, [_in_turn(spec) for spec in specs[:2]], caller.environ) as lacking:
            made: list[_Branch] = []
            work = partial(_make_all, core, run_id, plan, arms, list(zip(places, specs, runs, strict=True)), made)
            try:
                await asyncio.to_thread(work)
                core.record_request_of(run_id, lambda seq, t: TrialBegun(seq, t, plan))
            except BaseException:
                # Nobody was told of them.
                for each in made:
                    remove_run(core.root, each.run)
                raise
            terms = Terms(until_timesteps=plan.until_timesteps)
            for each in made:
                begin_first_attempt(core, each.run, each.spec, each.order, each.created, terms, plan.checkpoint or None)
    return tuple(each.run.id for each in made), lacking


def _in_turn(spec: Spec) -> Spec:
    """As the machine is asked for a branch: beside others one of them lives."""
    limits = structs.replace(spec.keep.limits, group_runs=1)
    return structs.replace(spec, keep=structs.replace(spec.keep, limits=limits))


def _make_all(
    core: Core,
    run_id: str,
    plan: TrialPlan,
    arms: dict[Arm, _Settings],
    wanted: Sequence[tuple[tuple[Arm, int], Spec, RunDir]],
    made: list[_Branch],
) -> None:
    """A directory for every branch. Those that were made are in `made`, also where one cannot be."""
    source, source_name = core.run_dir(run_id), core.store.view(run_id).name
    terms = Terms(until_timesteps=plan.until_timesteps)

    def fill(making: RunDir) -> None:
        if plan.checkpoint:
            take_checkpoint(source.checkpoints / plan.checkpoint, making.checkpoints, terms, making)
        else:
            write_terms(making.attempt(1).terms, terms)

    for (arm, pair), spec, run in wanted:
        planned = arms[arm]
        origin = Origin("trial", run_id, source_name, plan.checkpoint, diff_of(planned.changes))
        rules = rules_for(core, source, planned.was, planned.now, planned.caller)
        order = attempt_order(core.root, run, 1, spec, planned.caller, plan.checkpoint or None)
        mark = TrialBranch(run_id, plan.number, arm, pair)
        created = create_run(
            core.root, core.seals, run, spec, order, rules, f"{plan.group}-{arm}-{pair}", plan.group,
            origin=origin, fill=fill, trial=mark,
        )  # fmt: skip
        made.append(_Branch(run, spec, order, created))


def _newest(runs: Runs, run_id: str) -> TrialState:
    """The run's newest trial. Raises `UsageError`."""
    journal = runs.store.run(run_id).journal
    if not journal.trials:
        raise UsageError(f"nothing was tried on {journal.name}")
    return journal.trials[max(journal.trials)]


async def _discard(core: Core, run_id: str, request: Try) -> Accepted:
    trial, name = _newest(core, run_id), core.store.view(run_id).name
    number, closed = trial.plan.number, trial.closed
    if closed is not None and closed.how in ("taking", "returning"):
        raise UsageError(f"{closed.branch} is about to replace {name}: wait for that")
    keep = "" if closed is None else closed.by
    branches = [branch for branch, _ in trial_branches(core, run_id, number) if branch != keep]
    if not branches:
        begun = core.store.run(run_id).journal.trials
        earlier = [begun[it] for it in sorted(begun) if it < number]
        before = [it.plan.group for it in earlier if any(trial_branches(core, run_id, it.plan.number))]
        others = f"; earlier trials have: `mission-tui rm {' '.join(before)}`" if before else ""
        raise UsageError(f"trial {number} of {name} has no branches any more{others}")
    if closed is None:
        core.record_request_of(run_id, lambda seq, t: TrialClosed(seq, t, number, "discarded"))
    gone = await discard(core, branches)
    notes = [f"{len(gone)} branches of trial {number} are in the trash for a day"]
    notes += [f"{core.store.view(it).name} stays: something works with it" for it in branches if it not in gone]
    return Accepted(re=request.id, runs=gone, notes=tuple(notes))


async def _take(core: Core, run_id: str, request: Try) -> Accepted:
    trial, view = _newest(core, run_id), core.store.view(run_id)
    verdict, number = trial.verdict, trial.plan.number
    if trial.closed is not None:
        raise UsageError(f"trial {number} of {view.name} is over: its branches were {trial.closed.how}")
    if verdict is None:
        raise UsageError(f"trial {number} of {view.name} has no verdict yet: its branches train")
    if verdict.says != "helps":
        raise UsageError(
            f"no branch of trial {number} of {view.name} has won ({verdict.says}): `rename` and `resume` one by hand, "
            "or --discard them"
        )
    best = verdict.best
    if best not in core.store or best not in dict(trial_branches(core, run_id, number)):
        raise UsageError(f"the best branch of trial {number} of {view.name} was removed")
    core.fetch(best)
    if best in core.live:
        raise UsageError(f"{core.store.view(best).name} trains again: stop it first")
    core.check_ours(best, "try", starts=True)
    branch = core.store.view(best).name
    renamed = f"{view.name[: LONGEST_NAME - 12]}-before{number}"
    core.names.check(renamed, run_id)
    trains = run_id in core.live
    core.record_request_of(
        run_id, lambda seq, t: TrialClosed(seq, t, number, "taking", best, branch, view.name, renamed, trains)
    )
    fate = "is stopped first and" if trains else "is"
    note = f"{branch} takes the place of {view.name}, which {fate} called {renamed} from now on"
    return Accepted(re=request.id, runs=(best, run_id), notes=(note,))


async def _return(core: Core, run_id: str, request: Try) -> Accepted:
    mark = core.store.branches().get(run_id)
    # The name means the branch by now, so it may be that which is meant.
    source = run_id if core.store.run(run_id).journal.trials or mark is None else mark.of
    if source not in core.store:
        raise UsageError(f"the run whose place {core.store.view(run_id).name} took was removed")
    trial = _newest(core, source)
    closed, number = trial.closed, trial.plan.number
    if closed is None or closed.how not in ("taking", "taken"):
        raise UsageError(f"no branch has taken the place of {core.store.view(source).name}")

    def returning(seq: int, t: float) -> FleetEvent:
        return TrialClosed(
            seq, t, number, "returning", closed.by, closed.branch, closed.name, closed.renamed, closed.trained
        )

    core.record_request_of(source, returning)
    note = f"{closed.renamed} is called {closed.name} again, and {closed.branch} ends"
    return Accepted(re=request.id, runs=(source,), notes=(note,))


def trial_branches(runs: Runs, run_id: str, number: int) -> Iterator[tuple[str, tuple[Arm, int]]]:
    """The branches of trial `number` of a run that are there, and which of its plan each is. Foreign ones are none."""
    for branch, mark in list(runs.store.branches().items()):
        if (mark.of, mark.number) == (run_id, number) and not runs.store.run(branch).journal.foreign:
            yield branch, (mark.arm, mark.pair)


def states_of(runs: Runs, run_id: str, number: int) -> Branches:
    """How the branches of a trial stand."""
    return {
        place: BranchState(branch, runs.store.run(branch).state, runs.store.run(branch).journal.outcome)
        for branch, place in trial_branches(runs, run_id, number)
    }


class Trials:
    """Looked at once a beat; reading branches and ending runs may take longer."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._work: dict[str, asyncio.Task[None]] = {}

    def poll(self) -> None:
        """Go on with every trial of which something is to be done."""
        core = self._core
        if not core.reading.whole.is_set():
            return
        for run_id in core.store.tried_ids():
            journal = core.store.run(run_id).journal
            if journal.foreign or self._is_busy(run_id):
                continue
            for trial in journal.trials.values():
                if trial.has_work and _has_next_step(core, run_id, trial):
                    self._start(run_id, _go_on(core, run_id, trial))
                    break
        for branch in _half_made(core):
            if not self._is_busy(branch):
                log.warning("%s belongs to a trial that was not begun; it is removed", branch)
                self._start(branch, undo_launch(core, branch))

    def _is_busy(self, run_id: str) -> bool:
        task = self._work.get(run_id)
        return task is not None and not task.done()

    def _start(self, run_id: str, work: Coroutine[None, None, None]) -> None:
        self._work[run_id] = asyncio.create_task(work, name=f"trial {run_id}")
        self._core.duties.follow("trials", self._work[run_id])


def _half_made(runs: Runs) -> list[str]:
    """Live branches of a trial that was never begun: the supervisor that made them died over it."""
    found = []
    for branch, mark in runs.store.branches().items():
        if branch not in runs.live or mark.of not in runs.store:
            continue
        if mark.number not in runs.store.run(mark.of).journal.trials and not runs.store.run(branch).journal.foreign:
            found.append(branch)
    return found


def _has_next_step(runs: Runs, run_id: str, trial: TrialState) -> bool:
    """Whether a step can be made now: nothing is waited for by work that would only find it not there yet."""
    return not trial.is_open or trials.is_over(states_of(runs, run_id, trial.plan.number))


async def _go_on(core: Core, run_id: str, trial: TrialState) -> None:
    closed = trial.closed
    if closed is None:
        await _judge(core, run_id, trial.plan)
    elif closed.how == "taking":
        await _take_place(core, run_id, trial, closed)
    else:
        await _give_back(core, run_id, closed)


async def _judge(core: Core, run_id: str, plan: TrialPlan) -> None:
    """Journal what the branches say; a trial of which none is left is given up."""
    states = states_of(core, run_id, plan.number)
    if not states:
        core.record_observed_of(run_id, lambda seq, t: TrialClosed(seq, t, plan.number, "discarded"))
        return
    verdict = await asyncio.to_thread(_verdict, core, run_id, plan, states)
    trial = core.store.run(run_id).journal.trials.get(plan.number) if run_id in core.store else None
    if trial is not None and trial.is_open:
        core.record_observed_of(run_id, lambda seq, t: TrialJudged(seq, t, plan.number, verdict))


def _verdict(runs: Runs, run_id: str, plan: TrialPlan, states: Branches) -> TrialVerdict:
    ends = {place: _end(runs, plan, state) for place, state in states.items()}
    gone = BranchEnd("", BranchReading(None, 0, (), complete=False), why="was removed")
    pairs = [
        (ends.get((ARMS[0], pair), gone), ends.get((ARMS[1], pair), gone)) for pair in range(1, len(plan.seeds) + 1)
    ]
    before = trials.range_before(plan, read_all(runs.run_dir(run_id).metrics, MetricRecord)[0])
    return trials.judge_trial(plan, pairs, before)


def _end(runs: Runs, plan: TrialPlan, state: BranchState) -> BranchEnd:
    reading = trials.read_branch(plan, read_all(runs.run_dir(state.run).metrics, MetricRecord)[0])
    # One that was stopped after it had come to its end, or trained on from there, counts like any other.
    why = "" if reading.complete else trials.why_it_does_not_count(state)
    return BranchEnd(state.run, reading, diverged=not reading.complete and trials.diverged(state), why=why)


async def _take_place(core: Core, run_id: str, trial: TrialState, closed: TrialClosed) -> None:
    """The next steps on the way of the branch into the run's place; what cannot be done takes all of it back."""
    if not await _ended(core, run_id):
        return
    if closed.by not in core.store:
        core.fail_for(run_id, TRY, f"{closed.branch}, which was to take its place, was removed")
        core.record_observed_of(run_id, partial(_closed_as, closed, "returning"))
        return
    core.fetch(closed.by)
    try:
        _rename(core, run_id, closed.name, closed.renamed)
        _rename(core, closed.by, closed.branch, closed.name)
        if closed.by not in core.live:
            await _train_on(core, run_id, closed.by, trial.plan)
    except MissionError as error:
        core.fail_for(run_id, TRY, f"{closed.branch} could not take its place: {error}")
        core.record_observed_of(run_id, partial(_closed_as, closed, "returning"))
        return
    core.record_observed_of(run_id, partial(_closed_as, closed, "taken"))
    await discard(core, [branch for branch, _ in trial_branches(core, run_id, closed.number) if branch != closed.by])


async def _train_on(core: Core, run_id: str, branch: str, plan: TrialPlan) -> None:
    """The branch goes on with its settings to the run's whole budget; one that has nothing left to train stays."""
    spec, was = core.store.run(branch).spec, core.store.run(run_id).spec
    checkpoint, _ = await asyncio.to_thread(newest_intact, core.run_dir(branch).checkpoints)
    if spec is None or was is None or checkpoint is None:
        raise MissionError(f"{branch} has no checkpoint or spec to go on with")
    now = whole_spec(spec, was, plan)
    if now.run.total_timesteps is not None and checkpoint.timesteps >= now.run.total_timesteps:
        return
    caller = core.variables.caller_of(core.run_dir(branch), core.store.run(branch).journal.attempt)
    start_next_attempt(core, branch, now, caller, checkpoint.name)


def whole_spec(branch: Spec, was: Spec, plan: TrialPlan) -> Spec:
    """The branch's spec as it trains in the run's place: what is kept, told and played is the run's own again."""
    tried = draft_change(was, plan.assignments)
    return structs.replace(branch, keep=tried.keep, evaluate=tried.evaluate, description=was.description)


async def _give_back(core: Core, run_id: str, closed: TrialClosed) -> None:
    """The branch ends and has its own name again, as the run has, which trains on if it did."""
    there = closed.by in core.store
    if there and core.store.run(closed.by).state not in OVER and not await _ended(core, closed.by):
        return
    failed = ""
    try:
        if there:
            _rename(core, closed.by, closed.name, closed.branch)
        _rename(core, run_id, closed.renamed, closed.name)
        if closed.trained and run_id not in core.live:
            newest, _ = await asyncio.to_thread(newest_intact, core.run_dir(run_id).checkpoints)
            caller = core.variables.caller_of(core.run_dir(run_id), core.store.run(run_id).journal.attempt)
            start_again(core, run_id, caller, None if newest is None else newest.name)
    except MissionError as error:
        failed = f"not all of it could be taken back: {error}"
    core.record_observed_of(run_id, partial(_closed_as, closed, "returned"))
    if failed:
        core.fail_for(run_id, TRY, failed)


async def _ended(core: Core, run_id: str) -> bool:
    """Whether the run has ended; one that lives is asked to, and waited for."""
    live = core.live.get(run_id)
    if live is None:
        return True
    if live.unseen:
        return False
    live.end_for_good()
    if not core.store.run(run_id).journal.asked & {"stop", "kill"}:
        core.record_verb(live, "stop")
        stop_gracefully(core, live)
    await live.gone.wait()
    return run_id not in core.live


def _rename(runs: Runs, run_id: str, was: str, name: str) -> None:
    """Call the run `name`, unless it is called something else than `was` by now. Raises `UsageError`."""
    if runs.store.run(run_id).journal.name == was and was != name:
        runs.names.check(name, run_id)
        runs.record_request_of(run_id, lambda seq, t: RunRenamed(seq, t, name))


def _closed_as(closed: TrialClosed, how: TrialEnd, seq: int, t: float) -> FleetEvent:
    return structs.replace(closed, seq=seq, t=t, how=how)


async def discard(core: Core, branches: Sequence[str]) -> tuple[str, ...]:
    """Move branches to the trash, those that live after they were killed; the ones that went. Raises `MissionError`."""
    for branch in branches:
        core.fetch(branch)
    await asyncio.gather(*(kill_live(core, branch) for branch in branches))
    gone = []
    for branch in branches:
        if branch in core.store and objection(core, branch) is None:
            to_trash(core, branch)
            gone.append(branch)
    return tuple(gone)
