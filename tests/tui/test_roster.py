"""Which runs are listed, and in which order."""

from __future__ import annotations

import pytest

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.state.filter_pattern import FilterPattern
from mission_tui.tui.state.fleet_view_state import SORTS, FleetViewState, list_rows
from tests.tui.fleets import ENDED, LIVE, a_fleet, a_run, ended, queued


def test_live_runs_come_before_those_that_wait_or_ended() -> None:
    """Whatever the order within."""
    for sort in SORTS:
        roster = list_rows(a_fleet(), sort=sort)
        assert {view.name for view in roster.live} == {view.name for view in LIVE}
        assert len(roster.rest) == 6


def test_the_pattern_finds_names_states_and_kinds() -> None:
    """What one sees of a run, one can filter by."""
    names = [view.name for view in list_rows(a_fleet(), FilterPattern("nan|paused")).runs]
    assert names == ["deep-77aa", "heavy-0b1e"]


@pytest.mark.parametrize(
    ("sort", "first"),
    [("run", "a"), ("done", "b"), ("return", "b"), ("st/s", "a"), ("ETA", "b"), ("health", "b"), ("state", "b")],
)
def test_sorting_puts_the_most_advanced_fastest_worst_first(sort: str, first: str) -> None:
    """Names and states rise, numbers fall, time left rises, trouble comes first."""
    one = a_run("a", steps_per_s=900.0, timesteps=1, eta_s=50.0, metrics={"rollout/ep_rew_mean": 1.0}, phase="update")
    other = a_run(
        "b", steps_per_s=100.0, timesteps=9, eta_s=5.0, metrics={"rollout/ep_rew_mean": 2.0}, flags=("keeperless",)
    )
    assert list_rows(a_fleet((one, other)), sort=sort).live[0].name == first


@pytest.mark.parametrize("sort", SORTS)
def test_unknown_values_come_last(sort: str) -> None:
    """A run of which nothing is known is at the end, and nothing crashes."""
    empty = a_run("z", steps_per_s=None, timesteps=None, eta_s=None, metrics={"rollout/ep_rew_mean": "nan"})
    roster = list_rows(a_fleet((empty, *LIVE, queued("q"), *ENDED)), sort=sort)
    assert len(roster.runs) == 10
    if sort in ("done", "return"):
        assert roster.live[-1].name == "z"


def test_marks_of_runs_that_are_gone_are_forgotten() -> None:
    """So that no action ever applies to something unseen."""
    view_state = FleetViewState()
    view_state.take_snapshot(a_fleet())
    view_state.mark()
    view_state.mark()
    view_state.take_snapshot(a_fleet((LIVE[1], *ENDED)))
    assert view_state.targets() == (LIVE[1],)


def test_a_launch_that_is_taken_back_gives_the_choice_back() -> None:
    """And not to the neighbour of the run that is gone, which the next key would act on; a move forgets it."""
    view_state, late = FleetViewState(), a_run("late")
    for moved in (False, True):
        view_state.take_snapshot(a_fleet())
        view_state.choose(0)
        view_state.awaited = late.id
        view_state.take_snapshot(a_fleet((*LIVE, late, *ENDED)))
        assert view_state.chosen == late.id
        if moved:
            view_state.move(-1)
            view_state.move(1)
        view_state.take_snapshot(a_fleet())
        assert (view_state.chosen == LIVE[0].id) is not moved


def test_a_filtered_run_keeps_its_mark_but_is_no_target() -> None:
    """Actions apply to what is listed."""
    view_state = FleetViewState()
    view_state.take_snapshot(a_fleet())
    view_state.mark()
    assert view_state.marks == "1 marked"
    view_state.pattern = FilterPattern("wide")
    view_state.take_snapshot(a_fleet())
    assert view_state.targets() == (LIVE[1],)
    assert view_state.marked == {LIVE[0].id}
    assert view_state.marks == "0 of 1 marked"


def test_an_unknown_way_of_looking_is_an_error() -> None:
    """The table of actions and the view state cannot drift apart unnoticed."""
    with pytest.raises(ValueError, match="sideways"):
        FleetViewState().act("sideways", panes_shown=False)


def _sweep() -> tuple[RunView, ...]:
    """Two rates by two seeds, and a run beside them."""
    rates = {"s1": 0.003, "s2": 0.001, "s3": 0.003, "s4": 0.0001}
    return (*(a_run(name, varied={"lr": rate}, seed=1) for name, rate in rates.items()), a_run("alone", seed=2))


def test_settings_that_vary_are_orders_of_the_list() -> None:
    """`>` comes to them behind the columns that are always there; they rise, and runs without any come last."""
    view_state = FleetViewState()
    view_state.take_snapshot(a_fleet(_sweep()))
    assert view_state.sorts == (*SORTS, "lr")
    view_state.turn_sort(-1)
    assert view_state.sort == "lr"
    view_state.take_snapshot(a_fleet(_sweep()))
    assert [view.name for view in view_state.roster.runs] == ["s4", "s2", "s1", "s3", "alone"]


def test_an_order_by_a_setting_outlives_the_runs_that_had_it() -> None:
    """Once they are gone the next key turns from the order of age."""
    view_state = FleetViewState(sort="lr")
    view_state.take_snapshot(a_fleet())
    view_state.turn_sort(1)
    assert view_state.sort == SORTS[1]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("lr>=1e-3", ["s1", "s2", "s3"]),
        ("lr=0.003", ["s1", "s3"]),
        ("ppo.learning_rate<1e-3", ["s4"]),
        ("lr!=3e-3 seed=1", ["s2", "s4"]),
        ("seed=2", ["alone"]),
        ("0.003", ["s1", "s3"]),
        ("momentum=3", []),
    ],
)
def test_the_filter_compares_settings(words: str, found: list[str]) -> None:
    """Numbers are compared as such; what is no condition about what varies is searched for as before."""
    assert [view.name for view in list_rows(a_fleet(_sweep()), FilterPattern(words)).runs] == found


def test_of_settings_that_vary_the_one_with_the_most_values_comes_first() -> None:
    """Where there is room for one column it is the one that tells the runs apart; equal ones stay in their order."""
    runs = [a_run(f"r{at}", varied={"n_epochs": at % 2, "lr": at, "gamma": at % 2}) for at in range(4)]
    view_state = FleetViewState()
    view_state.take_snapshot(a_fleet(tuple(runs)))
    assert view_state.roster.varied == ("lr", "n_epochs", "gamma")


def test_names_that_count_are_sorted_by_their_numbers() -> None:
    """`many-2` before `many-10`; a name that begins with a number or is none at all breaks nothing."""
    names = ["many-10", "many-2", "7up", "many", "many-2b"]
    rows = list_rows(a_fleet(tuple(ended(name, 5) for name in names)), None, "run").runs
    assert [view.name for view in rows] == ["7up", "many", "many-2", "many-2b", "many-10"]
