"""`F5`: read the presets again and ask for the newest state instead of waiting for it."""

from __future__ import annotations

from mission_tui.fleet.snapshot import RunView
from mission_tui.ipc.requests import GetSnapshot
from mission_tui.tui.desk import Desk
from mission_tui.tui.preset_reading import read_presets

__all__ = ["refresh"]


async def refresh(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Read both again."""
    await read_presets(desk)
    reply = await desk.ask(lambda id_: GetSnapshot(id=id_))
    desk.arrived(reply.snapshot)
    desk.tell("refreshed", seconds=2.0)
