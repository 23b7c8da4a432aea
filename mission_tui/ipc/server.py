"""The supervisor's side of both planes: hello first, one typed error for what is malformed, end of file at once.

The operator plane carries requests and answers; the telemetry plane carries facts of trainers and no verb at all.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

import msgspec

from mission_tui import __version__
from mission_tui.errors import EX_UNAVAILABLE, MissionError, ProtocolError
from mission_tui.fleet.text import clean
from mission_tui.ipc.framing import MalformedError, WrongVersionError, decode, encode
from mission_tui.ipc.listener import CONNECTION_LIMIT, HELLO_S, Listener, lines
from mission_tui.ipc.replies import Refused, Welcome
from mission_tui.ipc.requests import OPERATOR_LINE_BYTES, PROTOCOL, Hello, OperatorRequest
from mission_tui.ipc.session import STALL_S, Session
from mission_tui.ipc.snapshot_lines import SnapshotLines
from mission_tui.ipc.sockets import peer
from mission_tui.ipc.telemetry_messages import TELEMETRY_LINE_BYTES, Order, TelemetryMessage, TrainerHello

__all__ = ["Listener", "Session", "TrainerLink", "serve_operator", "serve_telemetry"]

REQUESTS: msgspec.json.Decoder[OperatorRequest] = msgspec.json.Decoder(OperatorRequest)
TELEMETRY: msgspec.json.Decoder[TelemetryMessage] = msgspec.json.Decoder(TelemetryMessage)
IN_FLIGHT = 16
ORDER_BACKLOG_BYTES = 1 << 14
log = logging.getLogger(__name__)

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
    desk = _Desk(runs_root, handle, on_gone, hello_s, stall_s)
    listener = Listener(path, desk.talk, limit)
    await listener.open()
    return listener


class _Desk:
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

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
            re=request.id, protocol=PROTOCOL, version=__version__, pid=os.getpid(), runs_root=str(self._runs_root)
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


class TrainerLink:
    """The connection of one trainer that was admitted. A trainer that reconnects has a new link."""

    def __init__(self, hello: TrainerHello, pid: int, writer: asyncio.StreamWriter) -> None:
        self.hello = hello
        self.pid = pid
        self._writer = writer

    def send(self, order: Order) -> None:
        """Give `order`, unless the trainer is gone or has stopped reading: an order is a request, not a promise."""
        transport = self._writer.transport
        if not transport.is_closing() and transport.get_write_buffer_size() <= ORDER_BACKLOG_BYTES:
            self._writer.write(encode(order))

    def close(self) -> None:
        """End the connection; the trainer will connect anew."""
        self._writer.close()


async def serve_telemetry(
    path: Path,
    on_hello: Callable[[TrainerLink], bool],
    on_message: Callable[[TrainerLink, TelemetryMessage], None],
    on_gone: Callable[[TrainerLink], None],
    *,
    hello_s: float = HELLO_S,
    limit: int = CONNECTION_LIMIT,
) -> Listener:
    """Listen for trainers at `path`.

    `on_hello` compares run, attempt and nonce (and the peer's pid) with what was launched; false closes the link.
    `on_gone` comes at end of file, once for every admitted link, possibly after the same trainer's next `on_hello`.
    """

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link: TrainerLink | None = None
        try:
            async with aclosing(lines(reader, TELEMETRY_LINE_BYTES, hello_s)) as arriving:
                async for line in arriving:
                    message = decode(line, TELEMETRY)
                    if link is not None and not isinstance(message, TrainerHello):
                        on_message(link, message)
                        continue
                    hello = _trainer_hello(message, link)
                    candidate = TrainerLink(hello, peer(writer.get_extra_info("socket"))[0], writer)
                    if not on_hello(candidate):
                        run = clean(hello.run, 80)
                        raise MalformedError(f"no attempt {hello.attempt} of run {run} with this nonce is expected")
                    link = candidate
        except ProtocolError as error:
            log.warning("telemetry: %s", error)
            writer.write(encode(Refused(re=0, message=str(error), exit_code=EX_UNAVAILABLE)))
        finally:
            if link is not None:
                on_gone(link)

    listener = Listener(path, talk, limit)
    await listener.open()
    return listener


def _trainer_hello(message: TelemetryMessage, link: TrainerLink | None) -> TrainerHello:
    if not isinstance(message, TrainerHello) or link is not None:
        raise MalformedError("a trainer says hello first, and once")
    if message.protocol != PROTOCOL:
        raise WrongVersionError(f"this supervisor speaks protocol {PROTOCOL}, the trainer {message.protocol}")
    return message
