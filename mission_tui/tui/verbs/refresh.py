"""`F5`: read the presets again, ask for the newest state, and for packages that were changed under live runs."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import GetSnapshot, GetUpgrades
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.launching.preset_reading import read_presets

__all__ = ["refresh"]


async def refresh(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Read all of it again."""
    await read_presets(app_context)
    reply = await app_context.ask(lambda id_: GetSnapshot(id=id_))
    app_context.arrived(reply.snapshot)
    app_context.toast("refreshed", seconds=2.0)
    # Last, because it asks each interpreter, which takes a moment.
    found = await app_context.ask(lambda id_: GetUpgrades(id=id_))
    for one in found.upgrades:
        what = "; ".join(f"{change.name}: {change.was} -> {change.now}" for change in one.changes)
        app_context.toast(f"changed under {one.name} since it was launched: {what}", "warning")
