"""Snapshots for as long as the screen lives: follows the supervisor, says when it is gone, and comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mission_tui.errors import MissionError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.tui.client import FleetClient

__all__ = ["follow"]

_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 2.0


async def follow(client: FleetClient, arrived: Callable[[FleetSnapshot], None], lost: Callable[[str], None]) -> None:
    """Follow until cancelled. `lost` gets the reason each time the link ends or cannot be made."""
    wait_s = _FIRST_WAIT_S
    while True:
        why = "it ended"
        try:
            async for snapshot in client.watch():
                wait_s = _FIRST_WAIT_S
                arrived(snapshot)
        except MissionError as error:
            why = str(error)
        lost(why)
        await asyncio.sleep(wait_s)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 1.6)
