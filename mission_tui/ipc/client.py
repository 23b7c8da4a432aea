"""The command line's side of the operator plane: a plain blocking socket, so that a verb pays only for what it uses.

No asyncio here, and a supervisor is started only when none answers.
"""

from __future__ import annotations

import itertools
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import msgspec

from mission_tui import __version__
from mission_tui.errors import MissionError, NoSupervisorError, PresetError, UsageError
from mission_tui.ipc.replies import ChangesReply, OperatorReply, Progress, Refused, SnapshotReply, Welcome
from mission_tui.ipc.requests import OPERATOR_LINE_BYTES, Answer, AnsweredBy, Hello, Request, Watch
from mission_tui.ipc.sockets import (
    NO_MESSAGE,
    OPERATOR_SOCKET,
    PROTOCOL,
    SNAPSHOT_LINE_BYTES,
    ConnectionLostError,
    LineReader,
    MalformedError,
    TooLargeError,
    WrongVersionError,
    connect,
    decode,
    encode,
    peer,
)
from mission_tui.paths import socket_dir
from mission_tui.procfs import read_stat

RECEIVE_BYTES = 1 << 16

SILENCE_S = 120.0
"""A supervisor that says nothing at all for this long, to a question, is taken for hung."""

BUSY_S = 30.0
"""So long a hello may take where the supervisor works: with a thousand runs, on a machine that others keep busy, it may
come to a client only after many seconds, and is not hung."""

_First = Welcome | SnapshotReply | ChangesReply | Refused
_FIRST: msgspec.json.Decoder[_First] = msgspec.json.Decoder(_First)
"""Of what every talk begins with, and most end with: one of all replies takes 6 ms more to make."""


class SilenceError(ConnectionLostError):
    """Nothing came for too long."""


class Connection:
    """One connection to a supervisor that has said welcome. Not for use from several threads."""

    def __init__(self, link: socket.socket, timeout_s: float) -> None:
        """Say hello on a fresh `link`, which is closed again if that fails."""
        self._link = link
        self._lines = LineReader(SNAPSHOT_LINE_BYTES)
        self._waiting: list[bytes] = []
        self._ids = itertools.count(1)
        try:
            link.settimeout(timeout_s)
            self._send(Hello(id=0, protocol=PROTOCOL, version=__version__))
            self.welcome: Welcome = welcomed(self._first_reply())
            link.settimeout(None)
        except BaseException:
            link.close()
            raise

    @classmethod
    def connect(cls, root: Path, *, start: bool = True, timeout_s: float = 5.0) -> Connection:
        """Connect to the supervisor of the runs root; if there is none and `start`, start one, which may take longer.

        Raises `NoSupervisorError` when one that is there does not answer within `timeout_s`, or `BUSY_S` if it works
        meanwhile, or none starts, `UsageError` when the runs root is unusable. For whoever would start none, silence is
        a `SilenceError`: one is there.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(0.1, deadline - time.monotonic())
            try:
                return cls(connect(socket_dir(root) / OPERATOR_SOCKET, left), left)
            except SilenceError as error:
                kind = NoSupervisorError if start else SilenceError
                raise kind(f"the supervisor for {root} does not answer: {error}") from error
            except (OSError, ConnectionLostError) as error:
                if not start:
                    raise NoSupervisorError(f"no supervisor runs for {root}") from error
                if time.monotonic() >= deadline:
                    raise NoSupervisorError(f"the supervisor for {root} does not answer: {error}") from error
            from mission_tui.ipc.start import ensure_supervisor  # only the client that finds nobody pays for this

            begun = time.monotonic()
            ensure_supervisor(root)
            deadline += time.monotonic() - begun

    @classmethod
    def connect_readonly(cls, root: Path, *, at: float | None = None) -> Connection:
        """Have the files of the runs root read, as they were `at` a unix time; no supervisor is asked or started.

        Raises `UsageError` when the runs root cannot be listed.
        """
        from mission_tui.ipc.start import start_readonly_server

        return cls(start_readonly_server(root, at), 10.0)

    def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """The answer to the request that `make` builds from an id; progress on the way is passed over.

        Raises the `MissionError` that a refusal stands for, and `ConnectionLostError` when the supervisor goes away.
        """
        for reply in self.stream(make):
            if not isinstance(reply, Progress):
                return reply
        raise AssertionError("a stream ends with an answer or an error")

    def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> Iterator[Answer | Progress]:
        """Every reply to the request, up to and with its answer; a `Watch` goes on until the supervisor goes away."""
        request = make(next(self._ids))
        assert isinstance(request, Request)
        self._send(request)
        endless = isinstance(request, Watch)
        self._link.settimeout(None if endless else SILENCE_S)
        while True:
            try:
                reply = self._receive()
            except MalformedError as error:
                raise misunderstanding(self.welcome, str(error)) from error
            if isinstance(reply, Refused):
                raise refusal(reply, self.welcome)
            if reply.re != request.id:
                continue
            yield cast("Answer | Progress", reply)
            if not endless and not isinstance(reply, Progress):
                return

    def close(self) -> None:
        """End the connection; a request under way is carried out all the same."""
        self._link.close()

    def hang_up(self) -> None:
        """End what is under way, from another thread too: whoever waits for an answer gets `ConnectionLostError`."""
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(self, request: Request) -> None:
        try:
            self._link.sendall(request_line(request))
        except (BrokenPipeError, ConnectionResetError):
            # The reason, if the supervisor gave one, is still to be read.
            return

    def _first_reply(self) -> OperatorReply:
        """The answer to the hello: who is busy is waited for, who does nothing is not."""
        begun, (pid, _) = time.monotonic(), peer(self._link)
        while True:
            worked = cpu_ticks(pid)
            try:
                return self._receive()
            except SilenceError as error:
                if time.monotonic() - begun >= BUSY_S or cpu_ticks(pid) <= worked:
                    raise SilenceError(_silence(pid)) from error

    def _receive(self) -> OperatorReply:
        while not self._waiting:
            try:
                data = self._link.recv(RECEIVE_BYTES)
            except ConnectionResetError:
                data = b""
            except TimeoutError as error:
                raise SilenceError("the supervisor does not answer") from error
            if not data:
                raise ConnectionLostError("the supervisor went away before it answered")
            self._waiting = self._lines.feed(data)
        return decode_reply(self._waiting.pop(0))


def cpu_ticks(pid: int) -> int:
    """Processor time of the process so far, in clock ticks; 0 where it may not be looked at."""
    try:
        stat = read_stat(pid)
    except OSError:
        return 0
    return 0 if stat is None else stat.cpu_ticks


def _silence(pid: int) -> str:
    """What is with a supervisor that accepts connections and says nothing, and what to do about it."""
    with suppress(OSError):
        if (stat := read_stat(pid)) is not None and stat.state in "Tt":
            return f"its process {pid} is stopped by a signal, and runs go on: `kill -CONT {pid}` lets it go on too"
    return (
        f"its process {pid} hangs, and runs go on: its log may say why (`mission-tui paths` shows where); "
        f"`kill -KILL {pid}` ends it, and the next command starts another"
    )


def decode_reply(line: bytes) -> OperatorReply:
    """The reply in `line`. Raises `MalformedError`."""
    try:
        return decode(line, _FIRST)
    except MalformedError:
        return decode(line, _every_reply())


@cache
def _every_reply() -> msgspec.json.Decoder[OperatorReply]:
    # Making it hashes types, some in Python code, and msgspec 0.22 drops whatever comes out of that: of the Ctrl-Cs
    # that came meanwhile three in a hundred were lost. They wait for it now.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return msgspec.json.Decoder(OperatorReply)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def request_line(request: Request) -> bytes:
    """`request` as a line. Raises `TooLargeError` for one that the supervisor would not take."""
    line = encode(request)
    if len(line) > OPERATOR_LINE_BYTES:
        raise TooLargeError(f"the request takes {len(line)} bytes of at most {OPERATOR_LINE_BYTES}: ask for less")
    return line


def welcomed(reply: OperatorReply) -> Welcome:
    """The answer to a hello. Raises what a refusal stands for, and `WrongVersionError` for another protocol."""
    if isinstance(reply, Refused):
        raise refusal(reply)
    if not isinstance(reply, Welcome):
        raise MalformedError(f"the supervisor answered a hello with {type(reply).__name__}")
    if reply.protocol != PROTOCOL:
        raise WrongVersionError(
            f"the supervisor of {reply.runs_root} is of version {reply.version} and speaks protocol {reply.protocol}, "
            f"this client speaks {PROTOCOL}: end it with its own `mission-tui supervisor stop`, runs go on"
        )
    return reply


def misunderstanding(welcome: Welcome, why: str) -> MalformedError:
    """That one side does not know what the other says, as after an upgrade under a supervisor that lives on."""
    versions = (
        f"is of version {welcome.version}, this mission-tui of {__version__}"
        if welcome.version != __version__
        else f"runs the code of another mission-tui {__version__} than this one"
    )
    return MalformedError(
        f"the supervisor of {welcome.runs_root} {versions}, and they do not understand each other: "
        "`mission-tui supervisor stop` ends it, runs go on, and the next command starts one that does "
        f"({why.removeprefix(NO_MESSAGE + ': ')})"
    )


def refusal(reply: Refused, welcome: Welcome | None = None) -> MissionError:
    """The error that a refusal stands for, with its exit code; of a supervisor that has said `welcome` and cannot read
    what it was sent, what ends that.
    """
    if welcome is not None and reply.re == 0 and reply.message.startswith(NO_MESSAGE):
        return misunderstanding(welcome, reply.message)
    kind = {error.exit_code: error for error in (MissionError, UsageError, PresetError, NoSupervisorError)}
    error = kind.get(reply.exit_code, MissionError)(reply.message)
    error.exit_code = reply.exit_code
    return error
