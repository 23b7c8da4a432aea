"""The screen's side of the operator plane: one connection, any number of questions and watches at once.

Losing the supervisor raises in every call that waits for it, never a state to repair: the next call reconnects,
starts a supervisor if there is none, and waits a little longer after each failure in a row.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import cast

from mission_tui import __version__
from mission_tui.errors import MissionError, NoSupervisorError, StoppedSupervisorError, UsageError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.client import BUSY_S, cpu_ticks, decode_reply, misunderstanding, refusal, request_line, welcomed
from mission_tui.ipc.replies import ChangesReply, OperatorReply, Progress, Refused, SnapshotReply, Welcome
from mission_tui.ipc.requests import LOOKS, Answer, AnsweredBy, Hello, Request, Watch
from mission_tui.ipc.sockets import (
    OPERATOR_SOCKET,
    PROTOCOL,
    SNAPSHOT_LINE_BYTES,
    ConnectionLostError,
    LineReader,
    MalformedError,
    connect,
    peer,
)
from mission_tui.ipc.start import ensure_supervisor, start_readonly_server, was_stopped
from mission_tui.paths import socket_dir

RECEIVE_BYTES = 1 << 18
HELLO_S = 5.0
FIRST_RETRY_S = 0.1
LAST_RETRY_S = 2.0
_REPLY_BEGINS = b'{"'


class AsyncConnection:
    """A supervisor for an asyncio program. Its methods raise `MissionError`s: for refusals, and when nobody answers.

    With `from_files` the files of the runs root are read instead, and no supervisor is asked or started; with
    `replay_t` as they were at that unix time. With `readonly` nothing is asked that would change or start anything, and
    no supervisor is started.
    """

    def __init__(
        self,
        root: Path,
        *,
        start: bool = True,
        from_files: bool = False,
        replay_t: float | None = None,
        readonly: bool = False,
    ) -> None:
        self._root = root
        self._start = start and not readonly
        self._readonly = readonly
        self._from_files = from_files or replay_t is not None
        self._replay_t = replay_t
        self._link: Link | None = None
        self._connecting = asyncio.Lock()
        self._may_wake = True
        self._retry_s = 0.0

    @property
    def welcome(self) -> Welcome | None:
        """What the supervisor said of itself when it was last reached; None before that."""
        return self._link.welcome if self._link is not None else None

    def at(self, _machine: str) -> AsyncConnection:
        """There is one machine."""
        return self

    @property
    def connected(self) -> bool:
        """Whether a supervisor is at the other end right now."""
        return self._link is not None and self._link.error is None

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """The answer to the request that `make` builds from an id; progress on the way is passed over."""
        return await answer_of(self.stream(make))

    async def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncGenerator[Answer | Progress, None]:
        """Progress of a long request, and at the end its answer; a `Watch` never ends in order.

        Raises the `MissionError` that a refusal stands for, and `UsageError` for what changes something where the
        screen is read-only.
        """
        link = await self._connected()
        request = link.numbered(make)
        if self._readonly and not isinstance(request, LOOKS):
            raise UsageError("this screen is read-only: nothing can be changed or started from here")
        with link.replies(request) as inbox:
            while True:
                reply = await inbox.next()
                if isinstance(reply, Refused):
                    raise refusal(reply)
                yield cast("Answer | Progress", reply)
                if not isinstance(request, Watch) and not isinstance(reply, Progress):
                    return

    async def watch(self) -> AsyncGenerator[FleetSnapshot, None]:
        """Snapshots as they change, until the link is lost; who is slow sees only the newest."""
        async with aclosing(self._watched()) as replies:
            async for reply in replies:
                if isinstance(reply, SnapshotReply):
                    yield reply.snapshot

    async def _watched(self) -> AsyncGenerator[SnapshotReply | Progress, None]:
        changes = (await self._connected()).welcome.changes
        async with aclosing(self.stream(lambda id_: Watch(id=id_, changes=changes))) as replies:
            async for reply in replies:
                yield reply

    def wake(self) -> None:
        """Start a supervisor that was stopped on request, or whose runs root is gone, with the next question, as the
        first question does.
        """
        self._may_wake = True

    async def close(self) -> None:
        """Close the connection; whoever still waits for an answer gets `ConnectionLostError`."""
        if self._link is not None:
            await self._link.close()

    async def _connected(self) -> Link:
        async with self._connecting:
            if self._link is not None and self._link.error is None:
                return self._link
            await asyncio.sleep(self._retry_s)
            self._retry_s = min(LAST_RETRY_S, 2 * self._retry_s or FIRST_RETRY_S)
            self._link = await self._open()
            self._retry_s, self._may_wake = 0.0, False
            return self._link

    async def _open(self) -> Link:
        path = socket_dir(self._root) / OPERATOR_SOCKET
        if self._from_files:
            return await Link.over(await asyncio.to_thread(start_readonly_server, self._root, self._replay_t))
        try:
            return await Link.open(path)
        except (OSError, ConnectionLostError) as error:
            if not self._start:
                raise NoSupervisorError(f"no supervisor runs for {self._root}") from error
            if not self._may_wake and await asyncio.to_thread(was_stopped, self._root):
                raise StoppedSupervisorError(
                    f"no supervisor runs for {self._root}: it was stopped on request"
                ) from error
            if not self._may_wake and not await asyncio.to_thread(self._root.is_dir):
                raise NoSupervisorError(
                    f"the runs root {self._root} is gone: moved, removed, or its disk is not mounted; "
                    "F5 makes an empty one"
                ) from error
        await asyncio.to_thread(ensure_supervisor, self._root)
        try:
            return await Link.open(path)
        except (OSError, ConnectionLostError) as error:
            raise NoSupervisorError(f"the supervisor for {self._root} does not answer: {error}") from error


async def answer_of(stream: AsyncGenerator[Answer | Progress, None]) -> Answer:
    """The answer at the end of a request's replies."""
    async with aclosing(stream) as replies:
        async for reply in replies:
            if not isinstance(reply, Progress):
                return reply
    raise AssertionError("a stream ends with an answer or an error")


class _Inbox:
    """Replies to one request that nobody has taken yet; of waiting snapshots only the newest."""

    def __init__(self) -> None:
        self._waiting: list[OperatorReply] = []
        self._error: MissionError | None = None
        self._arrived = asyncio.Event()

    def put(self, reply: OperatorReply) -> None:
        if isinstance(reply, SnapshotReply):
            self._waiting = [old for old in self._waiting if not isinstance(old, SnapshotReply)]
        self._waiting.append(reply)
        self._arrived.set()

    def fail(self, error: MissionError) -> None:
        self._error = error
        self._arrived.set()

    async def next(self) -> OperatorReply:
        while not self._waiting:
            if self._error is not None:
                raise self._error
            self._arrived.clear()
            await self._arrived.wait()
        return self._waiting.pop(0)


class Link:
    """One connection that has said `welcome`; `error` says why it is over, `heard_t` when something last arrived."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, greeted: bool = False) -> None:
        self.error: MissionError | None = None
        self._greeted = greeted
        self.heard_t = time.monotonic()
        self.welcome: Welcome
        self._welcomed: Welcome | None = None
        self._whole: dict[int, FleetSnapshot] = {}
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._inboxes: dict[int, _Inbox] = {}
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, path: Path) -> Link:
        """Connect and say hello. Raises `OSError` or `ConnectionLostError` when nobody answers."""
        return await cls.over(connect(path, 0.0))

    @classmethod
    async def over(cls, connection: socket.socket, hello_s: float = HELLO_S, *, greeted: bool = False) -> Link:
        """Say hello on a fresh connection, and wait for the answer. Where one is `greeted`, a shell may say something
        before that, which is passed over.

        Raises `OSError` or `ConnectionLostError` when no supervisor answers within `hello_s`, or `BUSY_S` if it works.
        """
        begun, (pid, _) = time.monotonic(), peer(connection)
        reader, writer = await asyncio.open_unix_connection(sock=connection, limit=RECEIVE_BYTES)
        link = cls(reader, writer, greeted=greeted)
        try:
            with link.replies(Hello(id=0, protocol=PROTOCOL, version=__version__)) as inbox:
                while True:
                    worked = cpu_ticks(pid)
                    try:
                        async with asyncio.timeout(hello_s):
                            link.welcome = link._welcomed = welcomed(await inbox.next())
                            return link
                    except TimeoutError:
                        if time.monotonic() - begun >= BUSY_S or cpu_ticks(pid) <= worked:
                            raise
        except BaseException:
            await link.close()
            raise

    def numbered(self, make: Callable[[int], AnsweredBy[Answer]]) -> Request:
        """The request with the next id."""
        request = make(next(self._ids))
        assert isinstance(request, Request)
        return request

    @contextmanager
    def replies(self, request: Request) -> Iterator[_Inbox]:
        """Send `request`; its replies arrive in the inbox while the context lasts."""
        inbox = self._inboxes[request.id] = _Inbox()
        try:
            self._writer.write(request_line(request))
            if self.error is not None:
                inbox.fail(self.error)
            yield inbox
        finally:
            del self._inboxes[request.id]
            self._whole.pop(request.id, None)

    async def close(self) -> None:
        self._receiving.cancel()
        await asyncio.wait({self._receiving})

    async def _receive(self) -> None:
        """Hand replies to their inboxes until the link is over; then tell everybody who waits."""
        lines = LineReader(SNAPSHOT_LINE_BYTES)
        error: MissionError = ConnectionLostError("the connection to the supervisor was closed")
        try:
            while data := await self._reader.read(RECEIVE_BYTES):
                self.heard_t = time.monotonic()
                for line in lines.feed(data):
                    start = line.find(_REPLY_BEGINS) if self._greeted else 0
                    if start >= 0:
                        self._greeted = False
                        self._hand_out(self._decoded(line[start:]))
            error = ConnectionLostError("the supervisor went away")
        except OSError as broken:
            error = ConnectionLostError(f"the connection to the supervisor broke: {broken}")
        except MissionError as malformed:
            error = malformed
        finally:
            self.error = error
            self._writer.close()
            for inbox in self._inboxes.values():
                inbox.fail(error)

    def _decoded(self, line: bytes) -> OperatorReply:
        try:
            return decode_reply(line)
        except MalformedError as error:
            if self._welcomed is None:
                raise
            raise misunderstanding(self._welcomed, str(error)) from error

    def _hand_out(self, reply: OperatorReply) -> None:
        inbox = self._inboxes.get(reply.re)
        if inbox is not None:
            inbox.put(self._completed(reply))
        elif reply.re == 0 and isinstance(reply, Refused):
            raise refusal(reply, self._welcomed)

    def _completed(self, reply: OperatorReply) -> OperatorReply:
        """What has changed, as the whole snapshot that it makes of the one before. Raises `MalformedError`."""
        if isinstance(reply, ChangesReply):
            try:
                reply = SnapshotReply(re=reply.re, snapshot=reply.after(self._whole[reply.re]))
            except KeyError as error:
                raise MalformedError("the supervisor said what has changed in a snapshot that it never sent") from error
        if isinstance(reply, SnapshotReply):
            self._whole[reply.re] = reply.snapshot
        return reply
