"""What is told lies over the hints at the bottom, and leaves what is acted on to be read."""

from __future__ import annotations

import pytest

from tests.tui.stage import Stage, staged


def grown_old(stage: Stage) -> None:
    """As if what is told so far had been there for two seconds."""
    for told in stage.app._notifications:
        told.raised_at -= 2.0


@pytest.mark.parametrize("keys", [(), ("enter",), ("enter", "l"), ("slash",), ("m",)])
async def test_a_line_that_is_told_covers_the_hints_alone(keys: tuple[str, ...]) -> None:
    """The last line of a log, an advice, the filter that is being typed: all stay in sight."""
    async with staged() as stage:
        if keys:
            await stage.press(*keys)
        await stage.still()
        before = stage.lines()
        stage.app.app_context.toast("checkpoint accepted for heavy-3f9a", seconds=60.0)
        await stage.shows("checkpoint accepted for heavy-3f9a")
        await stage.still()
        assert stage.lines()[:-1] == before[:-1]


async def test_the_next_deed_takes_the_place_of_the_last_and_of_no_warning() -> None:
    """What one deed has to say stays together."""
    async with staged() as stage:
        stage.app.app_context.toast("16 runs share 2 cores", "warning", seconds=60.0)
        stage.app.app_context.toast("started heavy", seconds=60.0)
        stage.app.app_context.toast("it waits for memory", seconds=60.0)
        await stage.until(lambda: stage.toasts() == ["16 runs share 2 cores", "started heavy", "it waits for memory"])
        grown_old(stage)
        stage.app.app_context.toast("redraws at most 2 times a second", seconds=60.0)
        await stage.until(lambda: stage.toasts() == ["16 runs share 2 cores", "redraws at most 2 times a second"])
