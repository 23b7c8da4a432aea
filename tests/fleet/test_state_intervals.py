"""When a run waited or was held, by its journal alone."""

from __future__ import annotations

from mission_tui.fleet.events.journal import (
    Asked,
    AttemptEnded,
    AttemptStarting,
    FleetEvent,
    RunCreated,
    RunFrozen,
    RunPaused,
    RunResumed,
    RunThawed,
)
from mission_tui.fleet.events.outcome import Stopped
from mission_tui.fleet.history.journal_state import MOST_STATE_CHANGES, StateIntervals
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.strip import StateInterval

JOURNAL: list[FleetEvent] = [
    RunCreated(1, 100.0, "heavy", "heavy"),
    AttemptStarting(2, 110.0, 1),
    RunPaused(3, 120.0, 1),
    RunFrozen(4, 130.0, 1),
    RunThawed(5, 140.0, 1),
    RunResumed(6, 150.0, 1),
    Asked(7, 160.0, "park", 1),
    AttemptEnded(8, 161.0, 1, Stopped("000000512")),
    AttemptStarting(9, 200.0, 2),
]


def told(*events: FleetEvent) -> RunHistory:
    run = RunHistory("r", "/r", None)
    for event in events:
        run.apply(event)
    return run


def test_a_run_stands_as_its_journal_says() -> None:
    """Queued until it begins, paused, frozen within the pause, parked until it goes on; nothing while it trains."""
    stands = told(*JOURNAL).state_intervals.between(0.0, 300.0)
    assert stands == (
        StateInterval("queued", 100.0, 110.0),
        StateInterval("paused", 120.0, 130.0),
        StateInterval("frozen", 130.0, 140.0),
        StateInterval("paused", 140.0, 150.0),
        StateInterval("parked", 161.0, 200.0),
    )


def test_what_goes_on_ends_where_one_looks() -> None:
    """And what began before begins there."""
    run = told(*JOURNAL[:3])
    assert run.state_intervals.between(125.0, 128.0) == (StateInterval("paused", 125.0, 128.0),)
    assert run.state_intervals.between(101.0, 105.0) == (StateInterval("queued", 101.0, 105.0),)
    assert run.state_intervals.between(111.0, 119.0) == ()


def test_a_clock_that_was_set_back_turns_nothing_round() -> None:
    """A change is no earlier than the one before it; of very many the newest are known."""
    run = told(RunCreated(1, 100.0, "r", "p"), AttemptStarting(2, 50.0, 1), RunPaused(3, 60.0, 1))
    assert run.state_intervals.between(0.0, 200.0) == (StateInterval("paused", 100.0, 200.0),)
    intervals = StateIntervals()
    for at in range(10_000):
        intervals.add("paused" if at % 2 else "running", float(at))
    stands = intervals.between(0.0, 10_000.0)
    assert len(stands) == MOST_STATE_CHANGES // 2
    assert stands[-1] == StateInterval("paused", 9_999.0, 10_000.0)
