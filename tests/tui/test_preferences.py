"""What is chosen about the look of the screen is found again the next time, on a terminal of another size too."""

from __future__ import annotations

from typing import Any

import pytest

from mission_tui.tui.app import MissionApp
from mission_tui.tui.screens.machine import MachineScreen
from mission_tui.tui.session import chosen
from mission_tui.tui.state.preferences import Preferences, UnsavedPreferences, preferences_in
from mission_tui.tui.widgets.log_lines import LogLines
from tests.tui.stage import Stage, staged


def kept_by(app: MissionApp, found: Preferences = Preferences()) -> dict[str, object]:  # noqa: B008 - frozen
    """The table that is kept of a session that began with `found`."""
    kept: dict[str, object] = {}
    UnsavedPreferences(found, kept.update).save(chosen(app))
    return kept


def test_nothing_is_kept_of_what_is_as_it_comes() -> None:
    """What was chosen and taken back is forgotten by name; what did not change is not told again."""
    told: list[dict[str, object]] = []
    unsaved = UnsavedPreferences(Preferences(), lambda changes: told.append(dict(changes)))
    for preferences in (
        Preferences(),
        Preferences(sort="run"),
        Preferences(sort="run"),
        Preferences(chart_scale="log"),
    ):
        unsaved.save(preferences)
    assert told == [{"sort": "run"}, {"sort": None, "chart_scale": "log"}]


@pytest.mark.parametrize(
    "damaged",
    [
        {"panes": "yes"},
        {"sort": 3, "machine_sort": "x" * 5000},
        {"redraws_hz": "fast", "strip_s": None},
        {"chart_over": "dreams", "chart_smoothing": 7, "chart_kept": ["a"] * 99},
        {"shares": {"detail": "half"}},
        {"shares": {"detail": 40}},
        {"shares": [0.5]},
        {"form": {"preset": 3}},
        {"form": {"changes": "x" * 99_999}},
        {"nobody": "knows", "bell": "off"},
    ],
)
def test_what_makes_no_sense_is_left_as_it_comes(damaged: dict[str, object]) -> None:
    """Field by field: what stands beside it counts."""
    assert preferences_in(damaged | {"chart_log": True}) == Preferences(chart_scale="log")


async def _choose(stage: Stage) -> None:
    await stage.press("v", ">", ">", "-", "{", "m", "{", ">", "escape")
    await stage.press("enter", "space", "t", "Y", "}", "}", "l")
    await stage.shows("slow step")
    await stage.press("v", "escape", "b")


@pytest.mark.slow
async def test_the_next_session_takes_up_where_this_one_was_left() -> None:
    """Layout, orders, rate, strip, the chart and the folding of logs; and what it took up it does not tell again."""
    async with staged(size=(120, 36)) as stage:
        before = kept_by(stage.app)
        await _choose(stage)
        kept = kept_by(stage.app)
    assert before == {}
    assert kept == {
        "panes": False,
        "sort": "state",
        "machine_sort": "run",
        "log_folds": False,
        "redraws_hz": 2.0,
        "strip_s": 900.0,
        "chart_over": "updates",
        "chart_scale": "log",
        "chart_smoothing": 0.8,
        "chart_kept": ("rollout/ep_rew_mean",),
        "bell": False,
    }
    async with staged(size=(120, 36), preferences=preferences_in(kept)) as stage:
        assert kept_by(stage.app, preferences_in(kept)) == {}
        assert "state▾" in stage.text()
        await stage.press("m")
        await stage.until(lambda: isinstance(stage.screen, MachineScreen))
        await stage.shows("run▾")
        await stage.press("escape", "enter", "l")
        await stage.shows("v folds long lines")
        assert stage.screen.query_one(LogLines)


@pytest.mark.parametrize(
    "found", [{"sort": "beauty"}, {"machine_sort": "beauty"}, {"redraws_hz": 77.0}, {"strip_s": 7.0}]
)
async def test_a_choice_that_is_no_longer_there_costs_nothing(found: dict[str, Any]) -> None:
    """Of an order, rate or stretch that this version does not know the usual one is taken."""
    async with staged(preferences=preferences_in(found)) as stage:
        await stage.press("m", ">", "escape", ">")
        assert stage.app.view_state.sort == "run"
        assert stage.app.arrivals.pace.rate_hz == 4.0
        assert stage.app.app_context.zoom.word == "5m"
