"""A server to talk to, and a client that says whatever it likes, byte by byte."""

from __future__ import annotations

import asyncio
import fcntl
import shutil
import sys
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from mission_tui import __version__
from mission_tui.errors import PresetError
from mission_tui.fleet.views.snapshot import FleetSnapshot, HostMeters, RunView, SupervisorInfo
from mission_tui.ipc.listener import CONNECTION_LIMIT, HELLO_S, Listener
from mission_tui.ipc.replies import Accepted, Evaluated, LogReply, OperatorReply, Progress, SnapshotReply
from mission_tui.ipc.requests import Act, Evaluate, GetEnded, GetLog, GetSnapshot, Hello, OperatorRequest, Watch
from mission_tui.ipc.server import STALL_S, Session, serve_operator
from mission_tui.ipc.sockets import OPERATOR_SOCKET, PROTOCOL, encode
from mission_tui.paths import socket_dir

REPLIES: msgspec.json.Decoder[OperatorReply] = msgspec.json.Decoder(OperatorReply)
PATIENCE_S = 10.0


def snapshot(revision: int, runs: int = 0, padding: int = 0) -> FleetSnapshot:
    """A snapshot with that many ended runs, each with `padding` bytes of description."""
    views = tuple(
        RunView(
            id=f"run-{number}",
            name="n",
            preset="p",
            run_dir="/r",
            state="ended",
            created_t=1.0,
            description="x" * padding,
        )
        for number in range(runs)
    )
    return FleetSnapshot(
        revision=revision,
        t=float(revision),
        runs_root="/runs",
        supervisor=SupervisorInfo(pid=1, version=__version__, started_t=0.0),
        host=HostMeters(name="box", cores=2),
        runs=views,
    )


@contextmanager
def operator_path(root: Path) -> Iterator[Path]:
    """Where clients of `root` look for their supervisor; nothing of it stays."""
    folder = socket_dir(root)
    try:
        yield folder / OPERATOR_SOCKET
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def until(condition: Callable[[], object], timeout_s: float = 8.0) -> None:
    """Let the loop run until `condition()` holds."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other threads and processes
            await asyncio.sleep(0.003)


def held_up(seconds: float) -> None:
    """Compute for so long, and let nothing else of the loop happen."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def descriptors() -> int:
    """File descriptors that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


class Desk:
    """A small supervisor: answers some requests, remembers who watches and who left."""

    def __init__(self) -> None:
        self.watches: list[tuple[int, Session]] = []
        self.by_changes: list[int] = []
        self.gone: list[Session] = []
        self.held = asyncio.Event()
        self.handled: list[OperatorRequest] = []
        self.finished: list[OperatorRequest] = []
        self.newest = snapshot(1)

    async def handle(self, request: OperatorRequest, session: Session) -> None:
        self.handled.append(request)
        match request:
            case GetSnapshot():
                session.send(SnapshotReply(re=request.id, snapshot=self.newest))
            case Watch():
                self.watches.append((request.id, session))
                if request.changes:
                    self.by_changes.append(request.id)
                    session.send_changes(request.id)
                session.send(SnapshotReply(re=request.id, snapshot=snapshot(1)))
            case Act():
                await self.held.wait()
                session.send(Accepted(re=request.id, runs=request.runs))
            case Evaluate():
                session.send(Progress(re=request.id, done=1, total=2))
                session.send(Progress(re=request.id, done=2, total=2))
                session.send(Evaluated(re=request.id, result={"mean": 1.0}))
            case GetLog():
                text = "x" * request.limit
                session.send(LogReply(re=request.id, run="r", attempt=1, text=text, start=0, end=1, size=1))
            case GetEnded():
                raise PresetError("spec.toml: ppo.gama is unknown; did you mean 'gamma'?")
            case _:
                raise RuntimeError("a fault of the supervisor")
        self.finished.append(request)

    def show(self, newest: FleetSnapshot) -> None:
        """Send `newest` to every watch, and to whoever asks from now on."""
        self.newest = newest
        for id_, session in self.watches:
            session.send(SnapshotReply(re=id_, snapshot=newest))


@asynccontextmanager
async def served(
    root: Path,
    *,
    hello_s: float = HELLO_S,
    stall_s: float = STALL_S,
    limit: int = CONNECTION_LIMIT,
    at: Path | None = None,
) -> AsyncIterator[tuple[Desk, Listener]]:
    """A context behind the operator socket of `root`, or behind the one at `at`."""
    desk = Desk()
    with operator_path(root) as path:
        listener = await serve_operator(
            at or path, root, desk.handle, desk.gone.append, hello_s=hello_s, stall_s=stall_s, limit=limit
        )
        try:
            yield desk, listener
        finally:
            await listener.close()


class Wire:
    """A connection without manners."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, path: Path, *, hello: bool = False) -> AsyncIterator[Wire]:
        """Connect; with `hello`, be polite once."""
        wire = cls(*await asyncio.open_unix_connection(path, limit=1 << 24))
        try:
            if hello:
                wire.say(Hello(id=0, protocol=PROTOCOL, version=__version__))
                await wire.hear()
            yield wire
        finally:
            wire.writer.close()

    def say(self, message: msgspec.Struct) -> None:
        self.writer.write(encode(message))

    def unread(self) -> int:
        """Bytes that were said and that the other side has not read: a deadline for the rest of a line runs at 0."""
        return int.from_bytes(
            fcntl.ioctl(self.writer.get_extra_info("socket"), termios.TIOCOUTQ, bytes(4)), sys.byteorder
        )

    def stop_reading(self) -> None:
        """Read nothing more, not even into a buffer of ours."""
        cast("asyncio.ReadTransport", self.writer.transport).pause_reading()

    def read_again(self) -> None:
        cast("asyncio.ReadTransport", self.writer.transport).resume_reading()

    async def hear(self) -> OperatorReply:
        """The next reply."""
        return REPLIES.decode(await asyncio.wait_for(self.reader.readuntil(b"\n"), PATIENCE_S))

    async def hear_the_rest(self) -> list[Any]:
        """Every reply until the other side ends."""
        data = await asyncio.wait_for(self.reader.read(), PATIENCE_S)
        return [REPLIES.decode(line) for line in data.splitlines()]
