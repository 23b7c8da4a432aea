"""Restarts by the run's own rule, with real processes that really crash."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.events.journal import AttemptStarting, FleetEvent, RestartDue
from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.spec import RestartAlso, RestartKeep, Spec
from mission_tui.ipc.replies import Accepted, VerdictReply
from mission_tui.ipc.requests import Resume, Undo
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import read_spec, read_terms
from tests.shell import REPOSITORY
from tests.supervisor.conftest import Lab, RunsRoot, stub_spec
from tests.supervisor.simulated_lab import SimulatedLab


def restarting(most: int, wait_s: float, also: tuple[RestartAlso, ...] = ()) -> Spec:
    """The stub's spec with a restart policy."""
    spec = stub_spec()
    keep = structs.replace(spec.keep, restart=RestartKeep(most=most, wait_s=wait_s, also=also))
    return structs.replace(spec, keep=keep)


def waiting(lab: RunsRoot, wait_s: float = 60.0) -> str:
    """A run that crashed and waits for its restart."""
    (run,) = lab.launch(spec=restarting(3, wait_s), STUB_CRASHES_AFTER="3")
    view = lab.wait(run, lambda view: view.restart)
    assert view.restart is not None
    assert (view.state, view.outcome, view.kind, view.restart.number) == ("queued", "failed", "crash", 1)
    return run


@pytest.mark.slow
def test_a_run_that_crashes_is_restarted_and_parked_after_the_last_time(lab: Lab) -> None:
    """Two restarts, each after twice the wait, then parked with the reason; without a checkpoint they begin anew."""
    (run,) = lab.launch(spec=restarting(2, 0.5), STUB_CRASHES_AFTER="3")
    view = lab.wait(run, lambda view: view.state == "parked", 20)
    assert view.attempt == 3
    assert "failed again after 2 restarts: ended by SIGSEGV" in (view.cause or "")
    events = read_all(lab.dir(run).events, FleetEvent)[0]
    assert [event.restart for event in events if isinstance(event, AttemptStarting)] == [0, 1, 2]
    dues = [event for event in events if isinstance(event, RestartDue)]
    assert [(due.number, round(due.due_t - due.t, 2)) for due in dues] == [(1, 0.5), (2, 1.0)]
    with pytest.raises(UsageError, match="it is parked"):
        lab.act("stop", run)


def test_a_restart_goes_on_from_the_newest_checkpoint(sim: SimulatedLab) -> None:
    """What was saved is not trained again."""
    (run,) = sim.launch(spec=restarting(2, 0.5), STUB_CRASHES_AFTER="40")
    sim.running(run, 5)
    sim.act("checkpoint", run)
    saved = sim.wait(run, lambda view: view.last_checkpoint).last_checkpoint
    view = sim.wait(run, lambda view: view.attempt == 2 and view.state == "running" and view.connected, 20)
    starts = [event for event in read_all(sim.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptStarting)]
    assert [start.checkpoint for start in starts] == [None, saved]
    assert (view.update or 0) >= 5
    sim.act("kill", run)


def test_a_restart_without_a_later_checkpoint_keeps_the_terms_of_its_attempt(sim: SimulatedLab) -> None:
    """A branch that crashes before it saves anything begins with the same weights again."""
    spec = restarting(1, 0.5)
    (source,) = sim.launch(spec=spec)
    sim.running(source, 3)
    sim.act("stop", source)
    checkpoint = sim.ended(source).last_checkpoint
    crashing = {"PATH": sim.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "STUB_CRASHES_AFTER": "2"}
    branched = sim.ask(
        lambda id_: Resume(
            id=id_, run=source, branch=True, accept=True, cwd="/", python=sys.executable, environ=crashing
        )
    )
    assert isinstance(branched, Accepted)
    (run,) = branched.runs
    sim.wait(run, lambda view: view.attempt == 2, 20)
    assert checkpoint is not None
    assert read_terms(sim.dir(run).attempt(2).terms) == Terms(weights_from=checkpoint)


def test_a_crash_loop_is_parked_although_more_restarts_are_allowed(sim: SimulatedLab) -> None:
    """Five deaths within ten seconds each are enough (W14)."""
    (run,) = sim.launch(spec=restarting(100, 0.01), STUB_CRASHES_AFTER="1")
    view = sim.wait(run, lambda view: view.state == "parked", 20)
    assert view.attempt == 5
    assert "failed within seconds 5 times in a row" in (view.cause or "")


def test_a_waiting_restart_survives_the_supervisor(sim: SimulatedLab) -> None:
    """It is in the journal: the next supervisor starts it when it is due, and stays for it."""
    run = waiting(sim, 3.0)
    sim.kill_supervisor()
    sim.start(MISSION_TUI_IDLE_S="0.5")
    assert sim.view(run).state == "queued"
    sim.wait(run, lambda view: view.attempt == 2, 10)


@pytest.mark.parametrize(("verb", "state"), [("stop", "ended"), ("kill", "ended"), ("park", "parked")])
def test_ending_a_waiting_run_calls_its_restart_off(sim: SimulatedLab, verb: str, state: str) -> None:
    """Accepted at once, and not forgotten by the next supervisor."""
    run = waiting(sim)
    assert sim.act(verb, run).runs == (run,)
    assert sim.view(run).state == state
    sim.kill_supervisor()
    sim.start()
    view = sim.view(run)
    assert (view.state, view.restart, view.attempt) == (state, None, 1)


def test_a_request_that_is_refused_calls_no_restart_off(sim: SimulatedLab) -> None:
    """Ending a waiting run and an ended one is refused, and a refusal has done nothing to any of them."""
    (over,) = sim.launch()
    sim.running(over)
    sim.act("kill", over)
    sim.ended(over)
    run = waiting(sim)
    for verb in ("stop", "kill", "park"):
        with pytest.raises(UsageError, match="it has ended"):
            sim.act(verb, run, over)
        assert sim.view(run).restart is not None


def test_resume_and_undo_know_a_waiting_run(sim: SimulatedLab) -> None:
    """Undo removes it; nothing can be paused that has no process; a stop by `@live` means it too."""
    run = waiting(sim)
    with pytest.raises(UsageError, match="waits for its restart"):
        sim.act("pause", run)
    assert isinstance(sim.ask(lambda id_: Undo(id=id_, runs=(run,))), Accepted)
    assert not sim.dir(run).path.exists()
    run = waiting(sim)
    assert sim.act("stop", "@live").runs == (run,)


def test_a_restart_that_does_not_fit_now_waits(idle_sim: SimulatedLab, tmp_path: Path) -> None:
    """Another run took its place meanwhile: that is the reason, and it goes on when the other one is over."""
    limits = tmp_path / "config" / "mission-tui" / "limits.toml"
    limits.parent.mkdir(parents=True)
    limits.write_text("runs = 1\n")
    idle_sim.start(XDG_CONFIG_HOME=str(tmp_path / "config"))
    (run,) = idle_sim.launch(spec=restarting(3, 2.0), STUB_CRASHES_AFTER="3")
    idle_sim.wait(run, lambda view: view.restart)
    (other,) = idle_sim.launch(STUB_UPDATE_S="600")
    view = idle_sim.wait(run, lambda view: "limits.toml allows 1 at once" in (view.cause or ""))
    assert idle_sim.view(other).attempt == view.attempt == 1
    idle_sim.act("kill", other)
    idle_sim.wait(run, lambda view: view.attempt == 2)


def test_a_resume_does_not_wait(sim: SimulatedLab) -> None:
    """A person's resume starts the next attempt at once, and counts as asked for."""
    (run,) = sim.launch(spec=restarting(3, 60.0), STUB_CRASHES_AFTER="40")
    sim.running(run, 2)
    sim.act("checkpoint", run)
    sim.wait(run, lambda view: view.restart, 15)
    assert isinstance(sim.ask(lambda id_: Resume(id=id_, run=run)), Accepted)
    assert sim.running(run).attempt == 2
    starts = [event for event in read_all(sim.dir(run).events, FleetEvent)[0] if isinstance(event, AttemptStarting)]
    assert [start.restart for start in starts] == [0, 0]


def test_a_resume_of_a_waiting_run_asks_nothing_that_was_accepted(sim: SimulatedLab) -> None:
    """It goes on from where the failed attempt began, with its settings and on its terms; a further change is asked."""
    (run,) = sim.launch(spec=restarting(3, 60.0), STUB_CRASHES_AFTER="40")
    sim.running(run, 2)
    sim.act("stop", run)
    saved = sim.ended(run).last_checkpoint
    change = ("ppo.batch_size=32",)
    crashing = {"PATH": sim.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "STUB_CRASHES_AFTER": "1"}
    who: dict[str, Any] = {"cwd": "/", "python": sys.executable, "environ": crashing}
    accepted = sim.ask(lambda id_: Resume(id=id_, run=run, assignments=change, remedies=("reset-adam",), **who))
    assert isinstance(accepted, Accepted)
    terms = read_terms(sim.dir(run).attempt(2).terms)
    assert terms.fresh_optimizer
    sim.wait(run, lambda view: view.attempt == 2 and view.restart)
    shown = sim.ask(lambda id_: Resume(id=id_, run=run, check_only=True))
    assert isinstance(shown, VerdictReply)
    assert (shown.checkpoint, shown.accept_needed, [it.name for it in shown.verdict.changes]) == (
        saved,
        False,
        ["ppo.batch_size"],
    )
    asked = sim.ask(lambda id_: Resume(id=id_, run=run, assignments=("env.n_envs=32",)))
    assert isinstance(asked, VerdictReply)
    assert asked.accept_needed
    assert isinstance(sim.ask(lambda id_: Resume(id=id_, run=run)), Accepted)
    view = sim.wait(run, lambda view: view.attempt == 3)
    assert view.origins[0].diff == ("ppo.batch_size 64 → 32",)
    assert read_terms(sim.dir(run).attempt(3).terms) == terms
    assert read_spec(sim.dir(run).attempt(3).spec).ppo.batch_size == 32


def test_a_resume_of_a_waiting_run_without_a_checkpoint_begins_it_anew(sim: SimulatedLab) -> None:
    """As its restart would, only now; with other settings it is another run, and is to be launched."""
    run = waiting(sim)
    with pytest.raises(MissionError, match="no checkpoint to go on from"):
        sim.ask(lambda id_: Resume(id=id_, run=run, assignments=("ppo.batch_size=32",)))
    shown = sim.ask(lambda id_: Resume(id=id_, run=run, check_only=True))
    assert isinstance(shown, VerdictReply)
    assert (shown.verdict.grade, sim.view(run).attempt) == ("safe", 1)
    accepted = sim.ask(lambda id_: Resume(id=id_, run=run))
    assert isinstance(accepted, Accepted)
    assert "begins anew" in accepted.notes[0]
    assert sim.view(run).attempt == 2


def test_a_run_that_failed_before_its_first_checkpoint_is_begun_anew_in_its_group(sim: SimulatedLab) -> None:
    """Nobody asked for restarts: the resume is the second attempt of the same run, so it stays in its launch."""
    (run,) = sim.launch(spec=restarting(0, 60.0), STUB_CRASHES_AFTER="1")
    assert sim.ended(run).last_checkpoint is None
    accepted = sim.ask(lambda id_: Resume(id=id_, run=run))
    assert isinstance(accepted, Accepted)
    assert (accepted.runs, sim.view(run).attempt) == ((run,), 2)
    assert "begins anew" in accepted.notes[0]


def test_numbers_that_are_none_are_restarted_only_on_the_users_word(sim: SimulatedLab) -> None:
    """`nan` ends a run although crashes are restarted; named in `also` it is restarted."""
    plain, named = (sim.launch(spec=restarting(3, 60.0, also), STUB_DIES_AT="2")[0] for also in ((), ("nan",)))
    assert sim.ended(plain).kind == "nan"
    assert sim.wait(named, lambda view: view.restart).kind == "nan"
