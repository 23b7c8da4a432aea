"""The log of actions: what people, rules and the run's own restarts did, as its journal tells it."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    ClockStepped,
    FindingChanged,
    FleetEvent,
    GoalReached,
    HealthActed,
    RestartDue,
    RunCreated,
    RunFrozen,
    RunThawed,
    SettingsAsked,
)
from mission_tui.fleet.events.outcome import Failed
from mission_tui.fleet.resume.verdict import Change
from mission_tui.ipc.replies import DetailsReply
from mission_tui.supervisor.readonly.details import SHOWN, audit_log_of
from tests.tui.fleets import NAN_FINDING

SCREEN = "screen, pts/1"


def told(*events: FleetEvent) -> list[tuple[str, str, str]]:
    """What, by whom, and the detail of each deed of a journal of `events`."""
    return [(deed.what, deed.by, deed.detail) for deed in audit_log_of(events)]


def test_people_are_told_with_what_they_changed() -> None:
    """A launch, a setting and a resume, each by its asker."""
    change = Change("ppo.n_epochs", "10", "5", "note", "")
    assert told(
        RunCreated(1, 1.0, "heavy-1", "heavy", asker=SCREEN),
        AttemptStarting(2, 2.0, 1, asker=SCREEN),
        SettingsAsked(3, 3.0, 1, ("ppo.n_epochs=5",), (change,), asker="sweep.py"),
        AttemptStarting(4, 4.0, 2, "000081920", (change,), asker=SCREEN),
    ) == [
        ("launch", SCREEN, "preset heavy"),
        ("set", "sweep.py", "ppo.n_epochs 10 → 5"),
        ("resume", SCREEN, "attempt 2 from 000081920, ppo.n_epochs 10 → 5"),
    ]


def test_what_a_rule_did_is_not_said_to_be_a_persons() -> None:
    """The order that it gave and the reason are one line, by the rule."""
    assert told(
        FindingChanged(1, 1.0, NAN_FINDING),
        Asked(2, 2.0, "stop", 1),
        HealthActed(3, 3.0, NAN_FINDING.id, "stop"),
        Asked(4, 4.0, "kill", 1, asker=SCREEN),
    ) == [("stop", "rule nan", ""), ("kill", SCREEN, "")]


def test_restarts_are_the_runs_own() -> None:
    """Why it ended, that another attempt was due, and that it began; and what came from outside."""
    entries = told(
        AttemptEnded(1, 10.0, 1, Failed(kind="crash", cause="exit code 1")),
        RestartDue(2, 10.0, 1, 1, 3, 15.0),
        AttemptStarting(3, 15.0, 2, "000081920", restart=1),
        RunFrozen(4, 16.0, 2, "outside"),
        RunFrozen(5, 17.0, 2),
    )
    assert entries == [
        ("ended", "", "failed: exit code 1"),
        ("restart due", "the run's own rule", "1 of 3 in a row, in 5 s, after a failure"),
        ("restart", "the run's own rule", "attempt 2 from 000081920"),
        ("freeze", "outside, by a signal", ""),
    ]


def test_a_clock_that_was_set_and_a_machine_that_slept_are_no_signals() -> None:
    """By how much in the unit that one looks for, and no signal where something else is known."""
    entries = told(
        *(ClockStepped(1, 1.0, 1, by_s) for by_s in (-10800.0, 42.2, 90.0, 200_000.0)),
        RunFrozen(2, 2.0, 1, "outside", why="the machine was suspended"),
        RunThawed(3, 3.0, 1, "outside"),
    )
    assert entries == [
        ("clock set", "outside", "3 hours back"),
        ("clock set", "outside", "42 s forward"),
        ("clock set", "outside", "1.5 minutes forward"),
        ("clock set", "outside", "2.3 days forward"),
        ("freeze", "outside", "the machine was suspended"),
        ("thaw", "outside", ""),
    ]


def test_only_the_newest_are_told_and_no_text_can_hurt() -> None:
    """A journal of months is not sent whole; names of clients were cleaned, words of findings are."""
    nasty = structs.replace(NAN_FINDING, rule="\x1b[2Jnan")
    many = [Asked(number, float(number), "pause", 1) for number in range(SHOWN + 5)]
    entries = audit_log_of(
        [FindingChanged(1, 1.0, nasty), *many, HealthActed(9, 9.0, nasty.id, "notified", "\x1b]0;x\x07told")]
    )
    assert len(entries) == SHOWN
    assert (entries[-1].by, entries[-1].detail) == ("rule nan", "told")


def test_a_goal_that_was_reached_is_told_with_its_update() -> None:
    """Nobody did it, and everybody wants to know when."""
    reached = GoalReached(1, 1.0, 1, "475", 480.0, 1200, 1_228_800)
    assert told(reached) == [("goal reached", "", "475 with update 1,200, at 1,228,800 steps")]


def test_the_audit_log_travels_under_its_first_name() -> None:
    """A screen and a supervisor of different versions understand each other: the wire keeps the word `deeds`."""
    names = dict(zip(DetailsReply.__struct_fields__, DetailsReply.__struct_encode_fields__, strict=True))
    assert names["audit_log"] == "deeds"
