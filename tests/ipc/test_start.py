"""A supervisor on demand: one, however many want it, and one clear sentence when there can be none."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from mission_tui.errors import NoSupervisorError, UsageError
from mission_tui.ipc import start
from mission_tui.ipc.async_client import AsyncConnection
from mission_tui.ipc.client import BUSY_S, Connection
from mission_tui.ipc.client_environment import captured_environ
from mission_tui.ipc.requests import GetSnapshot, Shutdown
from mission_tui.ipc.start import ensure_supervisor, operator_socket
from tests.full_disk import small_disk
from tests.ipc.serving import operator_path
from tests.ipc.serving import until as until_async
from tests.waiting import until


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A runs root whose supervisor is the stub; whatever was started is ended."""
    monkeypatch.setattr(start, "SUPERVISOR", "tests.ipc.stub_supervisor")
    made = tmp_path / "runs"
    made.mkdir()
    with operator_path(made):
        yield made
        try:
            with Connection.connect(made, start=False) as connection:
                connection.ask(lambda id_: Shutdown(id=id_))
        except NoSupervisorError:
            pass
        until(
            lambda: not [pid for pid, _, _ in started(made) if Path(f"/proc/{pid}").exists()], what="supervisors gone"
        )


def started(root: Path) -> list[tuple[int, int, str]]:
    """Process id, session and working folder of every process that was started for `root`."""
    lines = (root / "started").read_text().splitlines() if (root / "started").exists() else []
    facts = [line.split(" ", 2) for line in lines]
    return [(int(pid), int(session), cwd) for pid, session, cwd in facts]


def test_first_client_starts_it_and_the_second_finds_it(root: Path) -> None:
    """A connection without a supervisor makes one, in its own session and not in our folder; the next uses it."""
    for _ in range(2):
        with Connection.connect(root) as connection:
            assert connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot.revision == 1
    [(pid, session, cwd)] = started(root)
    assert connection.welcome.pid == pid
    assert (session, cwd) == (pid, "/")
    assert session != os.getsid(0)


def test_a_runs_root_is_seen_from_the_callers_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor works from `/`, where a relative path would be another one."""
    monkeypatch.chdir(root.parent)
    with Connection.connect(Path("runs")) as connection:
        assert connection.welcome.runs_root == str(root)


def test_fifty_clients_at_once_start_one(root: Path) -> None:
    """Fifty connections begun together are all served, by one process that was started once."""
    (root / "late").touch()

    def revision(_: int) -> int:
        with Connection.connect(root) as connection:
            return connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot.revision

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(revision, range(50))) == [1] * 50
    assert len(started(root)) == 1


def test_a_supervisor_that_dies_at_once_is_quoted(root: Path) -> None:
    """The last line of its log is the reason, cleaned; nobody waits out the patience for it."""
    (root / "broken").write_text("the lock file is \x1b[31mdamaged\x1b[0m\n\n")
    with pytest.raises(
        NoSupervisorError, match=r"ended at once; .*supervisor\.log ends with: the lock file is damaged$"
    ) as caught:
        ensure_supervisor(root, timeout_s=1000.0)
    assert caught.value.exit_code == 69


def test_one_that_could_write_no_word_names_the_full_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty log says nothing of why: there was no room for it."""
    (root / "broken").write_text("")
    monkeypatch.setattr(start, "_LEAST_ROOM_BYTES", 1 << 60)
    with pytest.raises(NoSupervisorError, match=r"ended at once: the disk of .*\.supervisor is full; free some space"):
        ensure_supervisor(root, timeout_s=1000.0)


def test_one_that_does_not_answer_in_time_is_an_error(root: Path) -> None:
    """With the time up the client says so; the supervisor may still come."""
    (root / "late").touch()
    with pytest.raises(NoSupervisorError, match="did not answer in time"):
        ensure_supervisor(root, timeout_s=0.1)
    ensure_supervisor(root)
    assert len(started(root)) <= 2


def test_a_slow_start_is_not_taken_for_silence(root: Path) -> None:
    """On a busy machine a start takes longer than an answer may; who starts one waits for it."""
    (root / "late").touch()
    with Connection.connect(root, timeout_s=0.2) as connection:
        assert connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot.revision == 1
    assert len(started(root)) == 1


def test_a_supervisor_that_stands_still_is_not_waited_for(root: Path) -> None:
    """It holds its lock and its socket, and computes nothing: the client says so when its own patience is over."""
    ensure_supervisor(root)
    pid = started(root)[0][0]
    os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(NoSupervisorError, match=f"does not answer.*`kill -CONT {pid}`"):
            Connection.connect(root, timeout_s=0.2)
        assert time.monotonic() - begun < BUSY_S / 2
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_supervisor_behind_another_tmp_is_named(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is held and no socket of it is here: who has the lock is said, and why that may be."""
    monkeypatch.setattr(start, "SUPERVISOR", "this")  # it ends in order, as ours does where the lock is held
    state = root / ".supervisor"
    state.mkdir(parents=True)
    (state / "lock").write_text(f"{os.getpid()}\n")
    with (state / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(
            NoSupervisorError, match=rf"process {os.getpid()} \(of user \d+\) is its supervisor.*another /tmp"
        ):
            ensure_supervisor(root, timeout_s=1.0)


def test_a_disk_without_inodes_is_named(tmp_path: Path) -> None:
    """(root) At whichever file they run out: a sentence that says so and what helps."""
    with small_disk(tmp_path / "disk", 8 << 20) as disk:
        (disk / "runs").mkdir()
        subprocess.run(["mount", "-o", "remount,nr_inodes=8", str(disk)], check=True)
        taken = [disk / str(number) for number in range(8)]
        with suppress(OSError):
            for path in taken:
                path.touch()
        for path in taken:
            path.unlink(missing_ok=True)
            with pytest.raises((UsageError, NoSupervisorError), match="inodes"):
                ensure_supervisor(disk / "runs", timeout_s=2.0)
            if (disk / "runs" / ".supervisor" / "supervisor.log").exists():
                return


def test_a_supervisor_that_was_killed_is_replaced(root: Path) -> None:
    """Its stale socket does not fool anybody."""
    with Connection.connect(root) as connection:
        first = connection.welcome.pid
    os.kill(first, 9)
    until(lambda: not Path(f"/proc/{first}").exists())
    assert operator_socket(root).exists()
    with Connection.connect(root) as connection:
        assert connection.welcome.pid != first


async def test_the_screen_starts_one_too_and_again_after_it_left(root: Path) -> None:
    """The asynchronous client starts a supervisor without blocking its loop, and another when that one is gone."""
    connection = AsyncConnection(root)
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    assert (await connection.ask(lambda id_: GetSnapshot(id=id_))).snapshot.revision == 1
    assert ticks > 3
    await connection.ask(lambda id_: Shutdown(id=id_))
    await until_async(lambda: not connection.connected)
    assert (await connection.ask(lambda id_: GetSnapshot(id=id_))).snapshot.revision == 1
    assert len(started(root)) == 2
    ticking.cancel()
    await connection.close()


def test_a_runs_root_that_cannot_be_is_a_usage_error(tmp_path: Path) -> None:
    """A file in the way, a name that is no text: the path is named, exit code 2, nothing is started."""
    (tmp_path / "file").write_text("mine")
    for bad in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nowhere"), tmp_path / "\udcff"):
        with pytest.raises(UsageError, match="cannot be used") as caught:
            ensure_supervisor(bad)
        assert caught.value.exit_code == 2
        assert str(tmp_path) in str(caught.value) or "/proc/nowhere" in str(caught.value)


@pytest.mark.skipif(os.getuid() == 0, reason="root can write everywhere")
def test_a_runs_root_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    """A folder without write permission is named before anything is started."""
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match=f"{tmp_path} cannot be used: Permission denied"):
        ensure_supervisor(tmp_path)


def test_a_run_gets_the_whole_environment_of_its_client() -> None:
    """Secrets and unknown variables too; only what belongs to the client's own process, terminal or run stays."""
    wanted = {
        "PATH": "/bin", "HOME": "/h", "LANG": "C", "MY_OWN": "anything", "AWS_SECRET_ACCESS_KEY": "k", "BASH_ENV": "/b",
        "LD_PRELOAD": "/l.so", "SSH_AUTH_SOCK": "/s", "MISSION_TUI_RUNS": "/runs", "path": "x", "EMPTY": "",
        "BASH_FUNC_go%%": "() {  true\n}", "TERM": "xterm",
    }  # fmt: skip
    unwanted = {
        "NOTIFY_SOCKET": "/n", "LISTEN_FDS": "1", "WATCHDOG_USEC": "9", "INVOCATION_ID": "i", "JOURNAL_STREAM": "1:2",
        "TMUX": "/t", "STY": "s", "COLUMNS": "80", "LINES": "24", "SSH_TTY": "/dev/pts/1", "SHLVL": "2", "OLDPWD": "/o",
        "PWD": "/p", "_": "/bin/x", "MISSION_TUI_NONCE": "n", "MISSION_TUI_LEASE_FD": "3", "BROKEN": "\udcff",
    }  # fmt: skip
    captured = captured_environ(wanted | unwanted)
    assert captured.pop("MISSION_TUI_COMMAND").split()[0] == "mission-tui"
    assert captured == wanted
