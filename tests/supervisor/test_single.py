"""One supervisor per runs root, how it leaves, and what it does about its sockets."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from mission_tui.errors import NoSupervisorError
from mission_tui.paths import socket_dir
from mission_tui.supervisor import clock
from tests.supervisor.conftest import Lab
from tests.supervisor.simulated_lab import SimulatedLab
from tests.waiting import until


@pytest.mark.slow
def test_of_ten_at_once_one_stays(idle_lab: Lab) -> None:
    """Nine exit 0 without a word; the one that stays answers."""
    started = [idle_lab.spawn() for _ in range(10)]
    until(idle_lab.answers, 15)
    until(lambda: sum(process.poll() is None for process in started) == 1, 15)
    assert {process.returncode for process in started} == {0, None}
    (idle_lab.supervisor,) = [process for process in started if process.returncode is None]


@pytest.mark.slow
def test_the_lock_dies_with_its_holder(lab: Lab) -> None:
    """Right after SIGKILL, with runs alive, the lock is free: no child inherited it."""
    for run in lab.launch(2):
        lab.running(run)
    lab.kill_supervisor()
    with (lab.root / ".supervisor" / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.slow
def test_a_deleted_socket_folder_is_made_again(lab: Lab) -> None:
    """Somebody cleans /tmp: within seconds clients connect again and the trainers are back too."""
    (run,) = lab.launch()
    lab.running(run)
    shutil.rmtree(socket_dir(lab.root))
    until(lab.answers, 5)
    lab.running(run, (lab.view(run).update or 0) + 2)


@pytest.mark.slow
def test_what_stands_where_the_sockets_belong_is_outlived(lab: Lab) -> None:
    """A link in place of the folder is not followed and stops no clock: once it is gone, clients connect again."""
    (run,) = lab.launch()
    lab.running(run)
    folder, elsewhere = socket_dir(lab.root), lab.root.parent / "elsewhere"
    elsewhere.mkdir()
    shutil.rmtree(folder)
    folder.symlink_to(elsewhere)
    log = lab.root / ".supervisor" / "supervisor.log"
    until(lambda: "is not a folder" in log.read_text(encoding="utf-8"), 8)
    folder.unlink()
    until(lab.answers, 8)
    assert list(elsewhere.iterdir()) == []
    lab.running(run, (lab.view(run).update or 0) + 2)


def test_what_lasts_is_logged_once(
    sim: SimulatedLab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A socket that cannot be made and a clock that fails for hours fill no disk with tracebacks, and end nothing."""
    tries: list[int] = []

    class Blocked:
        path = Path("operator.sock")

        async def restore(self) -> bool:
            tries.append(1)
            raise NoSupervisorError("there is a link where the sockets belong")

    def stale(root: Path) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    sim.listeners += (Blocked(), Blocked())
    sim.sleep(100.0)
    assert len(tries) >= 190
    monkeypatch.setattr(clock, "check_private", stale)
    sim.sleep(100.0)
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert said == [
        "listening at operator.sock failed: there is a link where the sockets belong",
        "a beat of the clock failed: [Errno 116] Stale file handle",
    ]
    assert "listening at operator.sock" in {it.duty for it in sim.snapshot().failed_duties}


def test_a_folder_that_takes_no_sockets_is_named(idle_lab: Lab) -> None:
    """As on a full /tmp: the log's last line, which a client shows, is a sentence with the folder."""
    folder = socket_dir(idle_lab.root)
    (folder / "root" / "something").mkdir(parents=True)
    assert idle_lab.spawn().wait(10) == 1
    log = (idle_lab.root / ".supervisor" / "supervisor.log").read_text(encoding="utf-8")
    assert f"cannot make the sockets in {folder}: " in log.splitlines()[-1]
    shutil.rmtree(folder)


def test_an_idle_supervisor_leaves(idle_lab: Lab) -> None:
    """No run, no client: gone after the idle time, sockets removed, exit code 0."""
    process = idle_lab.start(MISSION_TUI_IDLE_S="0.5")
    assert process.wait(10) == 0
    assert not list(socket_dir(idle_lab.root).glob("*.sock"))


@pytest.mark.slow
def test_a_time_limit_that_is_none_is_refused_by_name(idle_lab: Lab) -> None:
    """The log's last line, which a client shows, names the variable and what to say instead; nothing is served."""
    for name, word, instead in (
        ("MISSION_TUI_IDLE_S", "5 min", "say 300"),
        ("MISSION_TUI_IDLE_S", "nan", "say 300"),
        ("MISSION_TUI_START_S", "-1", "say 0"),
    ):
        assert idle_lab.spawn(**{name: word}).wait(10) == 2
        log = (idle_lab.root / ".supervisor" / "supervisor.log").read_text(encoding="utf-8")
        said = log.splitlines()[-1]
        assert f"{name} = '{word}'" in said
        assert said.endswith(instead)
        assert not idle_lab.answers()


@pytest.mark.slow
def test_a_live_run_keeps_the_supervisor(idle_lab: Lab) -> None:
    """With a run alive it stays beyond the idle time, and leaves after the run has ended."""
    process = idle_lab.start(MISSION_TUI_IDLE_S="1")
    (run,) = idle_lab.launch()
    beyond = idle_lab.running(run, 50)
    assert process.poll() is None
    assert beyond.state == "running"
    idle_lab.act("kill", run)
    assert process.wait(15) == 0


@pytest.mark.slow
def test_sigterm_leaves_runs_alone_and_sighup_is_ignored(lab: Lab) -> None:
    """HUP changes nothing; TERM ends the supervisor with 0 and the trainer goes on."""
    (run,) = lab.launch()
    view = lab.running(run)
    assert lab.supervisor is not None
    os.kill(lab.supervisor.pid, signal.SIGHUP)
    assert lab.answers()
    lab.supervisor.terminate()
    assert lab.supervisor.wait(5) == 0
    size = lab.dir(run).metrics.stat().st_size
    until(lambda: lab.dir(run).metrics.stat().st_size > size)
    lab.start()
    assert lab.wait(run, lambda view: view.connected).pids.trainer == view.pids.trainer


def test_the_runs_root_is_kept_out_of_git(lab: Lab) -> None:
    """The root's .gitignore hides everything but itself."""
    assert (lab.root / ".gitignore").read_text() == "*\n!.gitignore\n"
    subprocess.run(["git", "init", "-q", lab.root], check=True)
    done = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=lab.root, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["??", ".gitignore"]


@pytest.mark.slow
def test_a_supervisor_whose_root_was_replaced_leaves(lab: Lab) -> None:
    """The runs root is removed and made again: the old supervisor goes, a new one serves, there are never two."""
    first = lab.supervisor
    assert first is not None
    shutil.rmtree(lab.root)
    assert first.wait(5) == 0
    lab.root.mkdir()
    lab.start()
    assert lab.snapshot().runs == ()
