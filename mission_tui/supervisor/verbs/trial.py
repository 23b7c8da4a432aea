"""Try: branches of a run from its last good checkpoint, with and without other settings, for a short budget each.

A branch is a run like any other: it waits for its turn, behind whatever the user launches. It goes on with all that the
checkpoint holds but for its seed, which it shares with the other branch of its pair. Where trouble began before the
first checkpoint, branches begin at the start: what is left of a policy that died tells nothing. All branches are made,
and the trial is in the run's journal, before it is acknowledged; what follows is `lifecycle.trials`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, assert_never

from msgspec import Struct, structs

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.events.findings import GRAVITY, Finding
from mission_tui.fleet.events.journal import FleetEvent, TrialBegun, TrialClosed
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.outcome import ALIVE
from mission_tui.fleet.events.provenance import Origin, diff_of
from mission_tui.fleet.events.trials import ARMS, Arm, TrialBranch, TrialPlan
from mission_tui.fleet.history.journal_state import TrialState
from mission_tui.fleet.launch_plan import LONGEST_NAME
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Change, Terms
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume, Try
from mission_tui.records.jsonl import read_newest
from mission_tui.records.runs.attempt import LaunchOrder, write_terms
from mission_tui.records.runs.checkpoint import Manifest, newest_intact
from mission_tui.records.runs.layout import RunDir
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
from mission_tui.supervisor.lifecycle.further_attempts import plan_attempt
from mission_tui.supervisor.lifecycle.trials import discard, trial_branches
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs
from mission_tui.supervisor.runs.run_directory import create_run, remove_run, take_checkpoint
from mission_tui.supervisor.runs.targets import caller_for, last_good, require, the_finding

if TYPE_CHECKING:
    from mission_tui.fleet.trials import TypicalUpdate

_PACE_BYTES = 1 << 16
_PACE_ROWS = 20
_NAME = LONGEST_NAME - len("-try999-advised-16")


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
    from mission_tui.fleet import trials as trial_plan

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
    asked = trial_plan.check_pairs(request.seeds)
    finding = _finding(core, run_id, request)
    assignments = request.assignments or (() if finding is None else finding.advice_set)
    if not assignments:
        raise UsageError(_nothing_to_try(core, run_id, finding))
    trial_plan.own_seed(assignments)
    try:
        draft_change(spec, assignments)  # before whatever else is in the way: no checkpoint makes a wrong key right
    except PresetError as error:
        raise UsageError(f"cannot try this on {name}: {error}") from error
    start = await asyncio.to_thread(_start, core, run_id, finding)
    pace = await asyncio.to_thread(_pace, core.run_dir(run_id))
    begin = start.checkpoint
    trained = 0 if begin is not None else core.store.view(run_id).update or 0
    updates, said = trial_plan.updates_of(request.budget, pace, trained)
    pairs = asked if asked is not None else trial_plan.usual_pairs(updates, pace)
    number = max(known.journal.trials, default=0) + 1
    until = trial_plan.until_timesteps(spec, begin.timesteps if begin is not None else 0, updates)
    longer = trial_plan.needed_total(spec, until)
    plan = TrialPlan(
        number=number,
        checkpoint=begin.name if begin is not None else "",
        from_update=begin.update if begin is not None else 0,
        from_timesteps=begin.timesteps if begin is not None else 0,
        until_timesteps=until,
        updates=updates,
        seeds=trial_plan.pair_seeds(spec.run.seed, number, pairs),
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
    from mission_tui.fleet.trials import TypicalUpdate

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
    from mission_tui.fleet.trials import branch_spec

    core.check_room()
    caller = arms["control"].caller
    places = [(arm, pair) for pair in range(1, len(plan.seeds) + 1) for arm in ARMS]
    specs = [branch_spec(arms[arm].now, plan.seeds[pair - 1]) for arm, pair in places]
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
        trials = core.store.run(run_id).journal.trials
        earlier = [trials[it] for it in sorted(trials) if it < number]
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
