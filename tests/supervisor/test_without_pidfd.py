"""Where `pidfd_open` is missing or refused (K6): everything works by looking before each signal, or asks the user."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from mission_tui.errors import UsageError
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Resume
from mission_tui.supervisor.host.identity import NO_PIDFD, Process, open_process
from tests.supervisor.conftest import Lab, living
from tests.supervisor.verbs.test_clean import clean, orphaned
from tests.waiting import until

STRACE = shutil.which("strace")
needs_strace = pytest.mark.skipif(STRACE is None, reason="needs strace, which refuses system calls for us")


def refusing(error: str) -> tuple[str, ...]:
    """The words before a command that make every `pidfd_open` below it fail."""
    assert STRACE is not None
    return (
        STRACE,
        "-D",
        "-f",
        "-qq",
        "-o",
        os.devnull,
        "-e",
        "trace=pidfd_open",
        "-e",
        f"inject=pidfd_open:error={error}",
    )


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_a_run_lives_and_ends_without_pidfds(idle_lab: Lab, error: str) -> None:
    """Adopted by the next supervisor, crashed, resumed and killed; nothing of it is left."""
    lab = idle_lab
    lab.under = refusing(error)
    lab.start()
    (run,) = lab.launch(STUB_WORKERS="2")
    lab.running(run, 2)
    lab.kill_supervisor()
    lab.start()
    view = lab.running(run, 3)
    assert view.flags == ()
    lab.act("checkpoint", run)
    trainer = lab.wait(run, lambda view: view.last_checkpoint).pids.trainer
    assert trainer is not None
    os.kill(trainer, signal.SIGSEGV)
    assert lab.ended(run).kind == "crash"
    assert isinstance(lab.ask(lambda id_: Resume(id=id_, run=run)), Accepted)
    lab.running(run)
    family = lab.family(run)
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"
    until(lambda: not living(family))


@pytest.mark.slow
@needs_strace
def test_what_a_dead_run_left_is_cleaned_without_pidfds(idle_lab: Lab) -> None:
    """The workers of a run whose keeper and trainer were killed are listed, removed, and gone when the answer comes."""
    lab = idle_lab
    lab.under = refusing("ENOSYS")
    lab.start()
    (run,) = lab.launch(STUB_WORKERS="2")
    workers = orphaned(lab, run)
    listed = clean(lab)
    assert {(stale.pid, stale.verdict) for stale in listed} == {(worker.pid, "ours") for worker in workers}
    removed = clean(lab, *(stale.key for stale in listed))
    assert all(stale.removed for stale in removed)
    assert not living(workers)


@pytest.mark.slow
@needs_strace
def test_who_cannot_be_verified_is_shown_and_not_touched(idle_lab: Lab) -> None:
    """Recorded with a pidfd's inode and met without pidfds, its start time alone proves nothing: the user is asked."""
    lab = idle_lab
    lab.start()
    (run,) = lab.launch()
    pids = lab.running(run, 2).pids
    lab.kill_supervisor()
    identity = lab.dir(run).attempt(1).identity
    recorded = identity.read_bytes()
    # As a kernel with pidfs has it recorded; this one may have none.
    identity.write_bytes(re.sub(rb'"pidfd_inode": [^,\n]*', b'"pidfd_inode": 7', recorded))
    lab.under = refusing("ENOSYS")
    lab.start()
    view = lab.wait(run, lambda view: "unverifiable" in view.flags)
    assert view.state == "running"
    with pytest.raises(UsageError, match=f"keeper {pids.keeper}, trainer {pids.trainer}"):
        lab.act("kill", run)
    assert pids.trainer is not None
    assert psutil.pid_exists(pids.trainer)
    lab.kill_supervisor()
    identity.write_bytes(recorded)
    lab.under = ()
    lab.start()
    assert lab.running(run, (view.update or 0) + 1).flags == ()
    lab.act("kill", run)
    assert lab.ended(run).outcome == "killed"


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that sleeps, in a group of its own."""
    process = subprocess.Popen(["sleep", "60"], process_group=0)
    yield process
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EPERM])
def test_a_stranger_with_the_same_number_is_not_signalled(
    child: subprocess.Popen[bytes], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start time is compared before each signal, to one process or to a group."""

    def refuse(_pid: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    process = open_process(child.pid)
    assert process is not None
    assert process.fd == NO_PIDFD
    stranger = Process(process.pid, NO_PIDFD, process.start_time - 1)
    assert not stranger.alive()
    assert not stranger.send(signal.SIGKILL)
    assert not stranger.send_to_group(signal.SIGKILL)
    assert child.poll() is None
    assert process.send_to_group(signal.SIGTERM)
    assert child.wait(5) == -signal.SIGTERM
    assert not process.send(signal.SIGTERM)


def test_other_errors_are_not_taken_for_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of descriptors is no reason to trust a number."""

    def full(_pid: int) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", full)
    with pytest.raises(OSError, match="Too many open files"):
        open_process(os.getpid())
