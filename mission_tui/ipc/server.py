"""The supervisor's side of the operator plane: hello first, requests and their answers, one typed error for what is
malformed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

import msgspec

from mission_tui import __version__
from mission_tui.errors import MissionError, ProtocolError
from mission_tui.fleet.text import clean
from mission_tui.ipc.framing import MalformedError, WrongVersionError, decode
from mission_tui.ipc.listener import CONNECTION_LIMIT, HELLO_S, Listener, lines
from mission_tui.ipc.replies import Refused, Welcome
from mission_tui.ipc.requests import OPERATOR_LINE_BYTES, PROTOCOL, Hello, OperatorRequest
from mission_tui.ipc.session import STALL_S, Session
from mission_tui.ipc.snapshot_lines import SnapshotLines

__all__ = ["Listener", "Session", "serve_link", "serve_operator"]

REQUESTS: msgspec.json.Decoder[OperatorRequest] = msgspec.json.Decoder(OperatorRequest)
IN_FLIGHT = 16
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
