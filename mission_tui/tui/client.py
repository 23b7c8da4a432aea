"""The supervisor as the screen uses it: a protocol, following it while the screen lives, and moving through a replay.

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
from mission_tui.ipc.requests import AnsweredBy, GoTo

Answer = TypeVar("Answer")
Lost = Callable[[str, bool], None]
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 2.0
STEPS = (("1s", 1.0), ("10s", 10.0), ("1m", 60.0), ("10m", 600.0), ("1h", 3600.0), ("6h", 21600.0), ("1d", 86400.0))


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


class ReplayClient(Protocol):
    """What scrubbing needs of the context."""

    snapshot: FleetSnapshot | None

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer: ...


class ReplaySeek:
    """One per screen session. Keys that come while a moment is being read add up, and only their sum is gone to."""

    def __init__(self, client: ReplayClient) -> None:
        self._client = client
        self._at = 2
        self._target: float | None = None
        self._asking = False

    @property
    def step(self) -> str:
        """How far a key goes, as it is written."""
        return STEPS[self._at][0]

    def turn(self, by: int) -> None:
        """Take the next smaller or larger step."""
        self._at = min(max(0, self._at + by), len(STEPS) - 1)

    async def move(self, steps: int) -> None:
        """Go so many steps forward, from where the last key led."""
        snapshot = self._client.snapshot
        if snapshot is not None:
            await self.seek((snapshot.t if self._target is None else self._target) + steps * STEPS[self._at][1])

    async def seek(self, moment: float) -> None:
        """Go to unix time `moment`, or to the end that is nearer to it. Raises `MissionError`."""
        replay = self._client.snapshot.replay if self._client.snapshot else None
        if replay is None:
            return
        self._target = min(max(moment, replay.since), replay.until)
        if self._asking:
            return
        self._asking = True
        try:
            while (asked := self._target) is not None:
                await self._ask(asked)
                if asked == self._target:
                    return
        except MissionError:
            self._target = None
            raise
        finally:
            self._asking = False

    async def _ask(self, moment: float) -> None:
        await self._client.ask(lambda id_: GoTo(id=id_, t=moment))
