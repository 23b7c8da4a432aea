"""The blocking client of the command line."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from mission_tui import __version__
from mission_tui.errors import MissionError, NoSupervisorError, PresetError, ProtocolError, UsageError
from mission_tui.ipc.async_client import Link
from mission_tui.ipc.client import Connection, SilenceError, refusal
from mission_tui.ipc.replies import Accepted, Evaluated, Progress, Refused, SnapshotReply, Welcome
from mission_tui.ipc.requests import Evaluate, GetEnded, GetSnapshot, Undo, Watch
from mission_tui.ipc.sockets import (
    NO_MESSAGE,
    OPERATOR_SOCKET,
    ConnectionLostError,
    TooLargeError,
    bind,
    connect,
    encode,
    prepare_socket_dir,
)
from mission_tui.paths import socket_dir
from tests.ipc.serving import Desk, held_up, operator_path, served, snapshot


@asynccontextmanager
async def connected(root: Path) -> AsyncIterator[tuple[Desk, Connection]]:
    """A context and a blocking connection to it; its calls go through `asyncio.to_thread`."""
    async with served(root) as (desk, _):
        connection = await asyncio.to_thread(Connection.connect, root, start=False)
        with connection:
            yield desk, connection


async def test_ask_gives_the_answer(tmp_path: Path) -> None:
    """The welcome is known, and an answer comes back typed."""
    async with connected(tmp_path) as (_, connection):
        assert connection.welcome.runs_root == str(tmp_path)
        reply = await asyncio.to_thread(connection.ask, lambda id_: GetSnapshot(id=id_))
        assert reply.snapshot == snapshot(1)


async def test_a_supervisor_that_works_is_waited_for(tmp_path: Path) -> None:
    """One that computes for longer than a hello may take is busy, not gone: both clients get their answer."""
    async with served(tmp_path):
        blocking = asyncio.create_task(asyncio.to_thread(Connection.connect, tmp_path, start=False, timeout_s=0.1))
        drawing = asyncio.create_task(Link.over(connect(socket_dir(tmp_path) / OPERATOR_SOCKET, 0.0), hello_s=0.1))
        await asyncio.sleep(0)
        held_up(0.6)
        with await blocking as connection:
            assert connection.welcome.runs_root == str(tmp_path)
        link = await drawing
        assert link.welcome.runs_root == str(tmp_path)
        await link.close()


async def test_ask_passes_over_progress(tmp_path: Path) -> None:
    """Only the result of a long request is its answer; a stream shows the way there and ends with it."""
    async with connected(tmp_path) as (_, connection):
        answer = await asyncio.to_thread(connection.ask, lambda id_: Evaluate(id=id_, run="a"))
        assert isinstance(answer, Evaluated)
        stream = await asyncio.to_thread(list, connection.stream(lambda id_: Evaluate(id=id_, run="a")))
        assert [type(reply) for reply in stream] == [Progress, Progress, Evaluated]


async def test_refusal_raises_its_error_and_the_connection_goes_on(tmp_path: Path) -> None:
    """The sentence and the exit code of the supervisor are those of the error."""
    async with connected(tmp_path) as (_, connection):
        with pytest.raises(PresetError, match="did you mean 'gamma'") as caught:
            await asyncio.to_thread(connection.ask, lambda id_: GetEnded(id=id_))
        assert caught.value.exit_code == 78
        assert await asyncio.to_thread(connection.ask, lambda id_: GetSnapshot(id=id_))


@pytest.mark.parametrize(
    ("exit_code", "kind"),
    [(1, MissionError), (2, UsageError), (69, NoSupervisorError), (75, MissionError), (78, PresetError)],
)
def test_every_refusal_keeps_its_exit_code(exit_code: int, kind: type[MissionError]) -> None:
    """A command line can exit with what the supervisor said."""
    error = refusal(Refused(re=1, message="no", exit_code=exit_code))
    assert (type(error), error.exit_code, str(error)) == (kind, exit_code, "no")


async def test_watch_goes_on_until_the_supervisor_leaves(tmp_path: Path) -> None:
    """Snapshots come as they change; the end of the supervisor is an error, not an end."""
    async with served(tmp_path) as (desk, listener):
        connection = await asyncio.to_thread(Connection.connect, tmp_path, start=False)
        with connection:
            stream = connection.stream(lambda id_: Watch(id=id_))
            first = await asyncio.to_thread(next, stream)
            desk.show(snapshot(2))
            second = await asyncio.to_thread(next, stream)
            assert isinstance(first, SnapshotReply)
            assert isinstance(second, SnapshotReply)
            assert (first.snapshot.revision, second.snapshot.revision) == (1, 2)
            await listener.close()
            with pytest.raises(ConnectionLostError) as caught:
                await asyncio.to_thread(next, stream)
            assert caught.value.exit_code == 69


def test_one_that_hangs_is_not_taken_for_none(tmp_path: Path) -> None:
    """Whoever would start none gets its process and what ends that, not that there is none."""
    with operator_path(tmp_path) as path:
        prepare_socket_dir(path.parent)
        words = f"for {tmp_path} does not answer: its process {os.getpid()} hangs.*kill -KILL {os.getpid()}"
        with bind(path), pytest.raises(SilenceError, match=words) as caught:
            Connection.connect(tmp_path, start=False, timeout_s=0.2)
    assert caught.value.exit_code == 69


def test_without_a_supervisor_and_without_starting_one(tmp_path: Path) -> None:
    """The runs root is named, the exit code is 69."""
    with pytest.raises(NoSupervisorError, match=f"no supervisor runs for {tmp_path}") as caught:
        Connection.connect(tmp_path, start=False)
    assert caught.value.exit_code == 69


async def test_too_large_a_request_is_not_sent(tmp_path: Path) -> None:
    """The client knows the cap and says so; the connection stays usable."""
    async with connected(tmp_path) as (_, connection):
        with pytest.raises(TooLargeError, match="ask for less"):
            connection.ask(lambda id_: Undo(id=id_, runs=("x" * 2_000_000,)))
        assert await asyncio.to_thread(connection.ask, lambda id_: GetSnapshot(id=id_))


def answering(root: Path, *lines: bytes) -> threading.Thread:
    """A server that says `lines` to its first client, whatever it hears, and leaves."""
    path = root / "operator.sock"
    prepare_socket_dir(path.parent)
    listener = bind(path)
    listener.setblocking(True)

    def serve() -> None:
        with listener:
            client, _ = listener.accept()
            with client, suppress(BrokenPipeError, ConnectionResetError):
                client.recv(1 << 16)
                client.sendall(b"".join(lines))
                client.shutdown(socket.SHUT_WR)
                while client.recv(1 << 16):
                    pass

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


WELCOME = encode(Welcome(re=0, protocol=1, version=__version__, pid=1, runs_root="/runs"))


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ([b"welcome, stranger\n"], ProtocolError, "not a message of this protocol"),
        ([encode(Welcome(re=0, protocol=9, version="9", pid=1, runs_root="/r"))], ProtocolError, "speaks protocol 9"),
        ([encode(Refused(re=0, message="full", exit_code=69))], NoSupervisorError, "full"),
        ([encode(Accepted(re=0, runs=()))], ProtocolError, "answered a hello with Accepted"),
        ([], NoSupervisorError, "no supervisor runs"),
        ([WELCOME], ConnectionLostError, "went away before it answered"),
        ([WELCOME, b'{"reply":"snap'], ConnectionLostError, "went away before it answered"),
        ([WELCOME, b"x" * (33 << 20)], ProtocolError, "longer than"),
    ],
)
def test_what_a_supervisor_may_get_wrong(
    tmp_path: Path, lines: list[bytes], kind: type[MissionError], words: str
) -> None:
    """Malformed, of another version, closed too early, too large: each is told apart, none is a traceback."""
    with operator_path(tmp_path) as path:
        server = answering(path.parent, *lines)
        with pytest.raises(kind, match=words), Connection.connect(tmp_path, start=False) as connection:
            connection.ask(lambda id_: GetSnapshot(id=id_))
        server.join()


@pytest.mark.parametrize(
    "line",
    [
        encode(Refused(re=0, message=f"{NO_MESSAGE}: Invalid value 'unheard'", exit_code=1)),
        encode(Accepted(re=1, runs=())).replace(b'"accepted"', b'"unheard"'),
    ],
    ids=["request", "reply"],
)
@pytest.mark.parametrize(
    ("version", "words"),
    [("0.0.9", f"is of version 0.0.9, this mission-tui of {__version__}"), (__version__, "the code of another")],
    ids=["another version", "the same version"],
)
def test_who_does_not_know_a_message_is_named_with_the_remedy(
    tmp_path: Path, version: str, words: str, line: bytes
) -> None:
    """A supervisor that lives on after an upgrade: both versions, and what ends it without ending its runs."""
    welcome = encode(Welcome(re=0, protocol=1, version=version, pid=1, runs_root="/runs"))
    with operator_path(tmp_path) as path:
        server = answering(path.parent, welcome, line)
        with pytest.raises(ProtocolError, match=words) as caught, Connection.connect(tmp_path, start=False) as old:
            old.ask(lambda id_: GetSnapshot(id=id_))
        server.join()
    assert "of /runs" in str(caught.value)
    assert "`mission-tui supervisor stop` ends it, runs go on" in str(caught.value)
    assert "unheard" in str(caught.value)


def test_import_is_light() -> None:
    """A fresh interpreter that imports the client has imported neither asyncio nor textual, torch or subprocess."""
    program = (
        "import sys, mission_tui.ipc.client; heavy = {'asyncio', 'textual', 'torch', 'numpy', 'subprocess', 'logging'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    root = Path(__file__).resolve().parents[2]
    fresh = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert (fresh.stdout, fresh.stderr) == ("[]\n", "")


def test_a_ctrl_c_that_meets_the_making_of_the_decoder_is_not_lost() -> None:
    """It comes while types are hashed in Python code, the errors of which nobody hears of."""
    script = """
import os, signal, sys
from mission_tui.ipc.client import decode_reply
from mission_tui.ipc.replies import Progress
from mission_tui.ipc.sockets import encode

sent = 0

def press(frame, event, _):
    global sent
    if event == "call" and frame.f_code.co_name == "__hash__" and not sent:
        sent += 1
        os.kill(os.getpid(), signal.SIGINT)

line = encode(Progress(re=1, done=0, total=4))
sys.setprofile(press)
try:
    decode_reply(line)
except KeyboardInterrupt:
    print("stopped")
else:
    print("stopped" if not sent else "lost")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("stopped\n", "")
