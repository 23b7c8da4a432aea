"""Orders to runs: `p` hold, `F` freeze, `B` park, `C` checkpoint, `s` stop, `K` kill once one saw what is lost."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.screens.confirm import ConfirmScreen
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.verbs.acting import act, fitting, names

__all__ = ["checkpoint", "freeze", "kill", "park", "pause", "stop"]


async def pause(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Pause the running ones of `runs`."""
    if running := fitting(app_context, "pause", runs):
        await act(app_context, "pause", running)


async def freeze(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Freeze the running and paused ones of `runs`."""
    if running := fitting(app_context, "freeze", runs):
        await act(app_context, "freeze", running)


async def park(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Park the live and waiting ones of `runs`."""
    if live := fitting(app_context, "park", runs):
        await act(app_context, "park", live)


async def checkpoint(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Ask the running and paused ones of `runs` for a checkpoint."""
    if running := fitting(app_context, "checkpoint", runs):
        await act(app_context, "checkpoint", running)


async def stop(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Stop the live and queued ones of `runs`; a second `s` on a stopping run changes nothing."""
    if stoppable := fitting(app_context, "stop", runs):
        await act(app_context, "stop", stoppable)


async def kill(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Kill the live and queued ones of `runs`, if the person says yes."""
    live = fitting(app_context, "kill", runs)
    if not live:
        return
    facts = [f"{view.name}: {_loss(view)}" for view in live]
    saves = all("checkpoint" in view.can for view in live)
    instead = "s stops and saves instead." if saves else "s lets it end by itself (SIGTERM) instead."
    if await app_context.ask_user(ConfirmScreen(f"Kill {names(live)}?", facts, "kill now", instead)):
        await act(app_context, "kill", live)


def _loss(view: RunView) -> str:
    if "checkpoint" not in view.can:
        return "what its command has not saved itself is lost"
    if view.update is None:
        return "has learned nothing yet"
    if view.last_checkpoint is None:
        return "has no checkpoint; everything learned so far is lost"
    return f"everything after checkpoint {view.last_checkpoint} is lost"
