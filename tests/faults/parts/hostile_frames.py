"""Frames that no honest program says, to a real server in its own process, with a neighbour who must not notice.

Each gets one typed error, or the answer it happens to deserve, and the end of its connection; the server's memory and
descriptors stay where they were.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from mission_tui import __version__
from mission_tui.ipc.replies import OperatorReply, Refused, SnapshotReply
from mission_tui.ipc.requests import (
    OPERATOR_LINE_BYTES,
    Act,
    Evaluate,
    GetDetails,
    GetHistory,
    GetLog,
    GetSnapshot,
    Hello,
    Watch,
)
from mission_tui.ipc.server import REQUESTS
from mission_tui.ipc.sockets import OPERATOR_SOCKET, PROTOCOL, TELEMETRY_SOCKET, encode
from mission_tui.ipc.telemetry_messages import Heartbeat, PhaseEntered, RowsWritten, TrainerHello
from mission_tui.ipc.telemetry_server import TELEMETRY
from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.faults.frame_server import NONCE
from tests.ipc.hostile import HOSTILE_LINES

__all__ = ["PART"]

HELLO = encode(Hello(id=0, protocol=PROTOCOL, version=__version__))
TRAINER = encode(TrainerHello(PROTOCOL, "run-1", 1, NONCE, 1))
HONEST = [
    encode(message)[:-1]
    for message in (
        GetSnapshot(id=1),
        Watch(id=1),
        Act(id=1, verb="stop", runs=("run-1",)),
        GetDetails(id=1, run="run-1"),
        GetLog(id=1, run="run-1"),
        Evaluate(id=1, run="run-1"),
        GetHistory(id=1, run="run-1", series=("rollout/ep_rew_mean",)),
        PhaseEntered("rollout", 1, 1, 1.0),
        Heartbeat(1.0, (1, 2)),
        RowsWritten(7),
        Hello(id=1, protocol=PROTOCOL, version="1"),
        TrainerHello(PROTOCOL, "run-2", 1, NONCE, 1),
    )
]
NASTY = (
    b"null", b"-1", b"1e999", b"NaN", b'"\\ud800"', b'"\\u0000"', b"[[[[[[", b"{}", b'"' + b"A" * 5000 + b'"',
    b"\xff\xfe", b"\x00",
    b"18446744073709551616", b"0.1", b"true", b'"__class__"', b'"../../etc"', b"1" * 400, b"\r", b"\xe2\x80\xae",
)  # fmt: skip
CORPUS = list(HOSTILE_LINES.values())
ANSWER_S = 10.0
LOOK_EVERY = 500
GROWTH_BYTES = 48 << 20
REPLIES: msgspec.json.Decoder[OperatorReply] = msgspec.json.Decoder(OperatorReply)


def frame(luck: random.Random) -> bytes:
    """One hostile line, its newline sometimes forgotten."""
    draw = luck.random()
    if draw < 0.002:
        return luck.choice((b"x", b"[", b'{"a":', b"9")) * (OPERATOR_LINE_BYTES + luck.randrange(-9, 1 << 16))
    if draw < 0.02:
        return luck.choice(CORPUS) + b"\n"
    if draw < 0.1:
        return luck.randbytes(luck.choice((1, 8, 100, 3000))) + b"\n"
    data = bytearray(luck.choice(HONEST))
    for _ in range(luck.choice((1, 1, 2, 4))):
        at = luck.randrange(len(data) + 1)
        match luck.randrange(5):
            case 0:
                data[at : at + 1] = bytes([luck.randrange(256)])
            case 1:
                data[at : at + luck.randrange(20)] = luck.choice(NASTY)
            case 2:
                del data[at : at + luck.randrange(1, 20)]
            case 3:
                other = luck.choice(HONEST)
                data[at:at] = other[luck.randrange(len(other)) :]
            case _:
                data[at:at] = data[luck.randrange(len(data) + 1) :][:200]
    return bytes(data) + luck.choice((b"\n", b"\n", b"\n", b""))


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    with tempfile.TemporaryDirectory(prefix="mission-tui-faults-") as name:
        # The folder above must be ours too, and is made 0700.
        folder = Path(name) / "sockets" / "s"
        command = [sys.executable, "-m", "tests.faults.frame_server", str(folder)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout
            assert server.stdin
            server.stdout.readline()
            try:
                yield from _attack(rounds, seed, tell, folder, server.pid)
                if server.poll() is not None:
                    yield f"the server ended with {server.returncode}"
            finally:
                server.stdin.close()


def _attack(rounds: Iterable[int], seed: int, tell: Tell, folder: Path, pid: int) -> Iterator[Violation]:
    neighbour = _Neighbour(folder / OPERATOR_SOCKET)
    first: tuple[int, int] | None = None
    for done, index in enumerate(rounds, start=1):
        luck = chance(seed, index)
        plane = luck.choice((OPERATOR_SOCKET, TELEMETRY_SOCKET))
        hello = luck.choice((b"", HELLO if plane == OPERATOR_SOCKET else TRAINER))
        yield from (f"round {index}, {plane}: {it}" for it in _say(folder / plane, hello, frame(luck)))
        tell("frames", 1)
        if done % LOOK_EVERY == 0:
            if not neighbour.is_served():
                yield f"round {index}: the neighbour was not served"
            resident, descriptors = _resident_bytes(pid), len(list(Path(f"/proc/{pid}/fd").iterdir()))
            first = first or (resident, descriptors)
            if resident > first[0] + GROWTH_BYTES:
                yield f"round {index}: memory grew from {first[0]} to {resident} bytes"
            if descriptors > first[1] + 8:
                yield f"round {index}: descriptors grew from {first[1]} to {descriptors}"
    neighbour.leave()


def _say(path: Path, hello: bytes, line: bytes) -> Iterator[Violation]:
    """Say it, stop talking, and listen to the end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as wire:
        wire.settimeout(ANSWER_S)
        wire.connect(str(path))
        heard = bytearray()
        try:
            wire.sendall(hello + line)
            wire.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused before all was said; the reason is still to be read
        except TimeoutError:
            yield "what was said is not read"
        try:
            while data := wire.recv(1 << 16):
                heard += data
        except ConnectionResetError:
            pass
        except TimeoutError:
            yield f"no end of the connection after {line[:80]!r}"
    if path.name == TELEMETRY_SOCKET and heard.count(b"\n") > 1:
        yield f"a trainer heard {bytes(heard[:200])!r}"
    try:
        replies = [REPLIES.decode(reply) for reply in heard.splitlines()]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        yield f"an answer that is none: {error}: {bytes(heard[:200])!r}"
        return
    refused = [reply for reply in replies if isinstance(reply, Refused) and reply.re == 0]
    wanted = any(_is_malformed(part, path.name) for part in line.split(b"\n")[:-1])
    if len(refused) > 1 or (wanted and not refused):
        yield f"{len(refused)} refusals for {line[:80]!r}"


def _is_malformed(line: bytes, plane: str) -> bool:
    try:
        (REQUESTS if plane == OPERATOR_SOCKET else TELEMETRY).decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False


class _Neighbour:
    """Somebody honest on the same server."""

    def __init__(self, path: Path) -> None:
        self._wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._wire.settimeout(ANSWER_S)
        self._wire.connect(str(path))
        self._file = self._wire.makefile("rwb")
        self._id = 0
        self._file.write(HELLO)
        self._file.flush()
        self._file.readline()

    def is_served(self) -> bool:
        """Whether a snapshot comes, within `ANSWER_S`."""
        self._id += 1
        self._file.write(encode(GetSnapshot(id=self._id)))
        self._file.flush()
        reply = REPLIES.decode(self._file.readline())
        return isinstance(reply, SnapshotReply) and reply.re == self._id

    def leave(self) -> None:
        self._file.close()
        self._wire.close()


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


PART = Part("hostile-frames", ("I3", "I4", "I6", "I7"), 1_000_000, _run)
