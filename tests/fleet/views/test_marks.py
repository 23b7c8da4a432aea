"""Marks on findings, and what is still due to be done about them, as the store folds both from events."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.journal import AttemptStarting, FindingChanged, FindingMarked, HealthActed, RunCreated
from mission_tui.fleet.history.run import Fact, RunHistory
from mission_tui.fleet.views.run import view_of
from tests.fleet.recorded import SPEC

KL = Finding("kl-persistent-1-12", "kl-persistent", "warning", 12, 12, "KL", "cause", "advice")
NAN = Finding("nan-1-20", "nan", "critical", 20, 20, "NaN", "cause", "advice")


def told(*facts: Fact) -> RunHistory:
    """A run in its first attempt that was then told `facts`."""
    run = RunHistory("run", "/lab/runs/run", SPEC)
    for fact in (RunCreated(1, 90.0, "first", "demo"), AttemptStarting(2, 91.0, 1), *facts):
        assert run.apply(fact)
    return run


def standings(run: RunHistory) -> dict[str, str]:
    """Rule and state of each finding, in the order of the view."""
    return {finding.rule: finding.state for finding in view_of(run).findings}


def test_an_acknowledged_finding_is_open_again_when_it_becomes_worse() -> None:
    """A warning that a person knows is acknowledged; turned critical it is news."""
    run = told(FindingChanged(3, 92.0, KL), FindingMarked(4, 93.0, "acknowledged", finding=KL.id))
    assert standings(run) == {"kl-persistent": "acknowledged"}
    run.apply(FindingChanged(5, 94.0, structs.replace(KL, severity="critical")))
    assert standings(run) == {"kl-persistent": "open"}
    run.apply(FindingMarked(6, 95.0, "acknowledged", finding=KL.id))
    run.apply(FindingChanged(7, 96.0, structs.replace(KL, severity="warning")))
    assert standings(run) == {"kl-persistent": "acknowledged"}, "what was known as critical is known as a warning"


def test_marked_findings_come_after_open_ones() -> None:
    """Open first, then acknowledged, then silenced, then those that are over."""
    stall = Finding("stall-1-30", "stall", "critical", 30, 30, "stall", "cause", "advice")
    plateau = Finding("plateau-1-31", "plateau", "info", 31, 31, "plateau", "cause", "advice")
    run = told(
        FindingChanged(3, 92.0, KL),
        FindingChanged(4, 92.0, structs.replace(NAN, state="cleared")),
        FindingChanged(5, 92.0, stall),
        FindingChanged(6, 92.0, plateau),
        FindingMarked(7, 93.0, "silenced", rule="stall"),
        FindingMarked(8, 93.0, "acknowledged", finding=KL.id),
    )
    assert list(standings(run).items()) == [
        ("plateau", "open"),
        ("kl-persistent", "acknowledged"),
        ("stall", "silenced"),
        ("nan", "cleared"),
    ]


def test_a_silenced_rule_is_silent_for_what_comes_too_until_it_is_opened() -> None:
    """Silencing is by rule: earlier and later findings of it, and no others; the view names the rule."""
    later = structs.replace(KL, id="kl-persistent-1-40")
    run = told(
        FindingChanged(3, 92.0, KL),
        FindingMarked(4, 93.0, "silenced", rule="kl-persistent"),
        FindingChanged(5, 94.0, later),
        FindingChanged(6, 94.0, NAN),
    )
    assert [(it.id, it.state) for it in view_of(run).findings if it.rule == KL.rule] == [
        (KL.id, "silenced"),
        (later.id, "silenced"),
    ]
    assert standings(run)["nan"] == "open"
    assert view_of(run).silenced == ("kl-persistent",)
    run.apply(FindingMarked(7, 95.0, "open", rule="kl-persistent"))
    assert {finding.state for finding in view_of(run).findings} == {"open"}
    assert view_of(run).silenced == ()


def test_a_finding_is_due_when_it_opens_and_when_it_becomes_worse() -> None:
    """Due from the start; after it was acknowledged, due again only as critical; over, it is not due."""
    run = told(FindingChanged(3, 92.0, KL))
    assert run.journal.due == {KL.id}
    run.apply(FindingMarked(4, 93.0, "acknowledged", finding=KL.id))
    assert run.journal.due == set()
    run.apply(FindingChanged(5, 94.0, structs.replace(KL, severity="critical")))
    assert run.journal.due == {KL.id}
    run.apply(FindingChanged(6, 95.0, structs.replace(KL, severity="critical", state="cleared")))
    assert run.journal.due == set()


def test_taking_a_mark_back_makes_nothing_due() -> None:
    """What was silenced when it opened causes nothing later, however long it lasts and whatever is unmarked."""
    run = told(
        FindingMarked(3, 92.0, "silenced", rule="nan"),
        FindingChanged(4, 93.0, NAN),
        FindingChanged(5, 93.0, KL),
        FindingMarked(6, 94.0, "open", rule="nan"),
        FindingMarked(7, 94.0, "acknowledged", finding=KL.id),
        FindingMarked(8, 95.0, "open", finding=KL.id),
    )
    assert set(standings(run).values()) == {"open"}
    assert run.journal.due == set()


def test_what_was_done_is_remembered_with_the_severity_it_was_done_for() -> None:
    """A warning's notification is not a critical one's; a new attempt begins with nothing due and nothing done."""
    run = told(
        FindingChanged(3, 92.0, KL),
        HealthActed(4, 92.0, KL.id, "notified"),
        FindingChanged(5, 93.0, structs.replace(KL, severity="critical")),
        HealthActed(6, 93.0, KL.id, "checkpoint"),
        HealthActed(7, 93.0, "", "notified", "on_event ended with exit code 1"),
    )
    assert run.journal.acted == {(KL.id, "warning", "notified"), (KL.id, "critical", "checkpoint")}
    run.apply(AttemptStarting(8, 95.0, 2))
    assert (run.journal.due, run.journal.acted) == (set(), set())


def test_a_finding_knows_its_attempt() -> None:
    """By its id; an id of another form belongs to none."""
    assert (KL.attempt, structs.replace(KL, id="kl-persistent-3-400").attempt) == (1, 3)
    assert [structs.replace(KL, id=other).attempt for other in ("", "x", "kl-persistent")] == [0, 0, 0]
