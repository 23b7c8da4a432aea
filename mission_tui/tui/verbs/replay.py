"""`H`: ten minutes back into a replay of this fleet, and from there to now; the keys that move through a replay."""

from __future__ import annotations

from functools import partial

from mission_tui.fleet.time_words import BACK_S, parse_moment
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.line_input import LineInputScreen
from mission_tui.tui.verbs.acting import typed

__all__ = ["back", "coarser", "finer", "forward", "go_to", "replay"]

_HELP = "A time of day such as 03:12, the last one before now; or with its date: 2026-11-21T03:12. Local time."


async def replay(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Leave the present for ten minutes ago; leave a replay for the present."""
    snapshot = app_context.snapshot
    if snapshot is None:
        app_context.toast("nothing is known yet that could be replayed")
    else:
        app_context.switch_root(snapshot.runs_root, snapshot.t - BACK_S if snapshot.replay is None else None)


async def back(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """One step back."""
    if _replaying(app_context):
        await app_context.replay_seek.move(-1)


async def forward(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """One step forward."""
    if _replaying(app_context):
        await app_context.replay_seek.move(1)


async def finer(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Smaller steps."""
    if _replaying(app_context):
        app_context.replay_seek.turn(-1)
        app_context.redraw()


async def coarser(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Larger steps."""
    if _replaying(app_context):
        app_context.replay_seek.turn(1)
        app_context.redraw()


async def go_to(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Go to a moment that is typed."""
    if _replaying(app_context):

        async def there(word: str) -> None:
            if app_context.snapshot is not None and app_context.snapshot.replay is not None:
                await app_context.replay_seek.seek(parse_moment(word, app_context.snapshot.replay.until))

        await typed(app_context, partial(LineInputScreen, "Go to", _HELP, "goes there", "03:12"), there)


def _replaying(app_context: AppContext) -> bool:
    """Whether this is a replay; says how to come to one where it is none."""
    if app_context.snapshot is not None and app_context.snapshot.replay is not None:
        return True
    app_context.toast("this is now: H shows the fleet as it was ten minutes ago, and then , and . move through time")
    return False
