"""What the screen needs of a supervisor, as a protocol, and following it for as long as the screen lives.

The screen never sees a socket: it iterates over snapshots until the link is lost, and asks; each call connects anew if
need be, so losing the supervisor is an exception to show and never a state to repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from mission_tui.errors import MissionError, NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.replies import Progress
from mission_tui.ipc.requests import AnsweredBy

__all__ = ["FleetClient", "follow"]

Answer = TypeVar("Answer")


class FleetClient(Protocol):
    """A supervisor as the screen uses it. All methods raise `MissionError`s: for refusals, and when nobody answers."""

    def watch(self) -> AsyncIterator[FleetSnapshot]:
        """Snapshots as they change, at most four a second, until the link is lost."""

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """The answer to the request that `make` builds from an id."""

    def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncIterator[Answer | Progress]:
        """Progress of a long request, and at the end its answer."""

    async def close(self) -> None:
        """Let go of the supervisor."""


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
