"""What a screen is painted as while it comes up: every frame has its words, none is blank."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from rich.console import RenderableType
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.questions import Picker
from mission_tui.tui.screens.run import RunScreen
from tests.tui.fleets import LIVE, a_fleet
from tests.tui.stage import staged


def frames(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Every picture that goes to the terminal from now on, line by line."""
    painted: list[list[str]] = []
    display = App._display

    def painting(self: App[Any], screen: Screen[Any], renderable: RenderableType | None) -> None:
        if renderable is not None:
            painted.append(["".join(cell.text for cell in strip) for strip in screen._compositor.render_strips()])
        display(self, screen, renderable)

    monkeypatch.setattr(App, "_display", painting)
    return painted


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_the_first_picture_of_the_fleet_has_its_runs_in_their_place(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes later, as the keys of presets do, moves none of them, and none is seen in another width before."""
    painted = frames(monkeypatch)
    names = [f" {view.name} " for view in a_fleet().runs]

    def of_runs(lines: list[str]) -> dict[int, str]:
        return {y: line for y, line in enumerate(lines) if any(name in line for name in names)}

    async with staged(size=size) as stage:
        assert len(of_runs(painted[0])) > 6
        assert of_runs(painted[0]) == of_runs(stage.lines())


async def test_no_stylesheet_is_read_twice_before_the_first_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes a tenth of what happens between the start of the program's loop and that picture."""
    read: list[Stylesheet] = []

    def reparse(sheets: Stylesheet) -> None:
        read.append(sheets)

    monkeypatch.setattr(Stylesheet, "reparse", reparse)
    async with staged():
        assert read == []


OPENED = {"x": "pause", "question_mark": "start", "colon": "Commands", "n": "preset", "m": "CPU", "enter": "return"}


@pytest.mark.parametrize(("key", "word"), OPENED.items())
async def test_no_frame_of_a_screen_that_opens_is_blank(key: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame of a sheet comes with its words; on a slow machine an empty one would stand for a second."""
    async with staged() as stage:
        painted = frames(monkeypatch)
        before = stage.screen
        await stage.press(key)
        await stage.until(lambda: stage.screen is not before and word in stage.text())
        inside = [[line[4:76] for line in picture] for picture in painted]
        blank = [picture for picture in inside if sum(not line.strip(" │─╮╭╯╰") for line in picture) > 20]
        assert painted
        assert blank == [], "\n".join(blank[0])


@pytest.mark.parametrize("key", ["x", "question_mark", "n", "colon"])
async def test_a_sheet_comes_up_in_its_place(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not seen to jump from a first size to its own."""
    async with staged() as stage:
        painted, before = frames(monkeypatch), stage.screen
        await stage.press(key)
        await stage.until(lambda: stage.screen is not before and "╭" in stage.text())
        await stage.still()
        tops = {at for picture in painted for at, line in enumerate(picture) if "╭" in line}
        assert len(tops) == 1


async def test_behind_a_sheet_the_fleet_is_drawn_now_and_then_and_at_once_when_it_closes() -> None:
    """A tinted screen is painted whole for every number that changes: over a bad line that is all the line has."""
    async with staged() as stage:
        fleet = stage.screen
        assert isinstance(fleet, FleetScreen)
        await stage.press("x")
        await stage.until(lambda: isinstance(stage.screen, Picker))
        first, second = (a_fleet((structs.replace(LIVE[0], steps_per_s=speed), *LIVE[1:])) for speed in (7.0, 8.0))
        await stage.arrive(first)
        assert fleet.snapshot == first
        stage.client.show(second)
        await stage.until(lambda: stage.app.app_context.snapshot == second)
        assert fleet.snapshot == first
        await stage.press("escape")
        await stage.until(lambda: fleet.snapshot == second)


async def test_what_the_screen_of_a_run_covers_is_drawn_when_it_is_seen_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """No snapshot is drawn below it; the first picture of the list after it is of the newest."""
    async with staged(a_fleet(LIVE)) as stage:
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.screen, RunScreen))
        fleet = stage.app.screen_stack[0]
        assert isinstance(fleet, FleetScreen)
        before = fleet.snapshot
        renamed = structs.replace(LIVE[0], name="since-renamed")
        await stage.arrive(structs.replace(a_fleet((renamed, *LIVE[1:])), revision=99))
        await stage.shows("since-renamed")
        assert fleet.snapshot is before
        painted = frames(monkeypatch)
        await stage.press("escape")
        await stage.until(lambda: stage.screen is fleet)
        await stage.shows("since-renamed")
        listed = ["\n".join(lines) for lines in painted if any("q leave" in line for line in lines)]
        assert listed
        assert all("since-renamed" in picture for picture in listed)
