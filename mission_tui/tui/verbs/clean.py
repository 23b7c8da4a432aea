"""`X`: show what dead runs left behind, and remove exactly that, once the person has seen it."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Clean
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.screens.leftovers import LeftoversScreen

__all__ = ["clean"]


async def clean(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Ask for leftovers; remove those that are ours if the person says yes."""
    found = await app_context.ask(lambda id_: Clean(id=id_))
    if not found.stale:
        app_context.toast("nothing was left behind by dead runs")
        return
    if not await app_context.ask_user(LeftoversScreen(found.stale)):
        return
    keys = tuple(stale.key for stale in found.stale if stale.verdict == "ours")
    reply = await app_context.ask(lambda id_: Clean(id=id_, remove=keys))
    removed = sum(stale.removed for stale in reply.stale)
    app_context.toast(f"removed {removed} of {len(keys)}", "information" if removed == len(keys) else "warning")
