"""Keys that are named on the screen can be clicked where they are named."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mission_tui.tui.drawing.strips import key_at
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.questions import ConfirmScreen
from mission_tui.tui.screens.run import RunScreen
from tests.tui.fleets import LIVE, a_fleet
from tests.tui.stage import Stage, staged


def test_a_hint_presses_the_key_that_it_begins_with() -> None:
    """Names, letters and Ctrl are keys; a word is none, and what lies between them is nothing."""
    said = "y kill now   n or Esc leave it   ↑↓ scroll  Ctrl-S start  it ended with 2"
    keys = [key_at(said, said.index(word)) for word in ("kill", "Esc", "scroll", "start", "ended")]
    assert keys == ["y", "n", None, "ctrl+s", None]
    assert key_at(said, said.index("   ")) is None
    assert [key_at("Esc back  ? help", at) for at in (-1, 0, 7, 8, 10, 16)] == [
        None, "escape", "escape", None, "question_mark", None,
    ]  # fmt: skip


async def _click(stage: Stage, words: str) -> None:
    """On the last place of the screen where these words stand."""
    await stage.shows(words)
    row = max(at for at, line in enumerate(stage.lines()) if words in line)
    await stage.pilot.click(offset=(stage.lines()[row].index(words), row))


async def test_the_mouse_alone_asks_answers_and_goes_back() -> None:
    """From a run back to the fleet by the header, and from a question by its hint; help by its name."""
    async with staged() as stage:
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.screen, RunScreen))
        await _click(stage, "Esc back")
        await stage.until(lambda: isinstance(stage.screen, FleetScreen))
        await _click(stage, "K kill")
        await stage.until(lambda: isinstance(stage.screen, ConfirmScreen))
        await _click(stage, "n or Esc")
        await stage.until(lambda: isinstance(stage.screen, FleetScreen))
        await _click(stage, "? help")
        await stage.shows("take back a start or a removal")


async def test_a_question_says_that_there_is_more_of_it() -> None:
    """What a foreign run would execute is longer than the sheet, and the end of it may be what matters."""
    facts = [f"variable: V{at}" for at in range(20)]
    async with staged() as stage:
        stage.app.push_screen(ConfirmScreen("it would run this", facts, "adopt it"))
        await stage.shows("y adopt it   n or Esc leave it   ↑ ↓ scroll")
        await stage.pilot.resize_terminal(80, 40)
        await stage.until(lambda: "V19" in stage.text() and "scroll" not in stage.text())


@pytest.mark.parametrize("state", ["paused", "frozen"])
async def test_a_run_that_stands_says_how_it_goes_on(state: Any) -> None:
    """At 80 columns too, and where no toast covers it: at the left."""
    standing = structs.replace(LIVE[0], state=state, phase=None)
    async with staged(a_fleet((standing,))) as stage:
        assert stage.lines()[-1].startswith(" r resume  1 demo")
        assert stage.lines()[-1].count("r resume") == 1
