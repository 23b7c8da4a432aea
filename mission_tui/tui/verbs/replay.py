"""`H`: ten minutes back into a replay of this fleet, and from there to now; the keys that move through a replay."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.time_words import BACK_S, parse_moment
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk
from mission_tui.tui.screens.words import LineScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["back", "coarser", "finer", "forward", "go_to", "replay"]

_HELP = "A time of day such as 03:12, the last one before now; or with its date: 2026-11-21T03:12. Local time."


async def replay(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Leave the present for ten minutes ago; leave a replay for the present."""
    snapshot = desk.snapshot
    if snapshot is None:
        desk.tell("nothing is known yet that could be replayed")
    else:
        desk.leave_for(snapshot.runs_root, snapshot.t - BACK_S if snapshot.replay is None else None)


async def back(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """One step back."""
    if _replaying(desk):
        await desk.scrub.move(-1)


async def forward(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """One step forward."""
    if _replaying(desk):
        await desk.scrub.move(1)


async def finer(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Smaller steps."""
    if _replaying(desk):
        desk.scrub.turn(-1)
        desk.redraw()


async def coarser(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Larger steps."""
    if _replaying(desk):
        desk.scrub.turn(1)
        desk.redraw()


async def go_to(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Go to a moment that is typed."""
    if _replaying(desk):

        async def there(word: str) -> None:
            if desk.snapshot is not None and desk.snapshot.replay is not None:
                await desk.scrub.go(parse_moment(word, desk.snapshot.replay.until))

        await typed(desk, partial(LineScreen, "Go to", _HELP, "goes there", "03:12"), there)


def _replaying(desk: Desk) -> bool:
    """Whether this is a replay; says how to come to one where it is none."""
    if desk.snapshot is not None and desk.snapshot.replay is not None:
        return True
    desk.tell("this is now: H shows the fleet as it was ten minutes ago, and then , and . move through time")
    return False
