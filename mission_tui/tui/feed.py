"""Snapshots for as long as the screen lives: follows the supervisor, says when it is gone, and comes back by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mission_tui.errors import MissionError, NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.tui.client import FleetClient

__all__ = ["follow"]

Lost = Callable[[str, bool], None]

_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 2.0


async def follow(client: FleetClient, arrived: Callable[[FleetSnapshot], None], lost: Lost) -> None:
    """Follow until cancelled. `lost` gets the reason each time the link ends or cannot be made, and whether there is
    nobody: one that is there and takes no word from us is of another version.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        why, nobody = "it ended", True
        try:
            async for snapshot in client.watch():
                wait_s = _FIRST_WAIT_S
                arrived(snapshot)
        except MissionError as error:
            why, nobody = str(error), isinstance(error, NoSupervisorError | ProtocolError)
        lost(why, nobody)
        await asyncio.sleep(wait_s)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 1.6)
