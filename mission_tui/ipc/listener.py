"""A Unix socket that only we can talk to: accepts, checks the peer, bounds the connections, ends every conversation.

What is said on a connection is not known here. A conversation that fails affects only its own connection.
"""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from mission_tui.errors import EX_UNAVAILABLE
from mission_tui.ipc.local_asyncio import asyncio
from mission_tui.ipc.replies import Refused
from mission_tui.ipc.sockets import (
    BACKLOG,
    LineReader,
    MalformedError,
    bind,
    encode,
    is_private,
    peer,
    prepare_socket_dir,
)

CONNECTION_LIMIT = 128
HELLO_S = 5.0
"""Seconds from connecting to a complete hello, and from the first byte of any line to its last."""

CLOSE_S = 2.0
LINGER_S = 0.5
READ_BYTES = 1 << 16
log = logging.getLogger(__name__)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


_WITHOUT_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SAID_AGAIN_S = 60.0
_said: dict[int, float] = {}


def _say_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As asyncio does it; but that none can be accepted, which is tried each second, is logged once a minute."""
    error = context.get("exception")
    if not (isinstance(error, OSError) and error.errno in _WITHOUT_ROOM and "socket" in context):
        loop.default_exception_handler(context)
        return
    now = loop.time()
    if now - _said.get(error.errno, -_SAID_AGAIN_S) >= _SAID_AGAIN_S:
        _said[error.errno] = now
        log.error("who connects is not answered: %s; it is tried again each second", error.strerror)


class Listener:
    """A listening socket at `path`, and its connections."""

    def __init__(self, path: Path, talk: Talk, limit: int = CONNECTION_LIMIT) -> None:
        self.path = path
        self._talk = talk
        self._limit = limit
        self._server: asyncio.Server | None = None
        self._inode: int | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Bind and accept. Raises `NoSupervisorError` when something that is not ours stands in the way."""
        prepare_socket_dir(self.path.parent)
        bound = bind(self.path)
        self._inode = self.path.lstat().st_ino
        asyncio.get_running_loop().set_exception_handler(_say_error)
        # asyncio takes as many at a time as may wait, and fails as often where no descriptor is left: a hundred times a
        # second, each with a traceback.
        self._server = await asyncio.start_unix_server(self._accepted, sock=bound, backlog=1)
        bound.listen(BACKLOG)

    async def restore(self) -> bool:
        """Bind anew if the socket or its folder was removed, replaced or opened to others; connections go on.

        True when it had to.
        """
        if self._server is not None and self._is_ours() and is_private(self.path.parent):
            return False
        if self._server is not None:
            self._server.close()
        # Where binding fails, the very socket that was there may come back, and nobody listens at it.
        self._server = None
        await self.open()
        return True

    async def close(self) -> None:
        """Accept no more, end every conversation, remove the socket."""
        if self._server is not None:
            self._server.close()
        for conversation in self._conversations:
            conversation.cancel()
        if self._conversations:
            await asyncio.wait(self._conversations, timeout=CLOSE_S)
        if self._is_ours():
            self.path.unlink(missing_ok=True)

    def _is_ours(self) -> bool:
        try:
            return self.path.lstat().st_ino == self._inode
        except OSError:
            return False

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = asyncio.current_task()
        assert conversation is not None
        self._conversations.add(conversation)
        try:
            if peer(writer.get_extra_info("socket"))[1] != os.getuid():
                log.warning("%s: refused a connection of another user", self.path.name)
            elif len(self._conversations) > self._limit:
                sentence = f"too many connections: the supervisor serves at most {self._limit}"
                writer.write(encode(Refused(re=0, message=sentence, exit_code=EX_UNAVAILABLE)))
                if len(self._conversations) <= 2 * self._limit:
                    await _part(reader, writer)
            else:
                await self._talk(reader, writer)
                await _part(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass
        except Exception:
            log.exception("%s: a conversation failed", self.path.name)
        finally:
            self._conversations.discard(conversation)
            writer.close()


async def _part(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say that we are done and read on for a moment: a close with input unread would reset our last words away."""
    if writer.is_closing():
        return
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while await reader.read(READ_BYTES):
                pass


async def _waiting_bytes(reader: asyncio.StreamReader) -> bytes:
    """What has come and was not read yet; nothing is waited for."""
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            return await reader.read(READ_BYTES)
    return b""


async def lines(reader: asyncio.StreamReader, limit: int, deadline_s: float = HELLO_S) -> AsyncGenerator[bytes, None]:
    """Lines of at most `limit` bytes until the other side ends.

    The first line must be complete within `deadline_s`, later ones within `deadline_s` of their first byte; between
    lines there may be silence. Raises `MalformedError` for a slower one and `TooLargeError` for a longer one.
    """
    clock = asyncio.get_running_loop().time
    buffer = LineReader(limit)
    deadline: float | None = clock() + deadline_s
    while True:
        try:
            async with asyncio.timeout_at(deadline):
                data = await reader.read(READ_BYTES)
        except TimeoutError as error:
            # A loop that was held up finds what has come and the deadline at once: what has come was in time.
            data = await _waiting_bytes(reader)
            if b"\n" not in data:
                raise MalformedError(f"no complete line within {deadline_s:g} s") from error
        if not data:
            return
        complete = buffer.feed(data)
        for line in complete:
            yield line
        if not buffer.partial:
            deadline = None if complete else deadline
        elif complete or deadline is None:
            deadline = clock() + deadline_s
