"""Resume: another attempt from a checkpoint, after a verdict that is shown, accepted and journaled."""

from __future__ import annotations

import fcntl
import os
import signal

import pytest

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events import AttemptStarting, FleetEvent
from mission_tui.fleet.metrics import MetricRecord, TrainingStarted, UpdateDone
from mission_tui.ipc.messages import Accepted, OperatorReply, Resume, VerdictReply
from mission_tui.records.spec_file import read_spec
from mission_tui.records.tail import read_all
from tests.supervisor.conftest import Lab, stub_spec


def resume(lab: Lab, run: str, *assignments: str, accept: bool = False, check_only: bool = False) -> OperatorReply:
    """Ask for a resume, without saying who asks."""
    return lab.ask(lambda id_: Resume(id=id_, run=run, assignments=assignments, accept=accept, check_only=check_only))


def stopped(lab: Lab) -> str:
    """A run that was stopped after a few updates."""
    (run,) = lab.launch()
    lab.running(run, 3)
    lab.act("stop", run)
    lab.ended(run)
    return run


def test_a_stopped_run_goes_on_from_its_checkpoint(lab: Lab) -> None:
    """Attempt 2 begins at the stop's step; the file's rows before stay, updates and seq go on."""
    run = stopped(lab)
    before = lab.view(run)
    assert isinstance(resume(lab, run), Accepted)
    view = lab.running(run, (before.update or 0) + 2)
    assert view.attempt == 2
    records, damage = read_all(lab.dir(run).metrics, MetricRecord)
    assert not damage
    started = [record for record in records if isinstance(record, TrainingStarted)]
    assert [(r.attempt, r.from_timesteps) for r in started] == [(1, 0), (2, before.timesteps)]
    numbers = [record.update for record in records if isinstance(record, UpdateDone)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_grave_change_waits_for_a_word(lab: Lab) -> None:
    """A warning starts nothing without `accept`; with it the change is on disk, in the journal and in the view."""
    run = stopped(lab)
    warned = resume(lab, run, "env.n_envs=32")
    assert isinstance(warned, VerdictReply)
    assert warned.accept_needed
    assert lab.view(run).attempt == 1
    assert not lab.dir(run).attempt(2).path.exists()
    assert isinstance(resume(lab, run, "env.n_envs=32", accept=True), Accepted)
    assert lab.wait(run, lambda view: view.attempt == 2).n_envs == 32
    assert read_spec(lab.dir(run).attempt(2).spec).env.n_envs == 32
    assert read_spec(lab.dir(run).spec).env.n_envs == 4
    starts = [event for event in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptStarting)]
    assert "env.n_envs" in {change.name for change in starts[1].changes}


def test_a_refused_change_starts_nothing_even_when_accepted(lab: Lab) -> None:
    """Another environment is another task."""
    run = stopped(lab)
    refused = resume(lab, run, "env.id=Acrobot-v1", accept=True)
    assert isinstance(refused, VerdictReply)
    assert (refused.verdict.grade, refused.accept_needed) == ("refuse", False)
    assert lab.view(run).state == "ended"


def test_check_only_starts_nothing(lab: Lab) -> None:
    """Asking what a resume would change is free."""
    run = stopped(lab)
    reply = resume(lab, run, check_only=True)
    assert isinstance(reply, VerdictReply)
    assert (reply.verdict.grade, lab.view(run).state) == ("safe", "ended")


def test_a_finished_run_needs_a_larger_total(lab: Lab) -> None:
    """Refused as it is; with a larger total it goes on to that total."""
    (run,) = lab.launch(spec=stub_spec(64 * 3))
    lab.ended(run)
    refused = resume(lab, run, accept=True)
    assert isinstance(refused, VerdictReply)
    assert refused.verdict.grade == "refuse"
    assert isinstance(resume(lab, run, f"run.total_timesteps={64 * 6}", accept=True), Accepted)
    ended = lab.wait(run, lambda view: view.state == "ended" and view.attempt == 2)
    assert (ended.outcome, ended.timesteps) == ("finished", 64 * 6)


def test_a_live_run_is_not_resumed(lab: Lab) -> None:
    """Resuming a running run is refused and says that it runs."""
    (run,) = lab.launch()
    lab.running(run)
    with pytest.raises(UsageError, match="running"):
        resume(lab, run)


def test_a_run_without_a_checkpoint_says_so(lab: Lab) -> None:
    """Killed before its first checkpoint, there is nothing to go on from."""
    (run,) = lab.launch()
    lab.running(run)
    lab.act("kill", run)
    lab.ended(run)
    with pytest.raises(MissionError, match="no checkpoint"):
        resume(lab, run)


def test_a_run_whose_lease_is_held_is_not_started_twice(lab: Lab) -> None:
    """A process of the earlier attempt still owns the run: the resume is refused, and there is no second trainer."""
    run = stopped(lab)
    with lab.dir(run).lease.open() as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="still alive"):
            resume(lab, run)
    assert isinstance(resume(lab, run), Accepted)


def test_an_explicit_or_older_checkpoint_rewinds(lab: Lab) -> None:
    """Resuming from the first of two checkpoints drops the rows in between from the view, not from the file."""
    (run,) = lab.launch()
    lab.running(run, 3)
    lab.act("checkpoint", run)
    first = lab.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    lab.running(run, 12)
    lab.act("stop", run)
    lab.ended(run)
    with pytest.raises(UsageError, match="has no checkpoint"):
        lab.ask(lambda id_: Resume(id=id_, run=run, checkpoint="7"))
    lab.ask(lambda id_: Resume(id=id_, run=run, checkpoint=first))
    view = lab.wait(run, lambda view: view.attempt == 2 and view.state == "running")
    assert (view.timesteps or 0) < 12 * 64
    assert view.pids.trainer is not None
    os.kill(view.pids.trainer, signal.SIGKILL)
    lab.ended(run)
