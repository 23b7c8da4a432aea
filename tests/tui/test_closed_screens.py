"""What was closed is let go of: a screen that is used all day does not grow with every sheet that was opened."""

from __future__ import annotations

import gc
import weakref

import pytest
from textual.strip import Strip
from textual.widgets._toast import ToastHolder

from tests.tui.fleets import a_fleet, a_run
from tests.tui.stage import staged


@pytest.mark.parametrize("key", ["question_mark", "x", "n", "enter", "c"])
async def test_a_closed_screen_leaves_nothing_behind(key: str) -> None:
    """Neither itself, nor its widgets, nor a line that they had drawn."""
    async with staged() as stage:
        await stage.press(key)
        kept = [weakref.ref(it) for it in (stage.screen, *stage.screen.query("*"))]
        kept += [weakref.ref(it._styles_cache) for it in stage.screen.query("*")]
        await stage.press("escape")
        for other in ("m", "m"):
            await stage.press(other)

        def gone() -> bool:
            gc.collect()
            return not any(it() for it in kept)

        await stage.until(gone, "what was closed is gone")


@pytest.mark.usefixtures("collected_at_once")
async def test_what_closed_screens_leave_is_collected_soon() -> None:
    """Not when the collector comes to it: until then those of many screens would pile up."""
    async with staged() as stage:
        usual = gc.get_threshold()
        gc.set_threshold(0)
        try:
            await stage.press("x")
            kept = weakref.ref(stage.screen)
            await stage.press("escape")
            await stage.until(lambda: kept() is None, "what was closed is gone")
        finally:
            gc.set_threshold(*usual)


async def test_a_toast_that_was_cleared_leaves_no_place() -> None:
    """Textual takes away what it says alone."""
    async with staged() as stage:
        for number in range(3):
            stage.app.app_context.toast(f"said {number}")
            await stage.shows(f"said {number}")
            await stage.press("question_mark", "escape")
        await stage.until(lambda: not stage.screen.query(ToastHolder), "the place of each toast is gone")


async def test_a_picture_that_was_drawn_over_needs_no_collector() -> None:
    """What a snapshot drew is gone with the next one: what waited for the collector cost megabytes an hour."""
    async with staged(a_fleet((a_run("one"),))) as stage:
        gc.collect()
        gc.disable()
        try:
            for revision in range(2, 7):
                run = a_run("one", update=revision, timesteps=revision * 8192, steps_per_s=1000.0 + revision)
                await stage.arrive(a_fleet((run,), revision=revision))
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            assert not [it for it in gc.garbage if isinstance(it, Strip)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
