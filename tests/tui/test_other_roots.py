"""Other live runs roots on the screen: named where there is room, counted where there is little, one key away."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from textual.events import Key

from mission_tui.fleet.views.snapshot import FleetSnapshot, OtherRoot
from mission_tui.tui.screens.questions import Picker
from mission_tui.tui.widgets.bars import also_live, least_cells
from tests.tui.fleets import a_fleet
from tests.tui.stage import staged

B = OtherRoot("/home/ada/proj-b/runs", 3)
C = OtherRoot("/data/c/runs", 1)
IDLE = OtherRoot("/data/idle/runs", 0)


def a_fleet_beside(*roots: OtherRoot, **more: Any) -> FleetSnapshot:
    """A working day, and what goes on elsewhere."""
    return structs.replace(a_fleet(**more), elsewhere=roots)


def said(roots: tuple[OtherRoot, ...], cells: int) -> str:
    """The words of `also_live`."""
    return "".join(text for text, _ in also_live(roots, "/home/ada", cells))


@pytest.mark.parametrize(
    ("roots", "cells", "words"),
    [
        ((B,), 60, "also live: ~/proj-b/runs (3 runs) W"),
        ((B, C), 80, "also live: ~/proj-b/runs (3 runs), /data/c/runs (1 run) W"),
        ((B, C, IDLE), 30, "also live: +2 roots W"),
        ((B,), 10, "+1 root W"),
        ((B,), 8, "+1 W"),
        ((B,), 3, ""),
        ((IDLE,), 60, ""),
        ((OtherRoot("/d"),), 60, "also live: /d W"),
    ],
)
def test_the_longest_form_that_fits_is_said(roots: tuple[OtherRoot, ...], cells: int, words: str) -> None:
    """By name, else counted; a root without a run is not worth a word."""
    assert said(roots, cells) == words
    assert not words or least_cells(roots) <= len(words)


@pytest.mark.parametrize(("size", "words"), [((80, 24), "+1 W"), ((160, 50), "~/proj-b/runs (3 runs) W")])
async def test_the_header_names_where_else_runs_go_on(size: tuple[int, int], words: str) -> None:
    """In 80 columns it still says that there is something; counts and the way out stay whole."""
    async with staged(a_fleet_beside(B), size=size) as stage:
        top = stage.lines()[0]
        assert words in top
        assert "ended" in top
        assert top.rstrip().endswith(("? help", "?"))
        assert len(top) == size[0]


async def test_an_empty_list_names_where_the_runs_are() -> None:
    """Whoever finds nothing here is shown the root where runs go on, and the key; not one where nothing does."""
    async with staged(structs.replace(a_fleet(()), elsewhere=(B, IDLE))) as stage:
        await stage.shows("Also live: ~/proj-b/runs (3 runs)")
        assert "W goes there" in stage.text()
        assert "idle" not in stage.text()


async def test_w_goes_to_the_only_other_root() -> None:
    """The screen ends in order and says where to go on."""
    async with staged(a_fleet_beside(B), readonly=True) as stage:
        await stage.press("W")
        await stage.until(lambda: stage.app.next_root == B.root)
        assert stage.app.return_value == 0


async def test_w_lets_the_person_choose_among_several() -> None:
    """The one with most runs first; turning away changes nothing."""
    async with staged(a_fleet_beside(C, B)) as stage:
        await stage.press("W")
        await stage.until(lambda: isinstance(stage.screen, Picker))
        assert stage.text().index("~/proj-b/runs") < stage.text().index("/data/c/runs", stage.text().index("Go to"))
        await stage.press("escape")
        assert stage.app.next_root is None
        await stage.press("W")
        await stage.until(lambda: isinstance(stage.screen, Picker))
        await stage.press("down", "enter")
        await stage.until(lambda: stage.app.next_root == C.root)


async def test_enter_takes_what_was_typed_before_it_however_fast() -> None:
    """Letters and Enter that arrive together, as over a slow line, choose what the letters say."""
    async with staged(a_fleet_beside(C, B)) as stage:
        await stage.press("W")
        await stage.until(lambda: isinstance(stage.screen, Picker))
        for key, character in (("slash", "/"), ("d", "d"), ("a", "a"), ("t", "t"), ("a", "a"), ("enter", None)):
            stage.app.post_message(Key(key, character))
        await stage.until(lambda: stage.app.next_root is not None)
        assert stage.app.next_root == C.root


async def test_of_a_long_path_the_end_is_shown_first() -> None:
    """Roots of one disk begin alike; the whole path stands behind the number of runs."""
    long = OtherRoot("/data/groups/reinforcement/ada/project-c/runs", 2)
    async with staged(a_fleet_beside(B, long), size=(120, 30)) as stage:
        await stage.press("W")
        await stage.until(lambda: isinstance(stage.screen, Picker))
        assert "…orcement/ada/project-c/runs" in stage.text()
        assert "(2 runs)  /data/groups/" in stage.text()


async def test_w_says_when_there_is_nowhere_to_go() -> None:
    """And how another root is opened."""
    async with staged() as stage:
        await stage.press("W")
        await stage.until(stage.toasts)
        assert "--runs-dir" in stage.toasts()[0]
        assert stage.app.next_root is None


async def test_a_greeting_is_shown() -> None:
    """Whoever came from another root is told what stayed."""
    async with staged(greeting="presets stay those of /home/ada/a") as stage:
        assert "presets stay those of /home/ada/a" in stage.toasts()
