"""What follows an attempt that a restart of the machine ended, as a function of what the journal says."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    FleetEvent,
    RestartDue,
    RunFrozen,
    RunPaused,
    Verb,
)
from mission_tui.fleet.events.metrics import TrainingStarted
from mission_tui.fleet.events.outcome import Failed, Finished, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.history.restart_policy import (
    AT_LIMIT,
    REBOOTS,
    GiveUp,
    StartAgain,
    after_interruption,
    after_reboot,
    ended_by_reboot,
)
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.views.run import view_of
from tests.fleet.recorded import SPEC

LOST = Lost("the machine was restarted while it ran", "000001024")


def told(*events: FleetEvent) -> RunHistory:
    """A run of which so much was said."""
    run = RunHistory("run", "/runs/run", SPEC)
    for event in events:
        assert run.apply(event)
    return run


def rebooted(reboots: int = 0, restart: int = 0) -> RunHistory:
    """A run that a reboot took while its attempt trained."""
    return told(
        AttemptStarting(1, 100.0, 1, checkpoint="000001024", restart=restart, reboots=reboots),
        AttemptEnded(2, 200.0, 1, LOST, rebooted=True),
    )


def test_it_goes_on_at_once() -> None:
    """The first of so many in a row, without a wait: nothing of the run failed."""
    assert after_reboot(rebooted().journal, 50.0) == StartAgain(1, 0.0)


def test_only_what_a_reboot_ended_goes_on() -> None:
    """Not what finished, was stopped, or was lost with nobody to see it on this boot."""
    assert after_reboot(told(AttemptStarting(1, 100.0, 1), AttemptEnded(2, 200.0, 1, LOST)).journal, 50.0) is None


@pytest.mark.parametrize("verb", ["stop", "kill", "park"])
def test_what_somebody_was_ending_stays_ended(verb: Verb) -> None:
    """The machine was faster than the stop."""
    run = told(AttemptStarting(1, 1.0, 1), Asked(2, 2.0, verb, 1), AttemptEnded(3, 3.0, 1, LOST, rebooted=True))
    assert after_reboot(run.journal, 50.0) is None


@pytest.mark.parametrize("stands", [RunPaused(2, 2.0, 1), RunFrozen(2, 2.0, 1)])
def test_what_stood_waits_for_who_halted_it(stands: RunPaused | RunFrozen) -> None:
    """A paused or frozen run does not begin to train because of a power cut; one that went on meanwhile does."""
    run = told(AttemptStarting(1, 1.0, 1), stands, AttemptEnded(3, 3.0, 1, LOST, rebooted=True))
    assert after_reboot(run.journal, 50.0) is None


def test_it_is_decided_once() -> None:
    """While it waits for its next attempt nothing more follows; called off, it stays ended."""
    run = rebooted()
    assert run.apply(RestartDue(3, 201.0, 1, 1, REBOOTS, 201.0, "reboot"))
    assert (run.state, after_reboot(run.journal, 50.0)) == ("queued", None)
    assert run.apply(Asked(4, 202.0, "stop", 1))
    assert (run.state, after_reboot(run.journal, 50.0)) == ("ended", None)


def test_a_machine_that_restarts_again_and_again_parks_the_run() -> None:
    """After three in a row a person decides; an hour of training forgives."""
    assert after_reboot(rebooted(REBOOTS - 1).journal, 50.0) == StartAgain(REBOOTS, 0.0)
    step = after_reboot(rebooted(REBOOTS).journal, 50.0)
    assert isinstance(step, GiveUp)
    assert "restarted 4 times in a row" in step.why
    assert after_reboot(rebooted(REBOOTS).journal, 3600.0) == StartAgain(1, 0.0)


def test_a_view_counts_what_began_by_itself_and_says_after_what() -> None:
    """A restart after a failure and one after a reboot; what a person asked for is in no row."""
    run = told(
        AttemptStarting(1, 10.0, 1),
        AttemptEnded(2, 20.0, 1, Failed("crash", "ended by SIGSEGV")),
        AttemptStarting(3, 30.0, 2, checkpoint="000001024", restart=1),
        AttemptEnded(4, 40.0, 2, LOST, rebooted=True),
    )
    assert view_of(run).rebooted
    assert run.apply(RestartDue(5, 45.0, 2, 1, REBOOTS, 45.0, "reboot"))
    assert run.apply(AttemptStarting(6, 50.0, 3, checkpoint="000001024", restart=1, reboots=1))
    view = view_of(run)
    assert [(each.t, each.after) for each in view.again] == [(30.0, "failure"), (50.0, "reboot")]
    assert not view.rebooted
    assert view.origins[0].sentence == "resumed by itself after a reboot from 000001024; nothing changed"
    assert run.apply(AttemptEnded(7, 3660.0, 3, LOST, rebooted=True))
    assert run.apply(RestartDue(8, 3661.0, 3, 1, REBOOTS, 3661.0, "reboot"))
    assert run.apply(AttemptStarting(9, 3662.0, 4, checkpoint="000002048", restart=1, reboots=1))
    assert [each.after for each in view_of(run).again] == ["failure", "reboot", "reboot"]
    assert run.apply(AttemptEnded(10, 3700.0, 4, Stopped("000002048")))
    assert run.apply(AttemptStarting(11, 3701.0, 5, checkpoint="000002048"))
    assert len(view_of(run).again) == 3
    assert view_of(run).origins[0].sentence == "resumed from 000002048; nothing changed"
    assert run.apply(TrainingStarted(1, 5, 3702.0, moved=("machine n1 → n2",)))
    assert view_of(run).origins[0].sentence == "resumed from 000002048; machine n1 → n2"


@pytest.mark.parametrize(
    ("outcome", "seen", "terminated", "by_reboot"),
    [
        (LOST, False, False, True),
        (Stopped("7"), True, True, True),
        (Stopped("7"), False, False, True),
        (Killed(None), True, True, True),
        (Failed("env", "worker 3 was ended by SIGTERM"), True, True, True),
        (Failed("crash", "ended by SIGSEGV"), True, False, False),
        (Failed("nan", "loss is nan"), False, False, False),
        (Finished("7"), True, True, False),
        (Stopped("7"), True, False, False),
    ],
)
def test_which_ends_of_an_earlier_boot_were_its_end(
    outcome: Outcome, seen: bool, terminated: bool, by_reboot: bool
) -> None:
    """Power lost, or SIGTERM to everybody as a machine goes down; never what finished or failed by itself."""
    assert ended_by_reboot(outcome, seen=seen, terminated=terminated) is by_reboot


@pytest.mark.parametrize(
    ("why", "said"),
    [
        (AT_LIMIT, "last: the time limit of its job; a longer slurm.time leaves it time to train"),
        ("node n1 was lost", "last: node n1 was lost"),
    ],
)
def test_attempts_that_an_engine_ends_before_they_train_are_given_up(why: str, said: str) -> None:
    """As many as are named, and what helps; one that advanced is followed by another, however many came before."""
    run = told(
        AttemptStarting(1, 100.0, 1, checkpoint="000001024", reboots=REBOOTS),
        AttemptEnded(2, 200.0, 1, LOST, interrupted=why),
    )
    gives_up = GiveUp(f"its last 3 attempts ended before their first update, {said}")
    assert after_interruption(run.journal, advanced=False) == gives_up
    assert after_interruption(run.journal, advanced=True) == StartAgain(1, 0.0)
