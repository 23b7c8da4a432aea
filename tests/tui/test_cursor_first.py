"""On the run screen the cursor in the list of metrics moves at once; the curves, which take longer, follow it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mission_tui.tui.widgets.curves import Curves
from tests.tui.stage import staged


async def test_the_cursor_is_painted_before_the_curves_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of metrics whose history is known, so that nothing but the drawing takes its time."""
    waiting: list[Callable[[], Any]] = []
    async with staged(size=(120, 36)) as stage:
        await stage.press("enter")
        for key, metric in (("down", "episode length"), ("up", "return")):
            await stage.press(key)
            await stage.shows(f" {metric} over ")
        await stage.still()
        with monkeypatch.context() as held:
            held.setattr(Curves, "call_after_refresh", lambda _self, work: waiting.append(work))
            await stage.press("down")
            await stage.until(lambda: waiting and ">episode length" in stage.text())
            assert " return over " in stage.text()
        waiting[-1]()
        await stage.shows(" episode length over ")
