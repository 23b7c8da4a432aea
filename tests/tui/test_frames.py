"""What a screen is painted as while it comes up: every frame has its words, none is blank."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import RenderableType
from textual.app import App
from textual.screen import Screen

from tests.tui.stage import Stage, staged


def frames(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every picture that goes to the terminal from now on, line by line."""
    painted: list[list[str]] = []
    display = App._display

    def painting(self: App[Any], screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is not None:
            painted.append(["".join(cell.text for cell in strip) for strip in screen._compositor.render_strips()])
        display(self, screen, renderable)

    monkeypatch.setattr(App, "_display", painting)
    return painted


OPENED = {"x": "pause", "question_mark": "start", "colon": "Commands", "n": "preset", "m": "CPU", "enter": "return"}


@pytest.mark.parametrize(("key", "word"), OPENED.items())
async def test_no_frame_of_a_screen_that_opens_is_blank(key: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame of a sheet comes with its words; on a slow machine an empty one would stand for a second."""
    async with staged() as stage:
        painted = frames(stage, monkeypatch)
        before = stage.screen
        await stage.press(key)
        await stage.until(lambda: stage.screen is not before and word in stage.text())
        inside = [[line[4:76] for line in picture] for picture in painted]
        blank = [picture for picture in inside if sum(not line.strip(" │─╮╭╯╰") for line in picture) > 20]
        assert painted
        assert blank == [], "\n".join(blank[0])
