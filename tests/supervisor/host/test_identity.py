"""The three-valued verdict on a process, against real processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from mission_tui.procfs import boot_id, read_stat
from mission_tui.supervisor.host.identity import open_process, verify
from tests.waiting import until


@dataclass(frozen=True)
class Record:
    """What was recorded of a process."""

    pid: int
    start_time: int
    pidfd_inode: int | None


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process to look at, in a session and group of its own."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def record(pid: int) -> Record:
    """The truth about a living process."""
    stat, process = read_stat(pid), open_process(pid)
    assert stat is not None
    assert process is not None
    inode = os.fstat(process.fd).st_ino
    process.close()
    return Record(pid, stat.start_time, inode)


def test_the_recorded_process_is_ours(sleeper: subprocess.Popen[bytes]) -> None:
    """Everything matches: ours, held alive, and a signal reaches it."""
    verification = verify(record(sleeper.pid), boot_id())
    assert verification.verdict == "ours"
    assert verification.process is not None
    assert verification.process.alive()
    assert verification.process.send(signal.SIGTERM)
    assert sleeper.wait(5) == -signal.SIGTERM
    assert not verification.process.alive()
    assert not verification.process.send(signal.SIGTERM)
    verification.process.close()


@pytest.mark.parametrize("field", ["start_time", "pidfd_inode"])
def test_any_difference_makes_a_stranger(sleeper: subprocess.Popen[bytes], field: str) -> None:
    """Same number, another start time or pidfd inode: never ours."""
    true = record(sleeper.pid)
    false = replace(true, **{field: getattr(true, field) + 1})
    assert verify(false, boot_id()).verdict == "stranger"


def test_an_unrecorded_inode_is_not_compared(sleeper: subprocess.Popen[bytes]) -> None:
    """On kernels without pidfs the start time decides."""
    true = record(sleeper.pid)
    verification = verify(Record(true.pid, true.start_time, None), boot_id())
    assert verification.verdict == "ours"
    assert verification.process is not None
    verification.process.close()


def test_another_boot_is_a_stranger(sleeper: subprocess.Popen[bytes]) -> None:
    """No pid survives a restart of the machine."""
    assert verify(record(sleeper.pid), "another boot").verdict == "stranger"


def test_a_zombie_is_gone() -> None:
    """A process that has exited but was not reaped is not ours any more."""
    process = subprocess.Popen(["sleep", "60"])
    recorded = record(process.pid)
    process.kill()
    until(lambda: (stat := read_stat(process.pid)) is not None and stat.state == "Z")
    assert verify(recorded, boot_id()).verdict == "stranger"
    process.wait()
    assert verify(recorded, boot_id()).verdict == "stranger"


def test_what_cannot_be_read_is_unverifiable(sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel or sandbox that refuses pidfds leaves the question open, and nothing is signalled."""

    def refused(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    recorded = record(sleeper.pid)
    monkeypatch.setattr(os, "pidfd_open", refused)
    verification = verify(recorded, boot_id())
    assert (verification.verdict, verification.process) == ("unverifiable", None)


def test_a_nasty_process_name_is_parsed(tmp_path: os.PathLike[str]) -> None:
    """A name with brackets, spaces and a newline shifts no field."""
    program = os.path.join(tmp_path, ") R 1 1 (\n")  # noqa: PTH118 - a path with a newline
    os.symlink("/bin/sleep", program)  # noqa: PTH211
    process = subprocess.Popen([program, "60"])
    try:
        stat = read_stat(process.pid)
        assert stat is not None
        assert (stat.parent, stat.session) == (os.getpid(), os.getsid(0))
    finally:
        process.kill()
        process.wait()


def test_a_group_is_reached_through_its_leader(sleeper: subprocess.Popen[bytes]) -> None:
    """A signal to the group ends the leader and its child."""
    leader = subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert leader.stdout is not None
    child = int(leader.stdout.readline())
    held = open_process(leader.pid)
    assert held is not None
    assert held.send_to_group(signal.SIGKILL)
    leader.wait(5)
    leader.stdout.close()
    until(lambda: (stat := read_stat(child)) is None or stat.state == "Z")
    held.close()
    assert sleeper.poll() is None
