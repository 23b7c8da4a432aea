"""The restart policy as a function of what the journal says."""

from __future__ import annotations

import pytest

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    FleetEvent,
    RestartDue,
    RunParked,
    Verb,
)
from mission_tui.fleet.events.outcome import Failed, FailureKind, Killed, Lost, Outcome, Stopped
from mission_tui.fleet.history.restart_policy import GiveUp, StartAgain, next_step
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.spec import RestartAlso, RestartKeep
from tests.fleet.recorded import SPEC

KEEP = RestartKeep(most=3, wait_s=10.0)


class Story:
    """A run told event by event."""

    def __init__(self) -> None:
        self.run = RunHistory("run", "/runs/run", SPEC)
        self.t, self.attempt = 1000.0, 0

    def tell(self, event: FleetEvent) -> None:
        assert self.run.apply(event)

    @property
    def seq(self) -> int:
        return self.run.journal.seq + 1

    def lives(self, seconds: float, outcome: Outcome, restart: int = 0) -> Story:
        """Another attempt, and how it ended after so long."""
        self.attempt += 1
        self.tell(AttemptStarting(self.seq, self.t, self.attempt, restart=restart))
        self.t += seconds
        self.tell(AttemptEnded(self.seq, self.t, self.attempt, outcome))
        return self


def crash(kind: FailureKind = "crash") -> Failed:
    return Failed(kind, "ended by SIGSEGV (signal 11)", None, 11)


def test_off_by_default() -> None:
    """Nobody asked for restarts, so there are none."""
    assert next_step(Story().lives(60.0, crash()).run.journal, RestartKeep()) is None


@pytest.mark.parametrize(("restart", "wait_s"), [(0, 10.0), (1, 20.0), (2, 40.0)])
def test_each_restart_waits_twice_as_long(restart: int, wait_s: float) -> None:
    """10, 20, 40 seconds, counted over attempts that nobody asked for."""
    assert next_step(Story().lives(60.0, crash(), restart).run.journal, KEEP) == StartAgain(restart + 1, wait_s)


def test_after_the_last_restart_a_person_decides() -> None:
    """The third restart failed too: parked, with the cause; and that is decided once."""
    story = Story().lives(60.0, crash(), restart=3)
    step = next_step(story.run.journal, KEEP)
    assert step == GiveUp("failed again after 3 restarts: ended by SIGSEGV (signal 11)")
    story.tell(RunParked(story.seq, story.t, 1, step.why))
    assert story.run.state == "parked"
    assert next_step(story.run.journal, KEEP) is None


def test_an_hour_of_sound_life_forgives() -> None:
    """What fails after an hour's training counts anew."""
    assert next_step(Story().lives(3600.0, crash(), restart=3).run.journal, KEEP) == StartAgain(1, 10.0)


def test_five_young_deaths_are_a_loop_however_many_restarts_are_allowed() -> None:
    """Under ten seconds, five times in a row; one longer life in between begins the row anew."""
    keep = RestartKeep(most=100, wait_s=1.0)
    story = Story().lives(5.0, crash())
    for restart in range(1, 4):
        story.lives(5.0, crash(), restart)
        assert isinstance(next_step(story.run.journal, keep), StartAgain)
    looped = story.lives(5.0, crash(), 4)
    assert isinstance(next_step(looped.run.journal, keep), GiveUp)
    story = Story().lives(5.0, crash()).lives(5.0, crash(), 1).lives(60.0, crash(), 2)
    for restart in range(3, 7):
        story.lives(5.0, crash(), restart)
        assert isinstance(next_step(story.run.journal, keep), StartAgain)


@pytest.mark.parametrize("kind", ["exit", "gpu_fault", "unknown"])
def test_what_may_go_well_the_next_time_is_tried_again(kind: FailureKind) -> None:
    """A kernel that broke off is a crash on the GPU; under MPS it may have been that of another run."""
    assert next_step(Story().lives(60.0, crash(kind)).run.journal, KEEP) == StartAgain(1, 10.0)


@pytest.mark.parametrize("kind", ["config", "env", "nan", "oom", "gpu_lost", "start"])
def test_what_would_only_repeat_itself_needs_the_users_word(kind: RestartAlso) -> None:
    """Only what `also` names is restarted besides crashes and ends without a word."""
    journal = Story().lives(60.0, crash(kind)).run.journal
    assert next_step(journal, KEEP) is None
    assert next_step(journal, RestartKeep(most=3, also=(kind,))) == StartAgain(1, 10.0)


@pytest.mark.parametrize("outcome", [Stopped("7"), Killed(None), Lost("reboot")])
def test_only_failures_are_restarted(outcome: Outcome) -> None:
    """Neither what somebody ended, nor what nobody saw the end of."""
    assert next_step(Story().lives(60.0, outcome).run.journal, KEEP) is None


@pytest.mark.parametrize("verb", ["stop", "kill", "park"])
def test_a_run_that_was_asked_to_end_is_not_restarted(verb: Verb) -> None:
    """It crashed on the way, and would have ended anyway."""
    story = Story()
    story.tell(AttemptStarting(1, 1000.0, 1))
    story.tell(Asked(2, 1050.0, verb, 1))
    story.tell(AttemptEnded(3, 1060.0, 1, crash()))
    assert next_step(story.run.journal, KEEP) is None


@pytest.mark.parametrize(("verb", "state"), [("stop", "ended"), ("kill", "ended"), ("park", "parked")])
def test_ending_a_run_that_waits_takes_the_restart_back(verb: Verb, state: str) -> None:
    """While it waits it is queued; whoever ends it then wants no restart, also after the next look."""
    story = Story().lives(60.0, crash())
    story.tell(RestartDue(story.seq, story.t, 1, 1, 3, story.t + 10.0))
    assert (story.run.state, story.run.journal.over) == ("queued", False)
    story.tell(Asked(story.seq, story.t, verb, 1))
    assert (story.run.state, story.run.journal.over) == (state, True)
    assert next_step(story.run.journal, KEEP) is None
