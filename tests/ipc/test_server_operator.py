"""The operator plane: hello first, one typed error for hostile input, and nobody is hurt by anybody else."""

from __future__ import annotations

import array
import asyncio
import gc
import os
import resource
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from mission_tui import __version__
from mission_tui.errors import NoSupervisorError
from mission_tui.ipc import listener as listener_module
from mission_tui.ipc.replies import Accepted, Evaluated, LogReply, Progress, Refused, SnapshotReply, Welcome
from mission_tui.ipc.requests import (
    OPERATOR_LINE_BYTES,
    Act,
    Evaluate,
    GetEnded,
    GetLog,
    GetSnapshot,
    Hello,
    Shutdown,
    Watch,
)
from mission_tui.ipc.sockets import PROTOCOL, encode
from tests.ipc.hostile import HOSTILE_LINES
from tests.ipc.serving import Wire, descriptors, held_up, served, snapshot, until


async def test_hello_is_answered_with_welcome(tmp_path: Path) -> None:
    """Protocol, version, pid and runs root come with the welcome, under the request's id."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path) as wire:
        wire.say(Hello(id=5, protocol=PROTOCOL, version="9"))
        root = str(tmp_path)
        assert await wire.hear() == Welcome(
            re=5, protocol=PROTOCOL, version=__version__, pid=os.getpid(), runs_root=root, changes=True
        )


async def test_without_descriptors_it_is_said_once_and_not_a_hundred_times_a_second(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor without a descriptor for whoever connects fills no disk with that, and answers once it has one."""
    tries: list[float] = []
    say_error = listener_module._say_error

    def counted(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        tries.append(loop.time())
        say_error(loop, context)

    monkeypatch.setattr(listener_module, "_said", {})
    monkeypatch.setattr(listener_module, "_say_error", counted)
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.05)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with served(tmp_path) as (_, listener):
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        spare = os.dup(0)
        os.close(spare)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (spare, usual[1]))
            for client in waiting:
                client.connect(str(listener.path))
            await until(lambda: len(tries) >= 4)  # it is to be quiet about all but the first
            assert tries[3] - tries[0] > 2 * 0.05  # once for each wait, not for each who may connect
            assert [record.getMessage() for record in caplog.records] == [
                "who connects is not answered: Too many open files; it is tried again each second"
            ]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, usual)
            for client in waiting:
                client.close()
        async with Wire.to(listener.path) as wire:
            wire.say(Hello(id=5, protocol=PROTOCOL, version="9"))
            assert isinstance(await wire.hear(), Welcome)


async def test_other_protocol_is_refused_with_a_remedy(tmp_path: Path) -> None:
    """A client of another protocol learns both numbers and what to do, and is closed."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path) as wire:
        wire.say(Hello(id=1, protocol=99, version="7.0"))
        [refused] = await wire.hear_the_rest()
        assert refused.exit_code == 69
        assert "99" in refused.message
        assert "supervisor stop" in refused.message
        assert desk.gone == []


@pytest.mark.parametrize("name", sorted(HOSTILE_LINES))
async def test_hostile_line_costs_its_connection_only(tmp_path: Path, name: str) -> None:
    """One typed error, end of the connection; the neighbour is served all the while. Before and after the hello."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as neighbour:
        for hello in (False, True):
            async with Wire.to(listener.path, hello=hello) as wire:
                wire.writer.write(HOSTILE_LINES[name] + b"\n")
                [refused] = await wire.hear_the_rest()
                assert isinstance(refused, Refused)
        neighbour.say(GetSnapshot(id=1))
        assert isinstance(await neighbour.hear(), SnapshotReply)


async def test_too_long_a_line_is_refused(tmp_path: Path) -> None:
    """A request beyond the cap is refused while it arrives, and the refusal outlives the rest of the request."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as wire:
        wire.writer.write(b"x" * (8 * OPERATOR_LINE_BYTES))
        [refused] = await wire.hear_the_rest()
        assert str(OPERATOR_LINE_BYTES) in refused.message


async def test_silent_and_dripping_clients_meet_a_deadline(tmp_path: Path) -> None:
    """No hello in time, or a line that drips for ever, ends the connection; silence between lines does not."""
    async with (
        served(tmp_path, hello_s=0.2) as (_, listener),
        Wire.to(listener.path) as silent,
        Wire.to(listener.path, hello=True) as dripping,
        Wire.to(listener.path, hello=True) as quiet,
    ):

        async def drip() -> None:
            while True:
                dripping.writer.write(b" ")
                await asyncio.sleep(0.02)

        drops = asyncio.create_task(drip())
        for wire in (silent, dripping):
            [refused] = await wire.hear_the_rest()
            assert refused.message == "no complete line within 0.2 s"
        drops.cancel()
        quiet.say(GetSnapshot(id=1))
        assert isinstance(await quiet.hear(), SnapshotReply)


async def test_a_line_that_came_in_time_counts_although_the_server_was_held_up(tmp_path: Path) -> None:
    """A loop that is busy for longer than the deadline finds both at once; the client is served."""
    async with served(tmp_path, hello_s=0.2) as (_, listener), Wire.to(listener.path) as wire:
        hello = encode(Hello(id=0, protocol=PROTOCOL, version=__version__))
        wire.writer.write(hello[:1])
        await until(lambda: wire.unread() == 0)
        wire.writer.write(hello[1:])
        held_up(0.4)
        assert isinstance(await wire.hear(), Welcome)


async def test_requests_before_and_hellos_after_the_hello_are_refused(tmp_path: Path) -> None:
    """The first line is a hello, and no other is."""
    async with served(tmp_path) as (desk, listener):
        async with Wire.to(listener.path) as wire:
            wire.say(GetSnapshot(id=1))
            assert [type(reply) for reply in await wire.hear_the_rest()] == [Refused]
        async with Wire.to(listener.path, hello=True) as wire:
            wire.say(Hello(id=1, protocol=PROTOCOL, version="1"))
            assert [type(reply) for reply in await wire.hear_the_rest()] == [Refused]
        assert desk.handled == []


async def test_a_replayed_request_is_not_carried_out_again(tmp_path: Path) -> None:
    """Ids rise: a request said twice, or late, is refused and its connection closed."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        for id_ in (4, 4):
            wire.say(GetSnapshot(id=id_))
        replies = await wire.hear_the_rest()
        assert isinstance(replies[-1], Refused)
        assert "ids must rise" in replies[-1].message
        assert [request.id for request in desk.handled] == [4]


async def test_errors_become_refusals_and_the_session_goes_on(tmp_path: Path) -> None:
    """An error of the user keeps its sentence and exit code; a fault of ours is admitted without its inside."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(GetEnded(id=1))
        message = "spec.toml: ppo.gama is unknown; did you mean 'gamma'?"
        assert await wire.hear() == Refused(re=1, message=message, exit_code=78)
        wire.say(Shutdown(id=2))
        fault = await wire.hear()
        assert isinstance(fault, Refused)
        assert (fault.re, fault.exit_code) == (2, 1)
        assert "RuntimeError" in fault.message
        wire.say(GetSnapshot(id=3))
        assert isinstance(await wire.hear(), SnapshotReply)


async def test_a_slow_request_does_not_hold_up_the_next(tmp_path: Path) -> None:
    """Requests of one client run side by side."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(Act(id=1, verb="stop", runs=("a",)))
        wire.say(GetSnapshot(id=2))
        assert (await wire.hear()).re == 2
        desk.held.set()
        assert await wire.hear() == Accepted(re=1, runs=("a",))


async def test_a_stream_keeps_its_order(tmp_path: Path) -> None:
    """Progress comes before the result."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(Evaluate(id=1, run="a"))
        assert [type(await wire.hear()) for _ in range(3)] == [Progress, Progress, Evaluated]


async def test_slow_reader_gets_the_newest_snapshot_later(tmp_path: Path) -> None:
    """Of ten thousand snapshots sent while a client does not read, it sees few, and the newest last."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(Watch(id=1))
        await until(lambda: desk.watches)
        await wire.hear()
        wire.stop_reading()
        for revision in range(2, 10_002):
            desk.show(snapshot(revision, runs=1, padding=100_000))
            await asyncio.sleep(0)
        wire.read_again()
        seen: list[int] = []
        while not seen or seen[-1] != 10_001:
            reply = await wire.hear()
            assert isinstance(reply, SnapshotReply)
            seen.append(reply.snapshot.revision)
        assert seen == sorted(seen)
        assert len(seen) < 10


async def test_two_watches_of_one_client_both_get_the_newest(tmp_path: Path) -> None:
    """Coalescing is per watch."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        for id_ in (1, 2):
            wire.say(Watch(id=id_))
            await wire.hear()
        for revision in range(2, 50):
            desk.show(snapshot(revision))
        newest: dict[int, int] = {}
        while set(newest.values()) != {49} or len(newest) != 2:
            reply = await wire.hear()
            assert isinstance(reply, SnapshotReply)
            newest[reply.re] = reply.snapshot.revision


async def test_client_that_never_reads_is_closed(tmp_path: Path) -> None:
    """Who reads nothing for the stall time is let go, and its neighbour never noticed."""
    async with (
        served(tmp_path, stall_s=0.3) as (desk, listener),
        Wire.to(listener.path, hello=True) as wire,
        Wire.to(listener.path, hello=True) as neighbour,
    ):
        for one in (wire, neighbour):
            one.say(Watch(id=1))
            await one.hear()
        wire.stop_reading()
        revision = 1
        while not desk.gone:
            revision += 1
            desk.show(snapshot(revision, runs=1, padding=500_000))
            reply = await neighbour.hear()
            assert isinstance(reply, SnapshotReply)
            assert reply.snapshot.revision == revision
        assert [session.closed for session in desk.gone] == [True]


async def test_asking_without_reading_is_bounded(tmp_path: Path) -> None:
    """A client that asks for megabytes and reads none of them is closed before they fill the memory."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        wire.stop_reading()
        for id_ in range(1, 100):
            wire.say(GetLog(id=id_, run="r", limit=1_000_000))
        await until(lambda: desk.gone)
        assert len(desk.handled) < 60


async def test_an_answer_beyond_the_cap_is_refused(tmp_path: Path) -> None:
    """An answer too large for a line becomes a refusal that says what to do, not a broken connection."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(GetLog(id=1, run="r", limit=9_000_000))
        wire.say(GetLog(id=2, run="r", limit=10))
        refused, served_reply = await wire.hear(), await wire.hear()
        assert isinstance(refused, Refused)
        assert (refused.re, "too large" in refused.message) == (1, True)
        assert isinstance(served_reply, LogReply)


async def test_half_closed_client_still_gets_its_answer(tmp_path: Path) -> None:
    """A client that says it is done talking hears the rest: `printf ... | socat` works."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(Act(id=1, verb="stop", runs=("a",)))
        wire.writer.write_eof()
        await until(lambda: desk.gone)
        desk.held.set()
        assert await wire.hear_the_rest() == [Accepted(re=1, runs=("a",))]


async def test_leaving_does_not_interrupt_a_request(tmp_path: Path) -> None:
    """What a client asked for is carried out even if the client is gone; its departure is known at once, and once."""
    async with served(tmp_path) as (desk, listener):
        async with Wire.to(listener.path, hello=True) as wire:
            wire.say(Act(id=1, verb="stop", runs=("a",)))
            await until(lambda: desk.handled)
        await until(lambda: desk.gone)
        desk.held.set()
        await until(lambda: desk.gone[0].closed)
        assert len(desk.gone) == 1


async def test_a_malformed_line_does_not_interrupt_a_request(tmp_path: Path) -> None:
    """What was asked before the malformed line is carried out, though its connection is closed at once."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(Act(id=1, verb="stop", runs=("a",)))
        await until(lambda: desk.handled)
        wire.writer.write(b"{]\n")
        assert [type(reply) for reply in await wire.hear_the_rest()] == [Refused]
        gc.collect()
        desk.held.set()
        await until(lambda: desk.finished)


async def test_connections_are_limited(tmp_path: Path) -> None:
    """One connection too many is told so; when another leaves there is room again."""
    async with served(tmp_path, limit=2) as (desk, listener), Wire.to(listener.path, hello=True):
        async with Wire.to(listener.path, hello=True), Wire.to(listener.path) as third:
            [refused] = await third.hear_the_rest()
            assert refused.message == "too many connections: the supervisor serves at most 2"
        await until(lambda: desk.gone)
        async with Wire.to(listener.path, hello=True) as third:
            third.say(GetSnapshot(id=1))
            assert isinstance(await third.hear(), SnapshotReply)


async def test_a_flood_of_connections_leaves_nothing_behind(tmp_path: Path) -> None:
    """A thousand clients that connect and leave cost no descriptor and no session."""
    async with served(tmp_path) as (desk, listener):
        before = descriptors()
        for _ in range(1000):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(os.fspath(listener.path))
            await asyncio.sleep(0)
        await until(lambda: descriptors() <= before)
        assert desk.gone == []


async def test_passed_descriptors_are_not_taken(tmp_path: Path) -> None:
    """A file descriptor sent along with a request does not arrive in the supervisor."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as wire:
        before = descriptors()
        link = wire.writer.get_extra_info("socket")
        with socket.socket(fileno=os.dup(link.fileno())) as client:
            passed = array.array("i", [client.fileno()] * 10).tobytes()
            client.sendmsg([encode(GetSnapshot(id=1))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, passed)])
        assert isinstance(await wire.hear(), SnapshotReply)
        assert descriptors() == before


async def test_removed_socket_is_made_again(tmp_path: Path) -> None:
    """When the folder in /tmp is swept away, restoring brings it back and connections go on."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as old:
        assert not await listener.restore()
        shutil.rmtree(listener.path.parent)
        assert await listener.restore()
        async with Wire.to(listener.path, hello=True) as new:
            for wire in (old, new):
                wire.say(GetSnapshot(id=1))
                assert isinstance(await wire.hear(), SnapshotReply)


@pytest.mark.parametrize("level", [0, 1])
async def test_a_door_that_was_opened_is_closed_again(tmp_path: Path, level: int) -> None:
    """Somebody's recursive chmod lets others in until the next look, which closes the folder and binds anew."""
    async with served(tmp_path) as (_, listener), Wire.to(listener.path, hello=True) as old:
        folder = listener.path.parents[level]
        folder.chmod(0o777)
        assert await listener.restore()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not await listener.restore()
        old.say(GetSnapshot(id=1))
        assert isinstance(await old.hear(), SnapshotReply)


async def test_a_folder_that_comes_back_after_a_link_in_its_place_is_served_again(tmp_path: Path) -> None:
    """With the very socket that was there: while the link stood, nobody listened at it any more."""
    async with served(tmp_path) as (_, listener):
        folder = listener.path.parent
        away = folder.rename(tmp_path / "away")
        folder.symlink_to(away)
        with pytest.raises(NoSupervisorError, match="is not a folder"):
            await listener.restore()
        folder.unlink()
        away.rename(folder)
        assert await listener.restore()
        async with Wire.to(listener.path, hello=True) as wire:
            wire.say(GetSnapshot(id=1))
            assert isinstance(await wire.hear(), SnapshotReply)


async def test_closing_ends_every_connection_and_removes_the_socket(tmp_path: Path) -> None:
    """A supervisor that leaves is seen to leave at once, by watchers and by those who still wait."""
    async with served(tmp_path) as (desk, listener), Wire.to(listener.path, hello=True) as wire:
        wire.say(Act(id=1, verb="stop", runs=("a",)))
        await until(lambda: desk.handled)
        await listener.close()
        assert await wire.hear_the_rest() == []
        assert not listener.path.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_another_user_is_not_served(tmp_path: Path) -> None:
    """Behind an open door (which 0700 folders prevent) the peer's user id still decides."""
    program = (
        "import os, socket, sys; link = socket.socket(socket.AF_UNIX);"
        "os.setuid(65534); link.connect(sys.argv[1]); print(link.recv(9))"
    )
    # Not where supervisors have their sockets: whichever of this user starts meanwhile closes that folder again.
    with tempfile.TemporaryDirectory(prefix="mission-tui-", dir="/tmp") as house:
        path = Path(house, "sockets", "of-a-root", "operator.sock")
        async with served(tmp_path, at=path) as (desk, listener):
            listener.path.chmod(0o777)
            for folder in (path.parent, path.parent.parent, Path(house)):
                folder.chmod(0o755)
            stranger = await asyncio.to_thread(
                subprocess.run,
                [sys.executable, "-I", "-c", program, os.fspath(path)],
                capture_output=True,
                text=True,
            )
        assert stranger.stdout == "b''\n", stranger.stderr
        assert desk.gone == []
