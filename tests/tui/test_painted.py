"""Leaving a screen writes what lies below it once; what may have been written over is written again."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.screen import Screen

from mission_tui.tui.textual_fixes.cell_diff import CellDiff
from tests.tui.stage import staged

MUCH = 300
"""Characters: more than a clock and its neighbours, less than the smallest sheet."""


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters each paint writes, as if there were a terminal."""
    lengths: list[int] = []
    display = App._display

    def painting(self: App[Any], screen: Screen[Any], renderable: Any) -> None:
        if isinstance(renderable, CellDiff):
            lengths.append(len(renderable.render_segments(self.console)))
        display(self, screen, renderable)

    monkeypatch.setattr(App, "_display", painting)
    return lengths


def much(written: list[int]) -> int:
    """How often much of the screen was written."""
    return sum(length > MUCH for length in written)


@pytest.mark.parametrize("key", ["x", "question_mark", "colon", "m", "enter", "K"])
async def test_what_lies_below_is_written_once(key: str, written: list[int]) -> None:
    """Twice would be seen to flicker over a slow line."""
    async with staged() as stage:
        before = stage.screen
        await stage.press(key)
        await stage.until(lambda: stage.screen is not before)
        await stage.still()
        written.clear()
        await stage.press("escape")
        await stage.until(lambda: stage.screen is before)
        await stage.still()
        assert much(written) == 1, written


async def test_what_may_have_been_written_over_is_written_again(written: list[int]) -> None:
    """By another program: that is what Ctrl-L is for."""
    async with staged() as stage:
        for _ in range(2):
            written.clear()
            await stage.press("ctrl+l")
            await stage.until(lambda: much(written) == 1)
