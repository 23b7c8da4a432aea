"""Telling processes apart, and signalling only the one that was meant."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mission_tui.keeper.ladder import LATELY_S, OomWatch, descendants, oom_kills, pidfd_inode, send
from mission_tui.procfs import Stat, boot_id, read_stat, wait_channel
from tests.waiting import until

NS_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until it is told to end."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def grandchild() -> Iterator[Stat]:
    """A child of our child, in a session of its own."""
    script = "import subprocess; subprocess.Popen(['/bin/sleep', '60'], start_new_session=True).wait()"
    child = subprocess.Popen([sys.executable, "-c", script])

    def asleep() -> Stat | None:
        found = [process for process in descendants(os.getpid()) if process.parent == child.pid]
        return found[0] if found and found[0].session == found[0].pid and found[0].state == "S" else None

    process = until(asleep)
    assert process is not None
    yield process
    send(process, signal.SIGKILL)
    child.wait()


def seen(child: subprocess.Popen[bytes]) -> Stat:
    process = read_stat(child.pid)
    assert process is not None
    return process


def test_a_name_full_of_brackets_does_not_confuse_the_parser() -> None:
    """A process may call itself `) R 1 1 (` with a newline; its parent and session are still read right."""
    rename = 'open("/proc/self/comm", "w").write(") R 1 1 (\\n"); print(flush=True); input()'
    child = subprocess.Popen([sys.executable, "-c", rename], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    process = read_stat(child.pid)
    assert b") R 1 1 (" in Path(f"/proc/{child.pid}/stat").read_bytes()
    assert process is not None
    assert (process.parent, process.session) == (os.getpid(), os.getsid(0))
    assert process.start_time > 0
    child.communicate(b"\n")


def test_nobody_has_an_unused_number(child: subprocess.Popen[bytes]) -> None:
    """A process that was waited for is None, and sending to it says so."""
    process = seen(child)
    child.kill()
    child.wait()
    assert read_stat(child.pid) is None
    assert send(process, signal.SIGTERM) is False
    assert pidfd_inode(child.pid) is None


def test_a_verified_process_gets_its_signal(child: subprocess.Popen[bytes]) -> None:
    """The right process is signalled, once."""
    assert send(seen(child), signal.SIGTERM) is True
    assert child.wait(5) == -signal.SIGTERM


def test_a_stranger_with_the_number_is_never_signalled(child: subprocess.Popen[bytes]) -> None:
    """Another start time under the same number means: not the one that was meant."""
    assert send(seen(child)._replace(start_time=1), signal.SIGKILL) is False
    assert child.poll() is None


def test_a_stranger_of_the_same_tick_is_never_signalled(grandchild: Stat) -> None:
    """With the same number and start time the parent decides: it must be the one seen before, or ourselves."""
    assert send(grandchild._replace(parent=1), signal.SIGKILL) is False
    assert read_stat(grandchild.pid) == grandchild
    assert send(grandchild, signal.SIGKILL) is True


def test_a_reused_number_is_told_apart(child: subprocess.Popen[bytes]) -> None:
    """An innocent process that really got the number of a dead one survives what was meant for the dead one."""
    process = seen(child)
    child.kill()
    child.wait()

    def reuse() -> subprocess.Popen[bytes] | None:
        try:
            NS_LAST_PID.write_text(str(process.pid - 1))
        except OSError:  # its mode lets anybody write, the kernel does not
            pytest.skip("needs root to choose the next process number")
        innocent = subprocess.Popen(["/bin/sleep", "60"])
        now = read_stat(innocent.pid)
        if innocent.pid == process.pid and now is not None and now.start_time != process.start_time:
            return innocent
        innocent.kill()
        innocent.wait()
        return None

    innocent = until(reuse, what="the number was handed out again")
    assert innocent is not None
    assert send(process, signal.SIGKILL) is False
    assert innocent.poll() is None
    innocent.kill()
    innocent.wait()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_without_pidfds_the_check_still_holds(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """On a kernel or in a sandbox without pidfds strangers stay safe and the right one is still reached."""

    def refuse(pid: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    process = seen(child)
    assert pidfd_inode(child.pid) is None
    assert send(process._replace(start_time=1), signal.SIGKILL) is False
    assert send(process, signal.SIGTERM) is True
    assert child.wait(5) == -signal.SIGTERM


def test_the_inode_of_a_process_is_its_own(child: subprocess.Popen[bytes]) -> None:
    """Where the kernel numbers pidfds, the number is stable for one process and another for another process."""
    inode = pidfd_inode(child.pid)
    assert inode == pidfd_inode(child.pid)
    assert inode is None or inode != pidfd_inode(os.getpid())


def test_descendants_are_found_at_any_depth(grandchild: Stat) -> None:
    """A grandchild in a session of its own is below us, and so is its parent; we are not below ourselves."""
    below = {process.pid for process in descendants(os.getpid())}
    assert {grandchild.pid, grandchild.parent} <= below
    assert os.getpid() not in below


@pytest.mark.parametrize(
    ("line", "file", "text"),
    [
        ("0::/job", "job/memory.events", "low 0\noom 4\noom_kill 3\n"),
        ("4:memory:/job", "memory/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
        ("4:cpu,memory:/not/mounted", "memory/memory.oom_control", "under_oom 0\noom_kill 3\n"),
        ("4:memory:/old", "memory/old/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
    ],
)
def test_kills_for_memory_are_counted_by_both_versions_of_groups(
    tmp_path: Path, line: str, file: str, text: str
) -> None:
    """By the group's own file; a kernel that does not count them says nothing."""
    (tmp_path / "own").write_text(f"5:pids:/elsewhere\n{line}\n")
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(text)
    assert oom_kills(tmp_path, tmp_path / "own") == (3 if "oom_kill 3" in text else None)


def test_a_kill_for_memory_of_hours_ago_is_no_cause_now() -> None:
    """What the kernel counted within the last seconds counts; what it counted before, of another run, does not."""
    count = 4
    watch = OomWatch(lambda: count)
    watch.look(0.0)
    assert not watch.lately()
    count = 5
    assert watch.lately()
    watch.look(0.5)
    assert watch.lately()
    watch.look(LATELY_S)
    assert watch.lately()
    watch.look(2 * LATELY_S)
    assert not watch.lately()


def test_small_facts_are_read() -> None:
    """The boot id is a UUID, a wait channel is text even for nobody, and OOM kills are a count or unknown."""
    assert len(boot_id()) == 36
    assert wait_channel(2**22 + 1) == ""
    count = oom_kills()
    assert count is None or count >= 0
