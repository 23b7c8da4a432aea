"""What lies beside this runs root: it is told to others how many runs go on here, and seen at which roots some do."""

from __future__ import annotations

import asyncio
import logging

from mission_tui.ipc.roots import live_roots, write_live_count
from mission_tui.supervisor.core import Core

__all__ = ["OtherRoots"]

LOOK_BEATS = 3
log = logging.getLogger(__name__)


class OtherRoots:
    """Looks once a beat; what takes the disk or other supervisors is done off the event loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._told: int | None = None
        self._beats = 0
        self._looking: asyncio.Task[None] | None = None

    def poll(self, *, attended: bool) -> None:
        """Tell how many runs live or wait here, when that changed; while somebody watches, look for other roots."""
        live = len(self._core.store.live_ids())
        if live != self._told:
            try:
                write_live_count(self._core.root, live)
                self._told = live
            except OSError as error:
                log.warning("other screens are not told of the runs here: %s", error)
        if attended and self._beats % LOOK_BEATS == 0 and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._see(), name="elsewhere")
            self._core.duties.follow("search for other roots", self._looking)
        self._beats = self._beats + 1 if attended else 0

    def forget(self) -> None:
        """The socket folder was made again: nothing is told in it."""
        self._told = None

    async def _see(self) -> None:
        roots = await asyncio.to_thread(live_roots, self._core.root)
        self._core.store.observe_surroundings(elsewhere=roots)
        self._core.changed.set()
