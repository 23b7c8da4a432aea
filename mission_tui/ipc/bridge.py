"""The road to the supervisor of another machine: `ssh HOST mission-tui bridge` passes the operator protocol through its
standard streams. No port is opened, and no password is ever asked for.

The far end says in the supervisor's welcome which version it is. What is to be launched there comes without folder,
interpreter, variables and limits, and gets those that a shell of ssh has on that machine.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Self

import msgspec
from msgspec import structs

from mission_tui import __version__
from mission_tui.errors import MissionError, NoSupervisorError, ProtocolError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.async_client import AsyncConnection, Link
from mission_tui.ipc.client_environment import origin_of
from mission_tui.ipc.hosts import Host, advice, handshake_was_slow, is_refusal, shared_line_hangs, ssh_command
from mission_tui.ipc.replies import Progress, Welcome
from mission_tui.ipc.requests import (
    LOOKS,
    OPERATOR_LINE_BYTES,
    Answer,
    AnsweredBy,
    FromClient,
    GetSnapshot,
    OperatorRequest,
)
from mission_tui.ipc.sockets import ConnectionLostError, LineReader, MalformedError, decode, encode

LAST_CONNECT_S = 240.0
"""Who is too slow to answer has twice the time with each further try, up to this."""
SILENT_S = 15.0
"""As long as ssh waits for the machine: one that answers it may have a supervisor, or an ssh, that hangs."""
LEAST_POLL_S = 1.0
POLL_SHARE = 4.0
"""A snapshot that took a second to arrive is followed by four seconds in which other answers have the line."""
_SAID_BYTES = 4096
_CHUNK = 1 << 16
_WITHOUT_CALLER = b'"python":""'


class HostError(MissionError):
    """Another machine gives no answer. `why` is the reason alone; with `refused` its mission-tui gave it, so that the
    line is not at fault.
    """

    def __init__(self, sentence: str, *, why: str = "", refused: bool = False) -> None:
        super().__init__(sentence)
        self.why, self.refused = why or sentence, refused

    @classmethod
    def of(cls, name: str, why: str, *, refused: bool = False, note: str = "") -> Self:
        """That of the machine `name`; `note` is what else the sentence ends with."""
        return cls(f"{name} {'says' if refused else 'does not answer'}: {why}{note}", why=why, refused=refused)


class HostUnavailableError(HostError, NoSupervisorError):
    """It cannot be reached."""


class HostLostError(HostError, ConnectionLostError):
    """The line to it broke, or carries nothing any more."""


class BridgedConnection(AsyncConnection):
    """The supervisor of another machine. Snapshots are asked for one at a time: a line that carries ten kilobytes a
    second must never have a queue of old ones before the answer to a key.
    """

    def __init__(self, host: Host, environ: Mapping[str, str], *, readonly: bool = False) -> None:
        super().__init__(Path("/"), readonly=readonly)
        self._host, self._environ = host, environ
        self._connect_s = host.connect_s
        self._bridge: Bridge | None = None
        self._silent = False

    async def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncGenerator[Answer | Progress, None]:
        """As of a supervisor of this machine. A line that breaks says why, and that an order may be carried out all the
        same: its last bytes may be under way.
        """
        try:
            async with aclosing(super().stream(make)) as replies:
                async for reply in replies:
                    yield reply
        except ConnectionLostError as error:
            undecided = "" if isinstance(make(0), LOOKS) else "; what was asked may be done yet: look once it is back"
            raise await self._broken(undecided) from error

    async def watch(self) -> AsyncGenerator[FleetSnapshot, None]:
        """Snapshots at most once a second, and in a fifth of the time of the line."""
        while True:
            link = await self._connected()
            asked_t = time.monotonic()
            snapshot = await self._next_snapshot(link)
            took_s = time.monotonic() - asked_t
            yield snapshot
            await asyncio.sleep(max(LEAST_POLL_S, POLL_SHARE * took_s))
            if not self.connected:  # said at once: to reach for it again may take ten seconds
                raise await self._broken()

    async def _next_snapshot(self, link: Link) -> FleetSnapshot:
        """Hangs up where nothing at all arrives: a large snapshot on a thin line may take long."""
        asked_t = time.monotonic()
        asking = asyncio.create_task(self.ask(lambda id_: GetSnapshot(id=id_)))
        try:
            while not asking.done():
                silent_s = time.monotonic() - max(asked_t, link.heard_t)
                if silent_s >= SILENT_S:
                    self._silent = True
                    asking.cancel()
                    await self.close()
                    raise await self._broken()
                await asyncio.wait({asking}, timeout=SILENT_S - silent_s)
            return asking.result().snapshot
        finally:
            asking.cancel()

    async def _broken(self, note: str = "") -> HostLostError:
        """Why there is no line any more."""
        name, bridge = self._host.name, self._bridge
        if self._silent:
            why = "nothing comes from its supervisor, though ssh holds the line"
        elif bridge is None:
            why = "the line was closed"
        else:
            why = await asyncio.to_thread(bridge.why)
            if bridge.refused:
                return HostLostError.of(name, why, refused=True, note=note)
            why = why or ("its supervisor went away" if bridge.in_order else "the line broke")
        return HostLostError.of(name, why, note=note)

    async def close(self) -> None:
        """Let go of the other machine."""
        await super().close()
        self._hang_up()

    async def _open(self) -> Link:
        self._hang_up()
        self._silent = False
        bridge = self._bridge = await asyncio.to_thread(
            open_bridge,
            structs.replace(self._host, connect_s=self._connect_s),
            self._environ,
            wake=self._may_wake,
            readonly=self._readonly,
        )
        try:
            return await Link.over(bridge.link, self._connect_s, greeted=True)
        except (OSError, ConnectionLostError) as error:
            why = await asyncio.to_thread(bridge.why)
            if bridge.refused:
                self._hang_up()
                raise HostUnavailableError.of(self._host.name, why, refused=True) from error
            why = why or await asyncio.to_thread(shared_line_hangs, self._host, self._environ)
            self._hang_up()
            # A time that is over has no words of its own.
            if not (why or str(error)) or handshake_was_slow(why):
                slow = why or f"nothing came within {self._connect_s:g} s"
                self._connect_s = max(self._connect_s, min(2 * self._connect_s, LAST_CONNECT_S))
                why = (
                    f"{slow}: a slow line, or a machine with much to do; it has {self._connect_s:g} s the next time "
                    "(connect_s in hosts.toml)"
                )
            why = why or str(error)
            raise HostUnavailableError.of(self._host.name, why) from error

    def _hang_up(self) -> None:
        if self._bridge is not None:
            self._bridge.end()
            self._bridge = None


class Bridge:
    """A running `ssh HOST mission-tui bridge`: `link` is the supervisor's operator plane."""

    def __init__(self, link: socket.socket, child: subprocess.Popen[bytes], host: Host) -> None:
        self.link, self._host = link, host
        self._child, self._said = child, b""
        self._over = threading.Thread(target=self._listen, name="bridge", daemon=True)
        self._over.start()

    def _listen(self) -> None:
        assert self._child.stderr is not None
        with self._child.stderr as stream:
            while data := os.read(stream.fileno(), _SAID_BYTES):
                self._said = (self._said + data)[-_SAID_BYTES:]
        self._child.wait()

    def why(self, wait_s: float = 2.0) -> str:
        """What ssh, or the bridge at its other end, had to say, as `advice` has it; empty if they were silent."""
        self._over.join(wait_s)
        return advice(self._said.decode("utf-8", "replace"), self._host)

    @property
    def refused(self) -> bool:
        """Whether it was mission-tui at the other end that spoke last, as far as `why` has heard."""
        return is_refusal(self._said.decode("utf-8", "replace"), self._host)

    @property
    def in_order(self) -> bool:
        """Whether the other end hung up, and not the line."""
        return self._child.poll() == 0

    def end(self) -> None:
        """Let go of the other machine; its supervisor and runs go on."""
        self.link.close()
        self._child.terminate()


def open_bridge(host: Host, environ: Mapping[str, str], *, wake: bool, readonly: bool = False) -> Bridge:
    """Reach for the supervisor on `host`; one that was stopped on request is started only with `wake`, and with
    `readonly` none is: the files are read there.

    Whether it answers shows only at the first word. Raises `NoSupervisorError` where ssh cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        words = ["--readonly", "bridge"] if readonly else ["bridge", *([] if wake else ["--unless-stopped"])]
        argv = ssh_command(host, words, environ)
        try:
            # A session of its own, without our terminal: ssh could ask there for a password.
            child = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.PIPE,
                env=dict(environ),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise NoSupervisorError(f"{host.name} cannot be reached: {argv[0]}: {error.strerror or error}") from error
    return Bridge(ours, child, host)


def carry(link: socket.socket, requests: int, replies: int, *, readonly: bool = False) -> None:
    """Pass bytes from the descriptor `requests` to the supervisor and from it to `replies`, until one side hangs up.

    A `readonly` one does not say that runs can be launched here.
    """
    threading.Thread(target=_carry_requests, args=(requests, link), name="requests", daemon=True).start()
    with suppress(OSError):  # the client, or the line to it, is gone
        if not readonly:
            _write(replies, _signed(link))
        while data := link.recv(_CHUNK):
            _write(replies, data)


def _write(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _signed(link: socket.socket) -> bytes:
    """The first line of the supervisor with our version in it, if it is a welcome, and whatever came with it."""
    said = b""
    while b"\n" not in said and (data := link.recv(_CHUNK)):
        said += data
    first, end, rest = said.partition(b"\n")
    with suppress(MalformedError):
        welcome = decode(first, msgspec.json.Decoder(Welcome))
        return encode(structs.replace(welcome, bridge=__version__)) + rest
    return first + end + rest


def _carry_requests(requests: int, link: socket.socket) -> None:
    lines = LineReader(OPERATOR_LINE_BYTES)
    with suppress(OSError, ProtocolError):
        while data := os.read(requests, _CHUNK):
            for line in lines.feed(data):
                link.sendall(_with_caller(line) if _WITHOUT_CALLER in line else line + b"\n")
    with suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)


def _with_caller(line: bytes) -> bytes:
    """What is to be launched without saying how, with folder, interpreter, variables and limits of this process."""
    with suppress(MalformedError):
        request = decode(line, msgspec.json.Decoder(OperatorRequest))
        if isinstance(request, FromClient) and not request.python:
            return encode(structs.replace(request, **origin_of(Path.cwd(), os.environ)))
    return line + b"\n"
