"""Set: settings of a run that trains are judged, journaled, handed to its trainer, and kept by every later attempt."""

from __future__ import annotations

import signal
import time

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FleetEvent, SettingsAsked
from mission_tui.fleet.events.metrics import MetricRecord, SettingsChanged
from mission_tui.ipc.replies import Accepted, DetailsReply, HistoryReply, OperatorReply, VerdictReply
from mission_tui.ipc.requests import GetDetails, GetHistory, Resume, Set
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.runs.attempt import read_spec
from tests.supervisor.conftest import RunsRoot
from tests.supervisor.simulated_lab import SimulatedLab


def set_(lab: RunsRoot, run: str, *words: str, accept: bool = False, check_only: bool = False) -> OperatorReply:
    """Ask for it."""
    return lab.ask(lambda id_: Set(id=id_, run=run, assignments=words, accept=accept, check_only=check_only))


def asked(lab: RunsRoot, run: str) -> list[SettingsAsked]:
    """What the journal says was set."""
    return [event for event in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(event, SettingsAsked)]


def rate(lab: RunsRoot, run: str) -> object:
    """The learning rate of the run's spec, as everyone sees it."""
    details = lab.ask(lambda id_: GetDetails(id=id_, run=run))
    assert isinstance(details, DetailsReply)
    return details.spec.ppo.learning_rate


def test_what_is_set_is_in_the_journal_on_the_curve_and_in_the_spec(sim: SimulatedLab) -> None:
    """Accepted with what it does; the trainer takes it over once, and the history marks since when."""
    (run,) = sim.launch()
    sim.running(run, 2)
    reply = set_(sim, run, "ppo.learning_rate=1e-4")
    assert isinstance(reply, Accepted)
    assert reply.notes[0].startswith("ppo.learning_rate: 0.0003 -> 0.0001 from the next update on: ")
    view = sim.wait(run, lambda view: view.changes and view.changes[-1].update)
    assert len(view.changes) == 1
    history = sim.ask(lambda id_: GetHistory(id=id_, run=run, series=("steps_per_s",)))
    assert isinstance(history, HistoryReply)
    assert history.changes == view.changes
    (event,) = asked(sim, run)
    assert (event.attempt, event.assignments) == (1, ("ppo.learning_rate=1e-4",))
    assert [(it.name, it.was, it.now) for it in event.changes] == [("ppo.learning_rate", "0.0003", "0.0001")]
    assert rate(sim, run) == 1e-4
    assert read_spec(sim.dir(run).spec).ppo.learning_rate == 3e-4


def test_a_grave_change_waits_for_a_word_and_a_refused_one_is_not_done(sim: SimulatedLab) -> None:
    """Warned of first; with `accept` it is set. A batch beyond the rollout is refused whatever is accepted."""
    (run,) = sim.launch()
    sim.running(run)
    warned = set_(sim, run, "ppo.learning_rate=1e-2")
    assert isinstance(warned, VerdictReply)
    assert (warned.verdict.grade, warned.accept_needed) == ("warn", True)
    assert "ppo.target_kl=" in warned.verdict.changes[0].remedy
    refused = set_(sim, run, "ppo.batch_size=100000", accept=True)
    assert isinstance(refused, VerdictReply)
    assert refused.verdict.grade == "refuse"
    assert isinstance(set_(sim, run, "ppo.learning_rate=1e-2", check_only=True), VerdictReply)
    assert (asked(sim, run), rate(sim, run)) == ([], 3e-4)
    assert isinstance(set_(sim, run, "ppo.learning_rate=1e-2", accept=True), Accepted)
    assert rate(sim, run) == 1e-2


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("ppo.learning_rte=1e-4", "did you mean 'ppo.learning_rate'"),
        ("learning_rate=1e-4", "did you mean 'ppo.learning_rate'"),
        ("env.n_envs=64", "cannot be changed while a run trains: stop it, then resume --set env.n_envs"),
        ("ppo.learning_rate=1e-4,1e-5", "one value each"),
        ("ppo.n_epochs=none at all", "n_epochs"),
    ],
)
def test_anything_else_is_refused_with_the_nearest_key(sim: SimulatedLab, word: str, said: str) -> None:
    """Nothing is changed, not even by the words beside it."""
    (run,) = sim.launch()
    sim.running(run)
    with pytest.raises(Exception, match=said):
        set_(sim, run, "ppo.ent_coef=0.01", word, accept=True)
    assert asked(sim, run) == []


def test_only_a_run_that_trains_can_be_set(sim: SimulatedLab) -> None:
    """One that has ended is pointed to resume; setting what is there already is no change."""
    (run,) = sim.launch()
    sim.running(run)
    same = set_(sim, run, "ppo.learning_rate=3e-4")
    assert isinstance(same, Accepted)
    assert "has these settings already" in same.notes[0]
    assert asked(sim, run) == []
    sim.act("stop", run)
    sim.ended(run)
    with pytest.raises(UsageError, match="resume --set"):
        set_(sim, run, "ppo.learning_rate=1e-4")


def test_a_new_budget_is_the_runs_budget(sim: SimulatedLab) -> None:
    """The view counts to it, and the run ends there."""
    (run,) = sim.launch(STUB_UPDATE_S="0.1")
    sim.running(run)
    assert isinstance(set_(sim, run, "run.total_timesteps=1280"), Accepted)
    assert sim.view(run).total_timesteps == 1280
    ended = sim.ended(run)
    assert (ended.outcome, ended.timesteps) == ("finished", 1280)


def test_what_was_set_outlives_the_supervisor_and_the_attempt(sim: SimulatedLab) -> None:
    """Known to the next supervisor, waiting or in effect; a resume goes on with it."""
    (run,) = sim.launch()
    sim.running(run)
    view = sim.view(run)
    assert view.pids.trainer is not None
    sim.kill(view.pids.trainer, signal.SIGSTOP)
    assert isinstance(set_(sim, run, "ppo.ent_coef=0.01"), Accepted)
    assert sim.view(run).changes[-1].update is None
    sim.kill_supervisor()
    sim.kill(view.pids.trainer, signal.SIGCONT)
    sim.start()
    view = sim.wait(run, lambda view: view.changes and view.changes[-1].update)
    assert len(view.changes) == 1
    sim.act("stop", run)
    sim.ended(run)
    sim.kill_supervisor()
    sim.start()
    assert isinstance(sim.ask(lambda id_: Resume(id=id_, run=run, accept=True)), Accepted)
    sim.wait(run, lambda view: view.attempt == 2 and view.state == "running")
    assert read_spec(sim.dir(run).attempt(2).spec).ppo.ent_coef == 0.01
    assert sim.view(run).changes == view.changes


def test_a_trainer_that_never_heard_is_told_by_the_next_supervisor(sim: SimulatedLab) -> None:
    """The supervisor died between the journal's line and the order: the line alone makes the trainer take it over."""
    (run,) = sim.launch()
    sim.running(run)
    sim.kill_supervisor()
    journal = AppendLog(sim.dir(run).events)
    journal.append(lambda seq: SettingsAsked(seq, time.time(), 1, ("ppo.ent_coef=0.01",)))
    journal.close()
    sim.start()
    sim.wait(run, lambda view: view.changes and view.changes[-1].update)
    (change,) = [it for it in read_all(sim.dir(run).metrics, MetricRecord)[0] if isinstance(it, SettingsChanged)]
    assert change.number == asked(sim, run)[0].seq


def test_a_crash_before_the_boundary_loses_nothing(sim: SimulatedLab) -> None:
    """The trainer died without taking it over: the next attempt has it all the same."""
    (run,) = sim.launch(STUB_SET_FREE="1")
    sim.running(run, 2)
    sim.act("checkpoint", run)
    sim.wait(run, lambda view: view.last_checkpoint)
    set_(sim, run, "ppo.vf_coef=0.25")
    trainer = sim.view(run).pids.trainer
    assert trainer is not None
    sim.kill(trainer, signal.SIGKILL)
    assert sim.ended(run).changes == ()
    sim.ask(lambda id_: Resume(id=id_, run=run, accept=True))
    sim.wait(run, lambda view: view.attempt == 2)
    assert read_spec(sim.dir(run).attempt(2).spec).ppo.vf_coef == 0.25
