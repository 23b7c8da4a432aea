"""A read-only screen: every key that changes something is hidden and does nothing."""

from __future__ import annotations

from unittest import mock

import pytest
from msgspec import structs

from mission_tui.fleet.views.snapshot import Replay
from mission_tui.ipc.replies import SnapshotReply
from mission_tui.ipc.requests import Compare, GetUpgrades, GoTo
from mission_tui.tui.actions import ACTIONS, offered
from mission_tui.tui.app import MissionApp
from tests.tui.fleets import ENDED, NOW, a_fleet, a_run
from tests.tui.stage import hurried, staged
from tests.tui.test_bursts import LOOKS

LOOKING = (*LOOKS, Compare, GoTo)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "past"), [((), False), (("w",), False), ((), True)])
async def test_no_key_asks_for_more_than_a_look(first: tuple[str, ...], past: bool) -> None:
    """Every key of the table but those that move, in the list and in the tab `watch`: nothing is saved, played or
    started, also where a run has no checkpoint yet, no toast is an error, and what would change something says why not.
    """
    fleet = a_fleet((a_run("young", last_checkpoint=None), *ENDED))
    if past:
        fleet = structs.replace(fleet, replay=Replay(since=NOW - 3600, until=NOW))
    keys = {key: it for it in ACTIONS for key in it.keys if it.group != "move" and it.name not in ("leave", "suspend")}
    with (
        hurried(),
        mock.patch.object(MissionApp, "leave_for"),
        mock.patch("mission_tui.tui.verbs.looking._write", return_value="screen.svg"),
    ):
        async with staged(fleet, readonly=True) as stage:
            stage.client.answers[GoTo] = lambda it: SnapshotReply(re=it.id, snapshot=fleet)
            for key, action in keys.items():
                await stage.press(*first)
                stage.app.app_context.messages.clear()
                await stage.press(key)
                said = [it.sentence for it in stage.app.app_context.messages]
                told = len(said) == 1 and "read-only" in said[0]
                assert told or not action.changes or key in "gf+-<>v", (key, said)
                for _ in range(4):
                    if len(stage.app.screen_stack) > 1 or stage.app.focused is not None:
                        await stage.press("escape")
                assert all(it.severity == "information" for it in stage.app.app_context.messages), (key, said)
            assert [it for it in stage.client.asked if not isinstance(it, LOOKING)] == []


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


async def test_each_screen_says_that_it_is_read_only() -> None:
    """The fleet, a run and the machine, in the first line."""
    async with staged(readonly=True) as stage:
        for keys in ((), ("enter",), ("escape", "m")):
            await stage.press(*keys)
            await stage.until(lambda: "read-only" in stage.lines()[0])


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
