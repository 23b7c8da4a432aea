"""Trials of other settings as time passes: judged once their branches are over, and the winner in the run's place.

What is to be done next follows from the journals of the run and of its branches, so a supervisor that is started anew
does it too. A place changes hands step by step, each of which may have been done before: the run ends, names change,
the branch trains on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.events.journal import FleetEvent, RunRenamed, TrialClosed, TrialJudged
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.events.trials import ARMS, Arm, TrialEnd, TrialPlan, TrialVerdict
from mission_tui.fleet.history.journal_state import TrialState
from mission_tui.fleet.specs.preset import draft_change
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.trials import Branches, BranchState, diverged, is_over, why_it_does_not_count
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.checkpoint import newest_intact
from mission_tui.supervisor.ending.ladder import stop_gracefully
from mission_tui.supervisor.ending.removal import kill_live, objection, to_trash, undo_launch
from mission_tui.supervisor.lifecycle.further_attempts import start_again, start_next_attempt
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.registry import Runs

if TYPE_CHECKING:
    from mission_tui.fleet.trials import BranchEnd

log = logging.getLogger(__name__)
TRY = "try"


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
    return not trial.is_open or is_over(states_of(runs, run_id, trial.plan.number))


async def _go_on(core: Core, run_id: str, trial: TrialState) -> None:
    closed = trial.closed
    if closed is None:
        await _judge(core, run_id, trial.plan)
    elif closed.how == "taking":
        await _take(core, run_id, trial, closed)
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
    # Statistics are loaded by whoever has some.
    from mission_tui.fleet.trials import BranchEnd, BranchReading, judge_trial, range_before

    ends = {place: _end(runs, plan, state) for place, state in states.items()}
    gone = BranchEnd("", BranchReading(None, 0, (), complete=False), why="was removed")
    pairs = [
        (ends.get((ARMS[0], pair), gone), ends.get((ARMS[1], pair), gone)) for pair in range(1, len(plan.seeds) + 1)
    ]
    before = range_before(plan, read_all(runs.run_dir(run_id).metrics, MetricRecord)[0])
    return judge_trial(plan, pairs, before)


def _end(runs: Runs, plan: TrialPlan, state: BranchState) -> BranchEnd:
    from mission_tui.fleet.trials import BranchEnd, read_branch

    reading = read_branch(plan, read_all(runs.run_dir(state.run).metrics, MetricRecord)[0])
    # One that was stopped after it had come to its end, or trained on from there, counts like any other.
    why = "" if reading.complete else why_it_does_not_count(state)
    return BranchEnd(state.run, reading, diverged=not reading.complete and diverged(state), why=why)


async def _take(core: Core, run_id: str, trial: TrialState, closed: TrialClosed) -> None:
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
