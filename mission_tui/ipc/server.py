"""The supervisor's side of the operator plane: hello first, requests and their answers, one typed error for what is
malformed.

A client that does not read costs one frame on its way, the newest snapshot, and a bounded queue of other answers; one
that reads nothing for a minute, or asks without reading, is closed. It cannot slow down anybody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

import msgspec

from mission_tui import __version__
from mission_tui.errors import MissionError, ProtocolError
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.listener import CONNECTION_LIMIT, HELLO_S, Listener, lines
from mission_tui.ipc.replies import OperatorReply, Refused, SnapshotReply, Welcome
from mission_tui.ipc.requests import OPERATOR_LINE_BYTES, Hello, OperatorRequest
from mission_tui.ipc.sockets import PROTOCOL, REPLY_LINE_BYTES, MalformedError, WrongVersionError, decode, encode, peer

STALL_S = 60.0
FLUSH_S = 1.0
BACKLOG_BYTES = 2 * REPLY_LINE_BYTES
WATCHES = 8
REQUESTS: msgspec.json.Decoder[OperatorRequest] = msgspec.json.Decoder(OperatorRequest)
IN_FLIGHT = 16
log = logging.getLogger(__name__)


class Session:
    """Sends replies to one client. `send` never waits; what is given to a closed session is dropped."""

    def __init__(self, writer: asyncio.StreamWriter, snapshots: SnapshotLines, stall_s: float = STALL_S) -> None:
        self._writer = writer
        link = writer.get_extra_info("socket")
        self._pid = peer(link)[0] if link is not None else 0
        self._snapshots = snapshots
        self._stall_s = stall_s
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._newest: dict[int, SnapshotReply] = {}
        self._sent: dict[int, FleetSnapshot | None] = {}
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
        """Send `reply` soon. A newer snapshot takes the place of one that is still waiting.

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

    def send_changes(self, re: int) -> None:
        """Of the snapshots in answer to request `re` send after the first only what has changed."""
        self._sent[re] = None

    def abort(self) -> None:
        """Close at once; what was not sent is dropped."""
        self.closed = True
        self._wake.set()
        self._writer.transport.abort()

    async def finish(self, pump: asyncio.Task[None]) -> None:
        """Send what is waiting, for a second at most, and close. `pump` is the task that runs `pump`."""
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
            reply = self._newest.pop(next(iter(self._newest)))
            before = self._sent.get(reply.re)
            if reply.re in self._sent:
                self._sent[reply.re] = reply.snapshot
            return self._snapshots.line(reply) if before is None else self._snapshots.changes(reply, before)
        return None


class SnapshotLines:
    """Snapshots as lines, each run's view encoded once however many clients watch it; one per server.

    Views are frozen and a run that does not change keeps its very object, so identity says what is encoded already.
    """

    def __init__(self) -> None:
        self._views: dict[str, tuple[RunView, msgspec.Raw]] = {}
        self._newest: FleetSnapshot | None = None
        self._body = msgspec.Raw(b"null")

    def line(self, reply: SnapshotReply) -> bytes:
        """`reply` as one line, newline included: the same bytes that encoding it plainly gives."""
        if reply.snapshot is not self._newest:
            self._body = self._encoded(reply.snapshot)
            self._newest = reply.snapshot
        return msgspec.json.encode({"reply": "snapshot", "re": reply.re, "snapshot": self._body}) + b"\n"

    def changes(self, reply: SnapshotReply, before: FleetSnapshot) -> bytes:
        """What is new in `reply` since `before`, as one line: views that are no longer the very object that they were,
        and the order of all where it has changed.
        """
        snapshot = reply.snapshot
        # Held on to, a whole snapshot keeps every view of it, which is as much again as what is shown.
        self._newest, self._body = None, msgspec.Raw(b"null")
        known = {view.id: view for view in before.runs}
        new = [view for view in snapshot.runs if known.get(view.id) is not view]
        order = [view.id for view in snapshot.runs]
        fields = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
        fields["runs"] = [self._view(view) for view in new]
        said = {"reply": "changes", "re": reply.re, "snapshot": fields}
        if order != list(known):
            said["order"] = order
        if len(self._views) > 2 * len(order):
            self._views = {view.id: kept for view in snapshot.runs if (kept := self._views.get(view.id)) is not None}
        return msgspec.json.encode(said) + b"\n"

    def _encoded(self, snapshot: FleetSnapshot) -> msgspec.Raw:
        # Not kept beyond it: what is encoded once for one client is not encoded again for others.
        raws = [(view, self._view(view)) for view in snapshot.runs]
        self._views = {view.id: (view, raw) for view, raw in raws}
        fields = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
        fields["runs"] = [raw for _, raw in raws]
        return msgspec.Raw(msgspec.json.encode(fields))

    def _view(self, view: RunView) -> msgspec.Raw:
        known = self._views.get(view.id)
        if known is not None and known[0] is view:
            return known[1]
        raw = msgspec.Raw(msgspec.json.encode(view))
        self._views[view.id] = view, raw
        return raw


Handle = Callable[[OperatorRequest, Session], Awaitable[None]]


async def serve_operator(
    path: Path,
    runs_root: Path,
    handle: Handle,
    on_gone: Callable[[Session], None],
    *,
    hello_s: float = HELLO_S,
    stall_s: float = STALL_S,
    limit: int = CONNECTION_LIMIT,
) -> Listener:
    """Listen for clients at `path`. `handle` gets every request after the hello and answers through the session.

    Requests of one client run side by side, at most 16; a client that leaves does not interrupt them. A `MissionError`
    out of `handle` becomes a refusal. `on_gone` is called once for every session that had said hello.
    """
    desk = _OperatorServer(runs_root, handle, on_gone, hello_s, stall_s)
    listener = Listener(path, desk.serve_client, limit)
    await listener.open()
    return listener


async def serve_link(link: socket.socket, runs_root: Path, handle: Handle, on_gone: Callable[[Session], None]) -> None:
    """Serve the one client at the other end of `link`, as `serve_operator` does, until it hangs up."""
    reader, writer = await asyncio.open_unix_connection(sock=link)
    await _OperatorServer(runs_root, handle, on_gone, HELLO_S, STALL_S).serve_client(reader, writer)


class _OperatorServer:
    """Where clients are served."""

    def __init__(
        self, runs_root: Path, handle: Handle, on_gone: Callable[[Session], None], hello_s: float, stall_s: float
    ) -> None:
        self._runs_root = runs_root
        self._handle = handle
        self._on_gone = on_gone
        self._hello_s = hello_s
        self._stall_s = stall_s
        self._snapshots = SnapshotLines()
        self._under_way: set[asyncio.Task[None]] = set()

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = Session(writer, self._snapshots, self._stall_s)
        pump = asyncio.create_task(session.pump())
        answers: set[asyncio.Task[None]] = set()
        try:
            await self._serve(reader, session, answers)
            if answers:
                await asyncio.wait(answers)
        except ProtocolError as error:
            session.send(Refused(re=0, message=str(error), exit_code=error.exit_code))
        except asyncio.CancelledError:
            for answer in answers:
                answer.cancel()
            raise
        finally:
            await session.finish(pump)

    async def _serve(self, reader: asyncio.StreamReader, session: Session, answers: set[asyncio.Task[None]]) -> None:
        slots = asyncio.Semaphore(IN_FLIGHT)
        greeted = False
        newest_id = -1
        try:
            async with aclosing(lines(reader, OPERATOR_LINE_BYTES, self._hello_s)) as arriving:
                async for line in arriving:
                    request = decode(line, REQUESTS)
                    if request.id <= newest_id:
                        raise MalformedError(f"request ids must rise: {request.id} came after {newest_id}")
                    newest_id = request.id
                    if not greeted:
                        session.send(self._welcome(request))
                        greeted = True
                        continue
                    if isinstance(request, Hello):
                        raise MalformedError("hello was said already")
                    await slots.acquire()
                    if session.closed:
                        return
                    answer = asyncio.create_task(self._answer(request, session))
                    answers.add(answer)
                    # The loop itself holds tasks weakly, and this one may outlive its client.
                    self._under_way.add(answer)
                    answer.add_done_callback(partial(self._answered, answers, slots))
        finally:
            if greeted:
                self._on_gone(session)

    def _welcome(self, request: OperatorRequest) -> Welcome:
        if not isinstance(request, Hello):
            raise MalformedError("say hello first")
        if request.protocol != PROTOCOL:
            raise WrongVersionError(
                f"this supervisor ({__version__}) speaks protocol {PROTOCOL}, the client "
                f"({clean(request.version, 40)}) {request.protocol}: use one version of mission-tui for both; "
                "`supervisor stop` leaves runs alone"
            )
        return Welcome(
            re=request.id,
            protocol=PROTOCOL,
            version=__version__,
            pid=os.getpid(),
            runs_root=str(self._runs_root),
            changes=True,
        )

    def _answered(self, answers: set[asyncio.Task[None]], slots: asyncio.Semaphore, answer: asyncio.Task[None]) -> None:
        answers.discard(answer)
        self._under_way.discard(answer)
        slots.release()

    async def _answer(self, request: OperatorRequest, session: Session) -> None:
        try:
            await self._handle(request, session)
        except MissionError as error:
            session.send(Refused(re=request.id, message=str(error), exit_code=error.exit_code))
        except Exception as error:
            log.exception("request %s failed", type(request).__name__)
            sentence = f"the supervisor failed at this request ({type(error).__name__}); its log says more"
            session.send(Refused(re=request.id, message=sentence))
