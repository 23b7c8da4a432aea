"""What is to happen once happens, however short its delay is: the next picture waits for such a timer."""

from __future__ import annotations

from tests.tui.fleets import LIVE, a_fleet, a_run
from tests.tui.stage import staged


async def test_a_picture_that_is_due_at_once_is_drawn() -> None:
    """A snapshot came a moment before the pace allowed it; the screen stood still from then on."""
    async with staged() as stage:
        await stage.arrive(a_fleet((*LIVE, a_run("second")), revision=2))
        for revision, name in enumerate(("third", "fourth", "fifth"), 3):
            stage.clock.advance(0.25 - 1e-9)
            stage.client.show(a_fleet((*LIVE, a_run(name)), revision=revision))
            await stage.shows(name)


async def test_a_timer_of_no_time_goes_off() -> None:
    """Of the program, of a screen and of a widget, once."""
    async with staged() as stage:
        gone_off: list[str] = []
        for pump in (stage.app, stage.screen, next(iter(stage.screen.children))):
            for delay in (0.0, 1e-9):
                pump.set_timer(delay, lambda pump=pump: gone_off.append(type(pump).__name__))
        await stage.until(lambda: len(gone_off) >= 6, "all have gone off")
        await stage.still()
        assert len(gone_off) == 6
