"""A read-only screen: every key that changes something is hidden and does nothing."""

from __future__ import annotations

import pytest

from mission_tui.ipc.requests import Act, Clean, Evaluate, GetUpgrades, Launch, Resume, Undo
from mission_tui.tui.actions import ACTIONS, offered
from tests.tui.fleets import a_fleet
from tests.tui.stage import staged

CHANGING = (Act, Clean, Evaluate, Launch, Resume, Undo)


@pytest.mark.slow
async def test_no_key_changes_anything() -> None:
    """All keys that change something are pressed; no request that changes is made and no sheet opens."""
    async with staged(readonly=True) as stage:
        for action in ACTIONS:
            if action.changes:
                await stage.press(*action.keys)
        stage.clock.advance(1)
        await stage.pilot.pause(0.3)
        assert not [request for request in stage.client.asked if isinstance(request, CHANGING)]
        assert len(stage.app.screen_stack) == 1


@pytest.mark.parametrize("key", ["s", "1"])
async def test_a_key_that_would_change_something_is_refused_in_words(key: str) -> None:
    """A key that seems dead is pressed again, and then on the screen where it acts."""
    async with staged(readonly=True) as stage:
        await stage.press(key)
        await stage.until(lambda: any("read-only" in toast for toast in stage.toasts()))


async def test_they_are_not_shown_either() -> None:
    """Footer, help and menu offer only what looks."""
    async with staged(readonly=True) as stage:
        assert "stop" not in stage.lines()[-1]
        assert "demo" not in stage.lines()[-1]
        await stage.press("question_mark")
        await stage.shows("what the run printed")
        assert "save a checkpoint" not in stage.text()
        await stage.press("escape", "x")
        await stage.shows("what the run printed")
        assert "save a checkpoint" not in stage.text()


async def test_an_empty_readonly_screen_does_not_teach_starting() -> None:
    """It says that runs are started elsewhere."""
    async with staged(a_fleet(()), readonly=True) as stage:
        await stage.shows("This screen is read-only")


def test_looking_is_offered() -> None:
    """Everything that changes nothing stays."""
    names = {action.name for action in offered("fleet", readonly=True)}
    assert {"open", "log", "details", "filter", "copy", "help", "leave"} <= names
    assert not names & {"launch", "stop", "kill", "clean", "new"}


async def test_what_only_looks_ends_in_no_error() -> None:
    """F5 reads the snapshot again, and asks nobody about packages; `c` compares."""
    async with staged(readonly=True) as stage:
        await stage.press("f5")
        await stage.until(lambda: "refreshed" in stage.toasts())
        assert not stage.client.asked_for(GetUpgrades)
        assert all(told.severity == "information" for told in stage.app._notifications)
