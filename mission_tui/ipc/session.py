"""One client of the operator plane, as the supervisor sees it: what is still to be said to it, bounded.

A client that does not read costs one frame on its way, the newest snapshot, and a bounded queue of other answers;
one that reads nothing for a minute, or asks without reading, is closed. It cannot slow down anybody else.
"""

from __future__ import annotations

import asyncio
from collections import deque

from mission_tui.ipc.framing import REPLY_LINE_BYTES, encode
from mission_tui.ipc.replies import OperatorReply, Refused, SnapshotReply
from mission_tui.ipc.snapshot_lines import SnapshotLines
from mission_tui.ipc.sockets import peer

__all__ = ["BACKLOG_BYTES", "STALL_S", "Session"]

STALL_S = 60.0
FLUSH_S = 1.0
BACKLOG_BYTES = 2 * REPLY_LINE_BYTES
WATCHES = 8


class Session:
    """Says replies to one client. `send` never waits; what a closed session is sent goes nowhere."""

    def __init__(self, writer: asyncio.StreamWriter, snapshots: SnapshotLines, stall_s: float = STALL_S) -> None:
        self._writer = writer
        link = writer.get_extra_info("socket")
        self._pid = peer(link)[0] if link is not None else 0
        self._snapshots = snapshots
        self._stall_s = stall_s
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._newest: dict[int, SnapshotReply] = {}
        self._wake = asyncio.Event()
        self._ending = False
        self.closed = False
        # `drain` then waits for all but this much, so that at most one frame is held beyond the kernel's buffer.
        writer.transport.set_write_buffer_limits(high=1 << 16)

    @property
    def pid(self) -> int:
        """The process at the other end, as it was when it connected."""
        return self._pid

    def send(self, reply: OperatorReply) -> None:
        """Say `reply` soon. A newer snapshot takes the place of one that is still waiting.

        Raises `MalformedError` for text that cannot be sent.
        """
        if self.closed or self._ending:
            return
        if isinstance(reply, SnapshotReply):
            self._newest[reply.re] = reply
        else:
            line = encode(reply)
            if len(line) > REPLY_LINE_BYTES:
                line = encode(Refused(re=reply.re, message="the answer is too large: ask for fewer series or points"))
            self._queue.append(line)
            self._queued_bytes += len(line)
        if self._queued_bytes > BACKLOG_BYTES or len(self._newest) > WATCHES:
            self.abort()
        self._wake.set()

    def abort(self) -> None:
        """Close at once; what was not said is dropped."""
        self.closed = True
        self._wake.set()
        self._writer.transport.abort()

    async def finish(self, pump: asyncio.Task[None]) -> None:
        """Say what is waiting, for a second at most, and close. `pump` is the task that runs `pump`."""
        self._ending = True
        self._wake.set()
        await asyncio.wait({pump}, timeout=FLUSH_S)
        if not pump.done():
            self.abort()
        self.closed = True
        await pump

    async def pump(self) -> None:
        """Write what `send` was given, until the session ends. Runs as a task of its own."""
        try:
            while not self.closed:
                line = self._next_line()
                if line is not None:
                    self._writer.write(line)
                    async with asyncio.timeout(self._stall_s):
                        await self._writer.drain()
                elif self._ending:
                    return
                else:
                    self._wake.clear()
                    await self._wake.wait()
        except (TimeoutError, ConnectionError):
            return
        finally:
            if not self._ending:
                self.abort()

    def _next_line(self) -> bytes | None:
        if self._queue:
            line = self._queue.popleft()
            self._queued_bytes -= len(line)
            return line
        if self._newest:
            return self._snapshots.line(self._newest.pop(next(iter(self._newest))))
        return None
