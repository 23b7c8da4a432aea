"""What was closed is let go of: a screen that is used all day does not grow with every sheet that was opened."""

from __future__ import annotations

import gc
import weakref

import pytest

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
