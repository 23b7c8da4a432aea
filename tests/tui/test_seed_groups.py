"""Runs that differ by their seed alone: one row with their median and quartiles, opened and closed by a key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import replace

from mission_tui.fleet.comparison import compare
from mission_tui.fleet.comparison_sides import Trace
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import RETURN, Metric
from mission_tui.fleet.statistics import Quartiles, quartiles
from mission_tui.fleet.views.seed_group import SeedGroup, seed_groups
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Act
from mission_tui.tui.screens.compare import comparison
from mission_tui.tui.state.fleet_view_state import leader
from mission_tui.tui.widgets.run_table import GROUP_CELLS, _shape
from tests.tui.fleets import LIVE, a_fleet, a_run, ended, queued
from tests.tui.sides import a_side
from tests.tui.stage import staged

KL = Finding("9", "kl-persistent", "warning", 5, 5, "KL is high", "lr", "lower it")


def seed(number: int, value: float, **facts: Any) -> RunView:
    """One of a group that learns."""
    curve: tuple[Metric | None, ...] = tuple(value * n / 60 for n in range(1, 61))
    given: dict[str, Any] = {
        "group": "wide-11c0",
        "preset": "wide",
        "seed": number,
        "update": 60,
        "metrics": {"rollout/ep_rew_mean": value},
        "series": {"rollout/ep_rew_mean": curve},
        "findings": (),
    }
    given |= facts
    return a_run(given.pop("name", f"wide-{number}"), **given)


SEEDS = (seed(1, 10.0), seed(2, 12.0, findings=(KL,)), seed(3, 20.0))


def test_a_group_has_one_preset_and_each_seed_once() -> None:
    """A set has several presets and is no group of seeds, nor is a seed that is repeated."""
    assert [group.members for group in seed_groups((*LIVE, *SEEDS))] == [SEEDS]
    assert seed_groups((seed(1, 1.0), seed(1, 2.0))) == []
    assert seed_groups((seed(1, 1.0), seed(2, 2.0, preset="deep"))) == []
    assert seed_groups((seed(1, 1.0), seed(2, 2.0, group=None))) == []
    assert seed_groups(SEEDS[:1]) == []


def test_runs_of_other_settings_are_no_seeds_of_each_other() -> None:
    """A sweep for which nobody said a seed has one drawn for each run: their median would be of nothing."""
    drawn = [seed(40 + at, float(at), setting=f"lr{at // 2}") for at in range(5)]
    assert [(group.setting, len(group.members)) for group in seed_groups(drawn)] == [("lr0", 2), ("lr1", 2)]
    assert seed_groups(drawn[1:3]) == []


def test_a_living_run_stands_for_its_group_before_one_that_waits() -> None:
    """However the list is sorted; what is wrong with another one comes first."""
    waits = seed(1, 0.0, state="queued", update=None, cause="waits for a core")
    assert leader(SeedGroup((waits, SEEDS[0]))) == SEEDS[0]
    assert leader(SeedGroup((waits, SEEDS[0], SEEDS[1]))) == SEEDS[1]


async def test_the_seeds_of_each_setting_of_a_sweep_are_a_row() -> None:
    """With the table of the whole sweep below; `f` opens the row that it is on, and closes that one again."""
    sweep = [
        seed(number, value, name=f"{word}-s{number}-3f9a", setting=word, state="ended", outcome="finished")
        for word, value in (("lr1e-3", 4.0), ("lr1e-2", 2.0))
        for number in (1, 2)
    ]
    odd = seed(1, 3.0, name="lr1e-1-s1-3f9a", setting="lr1e-1", state="ended", outcome="finished")
    assert [(group.name, len(group.members)) for group in seed_groups((*sweep, odd))] == [("lr1e-3", 2), ("lr1e-2", 2)]
    async with staged(a_fleet((*sweep, odd)), (110, 30)) as stage:
        await stage.shows("lr1e-3 x2")
        await stage.shows("lr1e-2 x2")
        await stage.press("f")
        await stage.shows("lr1e-3-s1-3f9a")
        await stage.press("f")
        await stage.shows("lr1e-3 x2")


def test_its_quartiles_are_those_of_the_newest_returns() -> None:
    """Of those that are numbers, as numpy has them; none, while there is none."""
    assert SeedGroup(SEEDS).returns == Quartiles(3, 3, 12.0, 11.0, 16.0)
    nan = seed(4, 1.0, metrics={"rollout/ep_rew_mean": "nan"})
    assert SeedGroup((*SEEDS, nan)).returns == Quartiles(3, 4, 12.0, 11.0, 16.0)
    assert SeedGroup((nan, nan)).returns is None
    for values in ([7.0], [1.0, 2.0], [3.0, 1.0, 2.0, 9.0, 4.0, 4.0]):
        found = quartiles(values)
        assert found is not None
        assert (found.first, found.median, found.third) == tuple(np.quantile(values, (0.25, 0.5, 0.75)))


async def test_list_detail_and_comparison_say_the_same_of_a_group() -> None:
    """Median, interquartile range, how many seeds and how many live: the same numbers in the same words."""
    async with staged(a_fleet((LIVE[0], *SEEDS)), (150, 30)) as stage:
        await stage.press("v", "down")
        (row,) = [line for line in stage.lines() if line.startswith(">") and "wide x3" in line]
        assert "3/3 live" in row
        assert " 12 " in row
        assert "IQR 11..16" in row
        await stage.shows("wide x3  return: median 12, IQR 11 to 16, n 3, 3 live")
    traces = (Trace((1,), (1.0,), (value,)) for value in (10.0, 12.0, 20.0))
    sides = (a_side(view, n, 1.0) for n, view in enumerate(SEEDS))
    found = compare([replace(side, trace=trace) for side, trace in zip(sides, traces, strict=True)], RETURN)
    (cohort,) = found.cohorts
    final = cohort.spreads["final"]
    assert (final.median, final.quartiles, final.n, cohort.live) == (12.0, (11.0, 16.0), 3, 3)
    lines = [strip.text.split() for strip in comparison(found, 120)]
    (title,) = [it for it in lines if "measure" in it]
    (line,) = [it for it in lines if "final" in it[1:2]]
    assert title[:4] == ["measure", "median", "IQR", "n"]
    assert line[:8] == ["A-C", "final", "12", "11", "to", "16", "3,", "3"]


def test_medians_are_of_the_same_updates() -> None:
    """A member that is ahead waits for the others."""
    series: dict[str, tuple[Metric | None, ...]] = {"rollout/ep_rew_mean": (1.0, 2.0, 3.0, 4.0)}
    late = seed(1, 1.0, update=4, series=series)
    ahead = seed(2, 1.0, update=6, series={"rollout/ep_rew_mean": (3.0, 4.0, 5.0, 6.0, 90.0, 91.0)})
    assert SeedGroup((late, ahead)).medians == (2.0, 3.0, 4.0, 5.0)
    blank = seed(3, 1.0, update=4, series={"rollout/ep_rew_mean": (None, 2.0, 3.0, 4.0)})
    assert SeedGroup((late, blank)).medians == (None, 2.0, 3.0, 4.0)


def test_nobody_knows_when_a_group_is_done_of_which_one_waits() -> None:
    """It stood as `queued`, and `36s ago` beside it, once another member had ended."""
    over = ended("wide-2", 2, ended_t=0.0)
    waits = queued("wide-3")
    left = GROUP_CELLS["ETA"]
    assert left(SeedGroup((over, over)), 36.0, 7)[0] == "36s ago"
    assert left(SeedGroup((over, waits)), 36.0, 7)[0] == "-"
    assert left(SeedGroup((SEEDS[0], waits)), 36.0, 7)[0] == "-"
    assert left(SeedGroup((SEEDS[0], over)), 36.0, 7)[0] != "-"


def test_its_name_is_what_the_names_begin_with() -> None:
    """Else the preset."""
    assert SeedGroup(SEEDS).name == "wide"
    fresh = SeedGroup((seed(1, 1.0, name="hunt-best0-s1001"), seed(2, 1.0, name="hunt-best0-s1002")))
    assert fresh.name == "hunt-best0", "and not with a part of a seed"
    assert SeedGroup((seed(1, 1.0, name="a"), seed(2, 1.0, name="b"))).name == "wide"


def test_clones_of_a_group_are_not_called_like_it() -> None:
    """Two rows of one name would be told apart by their age alone."""
    clones = [seed(n, 1.0, name=f"wide-{n}-clone-{n}a1b", group="wide-7f67-b39f") for n in (1, 2)]
    assert SeedGroup(tuple(clones)).name == "wide-clone"


def test_a_group_that_was_named_is_called_so() -> None:
    """Two settings of one preset would be told apart by a made-up tag alone, which no command takes."""
    named = [seed(n, 1.0, name=f"wide-a6f3-s{n}", group="base") for n in (1, 2)]
    assert SeedGroup(tuple(named)).name == "base wide"
    unnamed = [seed(n, 1.0, name=f"wide-a6f3-s{n}", group="wide-a6f3") for n in (1, 2)]
    assert SeedGroup(tuple(unnamed)).name == "wide-a6f3"
    chosen = [seed(n, 1.0, name=f"gamma-half-{n}", group="base") for n in (1, 2)]
    assert SeedGroup(tuple(chosen)).name == "gamma-half", "which somebody wrote as well"


@pytest.mark.parametrize("width", [80, 110])
async def test_it_is_one_row_until_it_is_opened(width: int) -> None:
    """Median, quartiles, how many live and the worst health; Enter opens it into its runs, `f` closes it again."""
    async with staged(a_fleet((LIVE[0], *SEEDS)), (width, 30)) as stage:
        (row,) = [line for line in stage.lines() if "wide x3" in line]
        for text in ("3/3 live", " 12 ", "11..16", "▲ KL"):
            assert text in row, text
        assert not any("wide-1 " in line for line in stage.lines()[:8])
        await stage.press("down", "enter")
        await stage.shows("wide-3")
        assert "wide x3" not in stage.text()
        assert len(stage.app.screen_stack) == 1
        await stage.press("f")
        await stage.shows("wide x3")


async def test_what_is_done_to_the_row_is_done_to_all_of_them() -> None:
    """A pause pauses every seed, a mark marks every seed; the detail is that of the one that is worst."""
    async with staged(a_fleet((LIVE[0], *SEEDS))) as stage:
        await stage.press("down", "p")
        await stage.until(lambda: stage.client.asked_for(Act))
        assert stage.client.asked_for(Act)[0].runs == tuple(view.id for view in SEEDS)
        assert "─ wide-2 " in stage.text()
        await stage.press("space")
        await stage.shows("3 marked")
        await stage.press("up", "up", "f")
        await stage.until(lambda: any("differ only in their seed" in toast for toast in stage.toasts()))


async def test_panes_show_each_of_them() -> None:
    """Where there is room for every live run there is nothing to fold; those that are over are one row."""
    over = tuple(seed(n, 5.0, state="ended", outcome="finished", group="deep-1", ended_t=1.0) for n in (7, 8))
    async with staged(a_fleet((*SEEDS, *over)), (160, 50)) as stage:
        for name in ("wide-1", "wide-2", "wide-3"):
            assert f"{name} " in stage.text()
        (row,) = [line for line in stage.lines() if "wide x2" in line]
        assert "finished" in row


def test_the_state_of_a_large_group_is_never_cut() -> None:
    """How many live is said in the cells that there are; of a group that is over, only that it is."""
    state = GROUP_CELLS["state"]
    some = SeedGroup(tuple(seed(number, 1.0, state="running" if number < 4 else "queued") for number in range(1, 16)))
    assert [state(some, 0.0, width)[0] for width in (8, 9)] == ["3/15", "3/15 live"]
    over = [ended(f"wide-{number}", 5, outcome) for number, outcome in enumerate(("finished", "failed"))]
    assert state(SeedGroup(tuple(over)), 0.0, 8)[0] == "ended"
    assert state(SeedGroup((*over, queued("wide-9"))), 0.0, 8)[0] == "queued"


def test_a_group_that_is_over_says_how_many_of_it_are_parked() -> None:
    """Those wait for `r`; beside killed ones they were only among the ended."""
    over = (ended("wide-1", 5, "killed"), ended("wide-2", 5), seed(3, 1.0, state="parked"))
    assert GROUP_CELLS["state"](SeedGroup(over), 0.0, 8)[0] == "1 parked"


async def test_living_seeds_in_panes_are_folded_too() -> None:
    """`f` makes them one row below the panes of the others, and panes again."""
    async with staged(a_fleet((LIVE[0], *SEEDS)), (160, 50)) as stage:
        await stage.press("down", "f")
        await stage.shows("wide x3")
        assert "wide-1 " not in stage.text()
        assert stage.toasts() == []
        await stage.press("p")
        await stage.until(lambda: stage.client.asked_for(Act))
        assert set(stage.client.asked_for(Act)[0].runs) == {view.id for view in SEEDS}
        await stage.press("f")
        await stage.shows("wide-1 ")
        assert "wide x3" not in stage.text()


def test_the_sign_of_a_group_is_no_members_where_they_ended_differently() -> None:
    """One that lives or waits goes before those that have ended; else a dot, unless all ended alike."""
    over = {"state": "ended", "ended_t": 1.0}
    won, killed = (seed(at, 5.0, outcome=how, **over) for at, how in ((1, "finished"), (2, "killed")))
    assert _shape(SeedGroup((won, killed)))[0] == "·"
    assert _shape(SeedGroup((won, structs.replace(killed, outcome="finished"))))[0] == "■"
    assert _shape(SeedGroup((won, seed(3, 1.0, state="queued"))))[0] == "◌"
    assert _shape(SeedGroup((killed, seed(3, 1.0))))[0] == "●"
