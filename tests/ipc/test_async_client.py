"""The asynchronous client of the screen: many things at once over one connection, and losing it is an exception."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mission_tui.errors import NoSupervisorError, PresetError, StoppedSupervisorError, UsageError
from mission_tui.ipc.async_client import AsyncConnection
from mission_tui.ipc.replies import Accepted, Evaluated, Progress, Refused, SnapshotReply, Welcome
from mission_tui.ipc.requests import Act, Evaluate, GetEnded, GetSnapshot
from mission_tui.ipc.sockets import NO_MESSAGE, ConnectionLostError, MalformedError, encode
from mission_tui.paths import STOPPED
from tests.ipc.serving import operator_path, served, snapshot, until


async def test_questions_and_a_watch_share_one_connection(tmp_path: Path) -> None:
    """A slow request, a quick one and a watch do not wait for each other."""
    async with served(tmp_path) as (desk, _):
        connection = AsyncConnection(tmp_path, start=False)
        watch = connection.watch()
        assert (await anext(watch)).revision == 1
        slow = asyncio.create_task(connection.ask(lambda id_: Act(id=id_, verb="stop", runs=("a",))))
        assert (await connection.ask(lambda id_: GetSnapshot(id=id_))).snapshot.revision == 1
        desk.show(snapshot(2))
        assert (await anext(watch)).revision == 2
        desk.held.set()
        assert (await slow).runs == ("a",)
        await watch.aclose()
        await connection.close()


async def test_a_watch_is_of_whole_snapshots_though_only_changes_are_sent(tmp_path: Path) -> None:
    """A supervisor that offers them is asked for changes; what the screen gets is the same."""
    async with served(tmp_path) as (desk, _):
        connection = AsyncConnection(tmp_path, start=False)
        watch = connection.watch()
        shown = [await anext(watch)]
        for newest in (snapshot(2, runs=3), snapshot(3, runs=3), snapshot(4, runs=1)):
            desk.show(newest)
            shown.append(await anext(watch))
        assert shown[1:] == [snapshot(2, runs=3), snapshot(3, runs=3), snapshot(4, runs=1)]
        assert connection.connected
        assert desk.by_changes == [1]
        await watch.aclose()
        await connection.close()


async def test_stream_gives_progress_and_then_the_answer(tmp_path: Path) -> None:
    """A long request can be followed; asking for it waits for the answer alone."""
    async with served(tmp_path):
        connection = AsyncConnection(tmp_path, start=False)
        kinds = [type(reply) async for reply in connection.stream(lambda id_: Evaluate(id=id_, run="a"))]
        assert kinds == [Progress, Progress, Evaluated]
        assert isinstance(await connection.ask(lambda id_: Evaluate(id=id_, run="a")), Evaluated)
        await connection.close()


async def test_refusals_are_errors_of_the_one_who_asked(tmp_path: Path) -> None:
    """A refusal raises with its exit code, and nobody else notices."""
    async with served(tmp_path):
        connection = AsyncConnection(tmp_path, start=False)
        with pytest.raises(PresetError, match="gamma"):
            await connection.ask(lambda id_: GetEnded(id=id_))
        assert isinstance(await connection.ask(lambda id_: GetSnapshot(id=id_)), SnapshotReply)
        await connection.close()


async def test_a_slow_watcher_sees_only_the_newest(tmp_path: Path) -> None:
    """Snapshots that pile up on this side are passed over too."""
    async with served(tmp_path) as (desk, _):
        connection = AsyncConnection(tmp_path, start=False)
        watch = connection.watch()
        await anext(watch)
        for revision in range(2, 100):
            desk.show(snapshot(revision))
            await asyncio.sleep(0.001)
        await connection.ask(lambda id_: GetSnapshot(id=id_))
        newest = await anext(watch)
        assert newest.revision == 99
        await watch.aclose()
        await connection.close()


async def test_losing_the_supervisor_is_told_to_everyone_at_once(tmp_path: Path) -> None:
    """Watches and waiting questions end with the same error; `connected` says so too."""
    async with served(tmp_path) as (desk, listener):
        connection = AsyncConnection(tmp_path, start=False)
        watch = connection.watch()
        await anext(watch)
        slow = asyncio.create_task(connection.ask(lambda id_: Act(id=id_, verb="stop", runs=("a",))))
        await until(lambda: any(isinstance(request, Act) for request in desk.handled))
        was_connected = connection.connected
        await listener.close()
        for waiting in (anext(watch), slow):
            with pytest.raises(ConnectionLostError, match="went away"):
                async with asyncio.timeout(20.0):
                    await waiting
        assert (was_connected, connection.connected) == (True, False)
        await connection.close()


async def test_the_next_call_connects_anew(tmp_path: Path) -> None:
    """After the supervisor came back the same object works again; while it is away every call says so."""
    connection = AsyncConnection(tmp_path, start=False)
    async with served(tmp_path):
        assert await connection.ask(lambda id_: GetSnapshot(id=id_))
    await until(lambda: not connection.connected)
    with pytest.raises(NoSupervisorError, match=f"no supervisor runs for {tmp_path}"):
        await connection.ask(lambda id_: GetSnapshot(id=id_))
    async with served(tmp_path):
        async with asyncio.timeout(5.0):
            assert await connection.ask(lambda id_: GetSnapshot(id=id_))
            assert (await anext(connection.watch())).revision == 1
        await connection.close()


async def test_failures_in_a_row_are_spaced_out(tmp_path: Path) -> None:
    """A supervisor that is away is not asked for in a busy loop: each failure waits longer than the one before."""
    connection = AsyncConnection(tmp_path, start=False)
    clock = asyncio.get_running_loop().time
    waits: list[float] = []
    for _ in range(4):
        began = clock()
        with pytest.raises(NoSupervisorError):
            await connection.ask(lambda id_: GetSnapshot(id=id_))
        waits.append(clock() - began)
    assert waits[0] < 0.1 <= waits[1] < waits[2] < waits[3]


async def test_calls_at_the_same_time_make_one_connection(tmp_path: Path) -> None:
    """Ten questions at once on a fresh object do not open ten connections."""
    async with served(tmp_path, limit=1):
        connection = AsyncConnection(tmp_path, start=False)
        answers = await asyncio.gather(*(connection.ask(lambda id_: GetSnapshot(id=id_)) for _ in range(10)))
        assert len(answers) == 10
        await connection.close()


async def test_closing_ends_what_waits(tmp_path: Path) -> None:
    """Who still waits when the screen closes gets an error, not a hang; closing twice is fine."""
    async with served(tmp_path) as (desk, _):
        connection = AsyncConnection(tmp_path, start=False)
        waiting = asyncio.create_task(connection.ask(lambda id_: Act(id=id_, verb="stop", runs=("a",))))
        await until(lambda: desk.handled)
        await connection.close()
        await connection.close()
        with pytest.raises(ConnectionLostError, match="was closed"):
            await waiting


async def test_a_server_that_talks_nonsense_is_an_error(tmp_path: Path) -> None:
    """Malformed replies and refused hellos reach the caller as errors with a sentence."""

    async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(replies.pop(0))
        await reader.read()
        writer.close()

    replies = [encode(Refused(re=0, message="full up", exit_code=69)), encode(Accepted(re=0, runs=())), b"{]\n"]
    with operator_path(tmp_path) as path:
        path.parent.mkdir(parents=True, mode=0o700)
        async with await asyncio.start_unix_server(nonsense, path):
            connection = AsyncConnection(tmp_path, start=False)
            for words in ("full up", "answered a hello with Accepted", "not a message of this protocol"):
                with pytest.raises(Exception, match=words):
                    await connection.ask(lambda id_: GetSnapshot(id=id_))


@pytest.mark.parametrize(
    "line",
    [
        encode(Refused(re=0, message=f"{NO_MESSAGE}: Invalid value 'unheard'", exit_code=1)),
        encode(Accepted(re=1, runs=())).replace(b'"accepted"', b'"unheard"'),
    ],
    ids=["request", "reply"],
)
async def test_who_does_not_know_a_message_is_named_with_the_remedy(tmp_path: Path, line: bytes) -> None:
    """A supervisor that lives on after an upgrade: both versions, and what ends it without ending its runs."""

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(encode(Welcome(re=0, protocol=1, version="0.0.9", pid=1, runs_root="/runs")))
        await reader.readline()
        writer.write(line)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    gone = asyncio.Event()
    with operator_path(tmp_path) as path:
        path.parent.mkdir(parents=True, mode=0o700)
        async with await asyncio.start_unix_server(old, path):
            connection = AsyncConnection(tmp_path, start=False)
            with pytest.raises(MalformedError, match=r"of version 0\.0\.9.*`mission-tui supervisor stop`.*unheard"):
                await connection.ask(lambda id_: GetSnapshot(id=id_))
            await connection.close()
            await gone.wait()


async def test_a_supervisor_that_was_stopped_is_not_started_in_passing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that had one leaves it at that until it is woken; the first question of another one starts it."""
    started: list[Path] = []
    monkeypatch.setattr("mission_tui.ipc.async_client.ensure_supervisor", started.append)
    connection = AsyncConnection(tmp_path)
    async with served(tmp_path):
        await connection.ask(lambda id_: GetSnapshot(id=id_))
    (tmp_path / ".supervisor").mkdir(exist_ok=True)
    (tmp_path / ".supervisor" / STOPPED).touch()
    with pytest.raises(StoppedSupervisorError, match="stopped on request"):
        await until_refused(connection)
    assert started == []
    connection.wake()
    for asked in (connection, AsyncConnection(tmp_path)):
        with pytest.raises(NoSupervisorError, match="does not answer"):
            await asked.ask(lambda id_: GetSnapshot(id=id_))
    assert started == [tmp_path, tmp_path]


async def test_nothing_is_started_in_place_of_a_runs_root_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that had one does not make an empty one, as where a disk is not mounted, until it is woken."""
    started: list[Path] = []
    monkeypatch.setattr("mission_tui.ipc.async_client.ensure_supervisor", started.append)
    root = tmp_path / "runs"
    root.mkdir()
    connection = AsyncConnection(root)
    async with served(root):
        await connection.ask(lambda id_: GetSnapshot(id=id_))
    root.rename(tmp_path / "moved")
    with pytest.raises(NoSupervisorError, match=r"the runs root .* is gone"):
        await until_refused(connection)
    assert started == []
    connection.wake()
    with pytest.raises(NoSupervisorError, match="does not answer"):
        await connection.ask(lambda id_: GetSnapshot(id=id_))
    assert started == [root]


async def test_a_connection_that_only_looks_changes_and_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a read-only screen lets through: no order leaves it, and where nobody answers nobody is started."""
    started: list[Path] = []
    monkeypatch.setattr("mission_tui.ipc.async_client.ensure_supervisor", started.append)
    async with served(tmp_path) as (desk, _):
        desk.held.set()
        connection = AsyncConnection(tmp_path, readonly=True)
        assert (await connection.ask(lambda id_: GetSnapshot(id=id_))).snapshot.revision == 1
        with pytest.raises(UsageError, match="read-only"):
            await connection.ask(lambda id_: Act(id=id_, verb="stop", runs=("a",)))
        await connection.close()
    connection.wake()
    with pytest.raises(NoSupervisorError):
        await until_refused(connection)
    assert started == []


async def until_refused(connection: AsyncConnection) -> None:
    """Ask until the loss of the link is known."""
    for _ in range(3):
        try:
            await connection.ask(lambda id_: GetSnapshot(id=id_))
        except ConnectionLostError:
            continue
