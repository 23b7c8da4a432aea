"""What other supervisors of this host have reserved, and what launches here are about to: read off the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from mission_tui.fleet.capacity.reservation import Claim, Reserved
from mission_tui.supervisor.disk.ledger import Ledger

__all__ = ["OtherSupervisors"]

log = logging.getLogger(__name__)

Own = Callable[[], tuple[Claim, ...]]


class OtherSupervisors:
    """`others` as they were read last; without a run here that may be long ago.

    `pending` are claims of launches that are being checked and have no run yet.
    """

    def __init__(self, folder: Path | None) -> None:
        self.others: tuple[Reserved, ...] = ()
        self.pending: dict[object, tuple[Claim, ...]] = {}
        self._ledger = Ledger(folder)
        self._turn = asyncio.Lock()
        self._exchanging: asyncio.Task[None] | None = None
        self._told: tuple[Claim, ...] = ()
        self._said = ""

    @property
    def note(self) -> str:
        """Why nobody else's reservations are known; empty when they are."""
        return self._ledger.note

    def poll(self, own: Own, *, busy: bool) -> None:
        """Now and then exchange claims, if there are any here or were a moment ago."""
        idle = self._exchanging is None or self._exchanging.done()
        if idle and (busy or self._told):
            self._exchanging = asyncio.create_task(self._exchange(own), name="claims")

    @asynccontextmanager
    async def exclusive(self, own: Own) -> AsyncIterator[None]:
        """`others` are fresh, and nobody else reserves while the context lasts, if the lock could be had.

        At its end, unless by an error, `own()` is written.
        """
        async with self._turn:
            lock = await self._entered()
            try:
                self.others = await asyncio.to_thread(partial(self._ledger.read, locked=lock is not None))
                yield
                self._told = own()
                await asyncio.to_thread(self._ledger.write, self._told)
            finally:
                self._ledger.leave(lock)
                self._say()

    def close(self) -> None:
        """This supervisor leaves; its runs are no longer spoken for until the next one comes."""
        self._ledger.close()

    async def _exchange(self, own: Own) -> None:
        async with self.exclusive(own):
            pass

    async def _entered(self) -> int | None:
        """The lock; let go of again if nobody waits for it any more."""
        entering = asyncio.ensure_future(asyncio.to_thread(self._ledger.enter))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            entering.add_done_callback(self._leave_unused)
            raise

    def _leave_unused(self, entered: asyncio.Future[int | None]) -> None:
        # At the end of the program even this is cancelled; the lock goes with the process then.
        if not entered.cancelled():
            self._ledger.leave(entered.result())

    def _say(self) -> None:
        if self.note != self._said:
            self._said = self.note
            log.warning("reservations of other supervisors: %s", self.note or "known again")
