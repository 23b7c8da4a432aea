"""Leaving a screen paints what lies below it once; what may have been written over is painted again."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import RenderableType
from textual._compositor import LayoutUpdate
from textual.app import App
from textual.screen import Screen

from mission_tui.tui.terminal.written import Written
from tests.tui.stage import Stage, staged


def wholes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The whole pictures that go to the terminal from now on, by the screen."""
    painted: list[str] = []
    display = App._display

    def painting(self: App[Any], screen: Screen[Any], renderable: RenderableType | None) -> None:
        update = renderable._update if isinstance(renderable, Written) else renderable
        if isinstance(update, LayoutUpdate):
            painted.append(type(screen).__name__)
        display(self, screen, renderable)

    monkeypatch.setattr(App, "_display", painting)
    return painted


@pytest.mark.parametrize("key", ["x", "question_mark", "colon", "m", "enter", "K"])
async def test_what_lies_below_is_painted_once(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice would be seen to flicker over a slow line."""
    async with staged() as stage:
        before = stage.screen
        await stage.press(key)
        await stage.until(lambda: stage.screen is not before)
        await stage.still()
        painted = wholes(stage, monkeypatch)
        await stage.press("escape")
        await stage.until(lambda: stage.screen is before)
        await stage.still()
        assert painted == ["FleetScreen"]


async def test_what_may_have_been_written_over_is_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another program: that is what Ctrl-L is for."""
    async with staged() as stage:
        await stage.press("ctrl+l")
        await stage.still()
        painted = wholes(stage, monkeypatch)
        await stage.press("ctrl+l")
        await stage.until(lambda: painted)
        await stage.still()
