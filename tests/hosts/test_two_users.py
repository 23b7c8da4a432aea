"""Two users of this machine on one screen, through a real sshd; one of them behind a line of 300 ms and 10 KB/s."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.terminal import Terminal
from tests.hosts import second_user
from tests.hosts.conftest import config_file
from tests.hosts.slow_line import SlowLine, slow_line
from tests.hosts.sshd import Sshd, lacking, running_sshd
from tests.shell import REPOSITORY, STUB, TINY, Shell
from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(150)]
ROUND_TRIP_S, BYTES_PER_S = 0.3, 10_000.0
KEYS = 24
UNFELT_S = 0.05


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that other users may enter, which those of pytest are not."""
    made = Path(tempfile.mkdtemp(prefix="mission-tui-users-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def users(folder: Path) -> Iterator[Sshd]:
    """An sshd that lets both users in."""
    if why := lacking() or second_user.lacking():
        pytest.skip(why)
    home = folder / "home"
    (home / ".config/mission-tui/presets").mkdir(parents=True)
    (home / ".config/mission-tui/presets/tiny.toml").write_text(TINY)
    settings = {
        "HOME": home,
        "MISSION_TUI_RUNS": home / "runs",
        "MISSION_TUI_LEDGER": home,
        "MISSION_TUI_TRAINER": STUB,
        "MISSION_TUI_PRELOAD": 0,
        "PYTHONPATH": REPOSITORY,
        "STUB_UPDATE_S": 0.2,
        "LC_ALL": "C.UTF-8",
    }
    words = ["env", "-C", str(home), *(f"{key}={value}" for key, value in settings.items())]
    program = home / "mission-tui"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([*words, sys.executable, "-m", "mission_tui"])} "$@"\n')
    program.chmod(0o755)
    for path in (home, *home.rglob("*")):
        os.chown(path, second_user.UID, second_user.UID)
    before = second_user.as_machine(folder, home)
    with running_sshd(folder / "sshd", before=before, mode=0o755) as sshd:
        yield sshd
    for process in psutil.process_iter(["uids"]):
        if process.info["uids"] and process.info["uids"].real == second_user.UID:
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def line(users: Sshd) -> Iterator[SlowLine]:
    """The way to the second user."""
    with slow_line(users.port, round_trip_s=ROUND_TRIP_S, bytes_per_s=BYTES_PER_S) as made:
        yield made


def cursor(terminal: Terminal) -> int:
    """The row with the cursor; -1 for none."""
    rows = terminal.text().split("\n")
    return next((at for at, row in enumerate(rows) if row.startswith(">")), -1)


def pressed_s(terminal: Terminal, key: str) -> float:
    """How long after `key` the cursor stands elsewhere."""
    before, pressed_t = cursor(terminal), time.perf_counter()
    terminal.press(key)
    until(lambda: cursor(terminal) not in (before, -1), 20.0, f"{key} moves the cursor:\n{terminal.text()}")
    return time.perf_counter() - pressed_t


def her_supervisor() -> int | None:
    """The process of the second user's supervisor."""
    for process in psutil.process_iter(["uids", "cmdline"]):
        uids, words = process.info["uids"], process.info["cmdline"] or []
        if uids and uids.real == second_user.UID and "mission_tui.supervisor" in words:
            return process.pid
    return None


def kill_her_supervisor() -> int:
    """As a machine that is short of memory would; the process that it was."""
    pid = her_supervisor()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def test_two_users_on_one_screen_and_a_slow_line_that_breaks(
    quick: Shell, users: Sshd, line: SlowLine, folder: Path
) -> None:
    """Keys never wait for the slow one, also while it loads; it is said when it is lost, and comes back by itself."""
    home = folder / "home"
    config = users.folder / "config"
    config.write_text(f"Host hers\n  Port {line.port}\n  User {second_user.NAME}\n{config.read_text()}")
    config_file(quick).write_text(f'[hosts]\nhers = {{command = "{home}/mission-tui"}}\n')
    quick.environ["MISSION_TUI_SSH"] = users.ssh
    for at in range(3):
        quick.launch("tiny", "--name", f"near{at}")
    # On a busy machine a supervisor may take longer to start than the first verb waits for it.
    until(lambda: quick("--host", "hers", "status", timeout_s=60.0).returncode == 0, 60.0, "her supervisor answers")
    made = quick("--host", "hers", "launch", "tiny", "--name", "far", timeout_s=60.0)
    assert made.returncode == 0, made.stderr
    (run,) = (home / "runs").glob("2*-far-*")
    assert run.stat().st_uid == second_user.UID

    words = [sys.executable, "-m", "mission_tui", "--host", "all"]
    terminal = Terminal(words, cwd=quick.cwd, environ=quick.environ)
    try:
        terminal.shows("near2", 30.0)
        # The other machine is only being reached for: ssh alone takes a second and more over this line.
        took_s = [pressed_s(terminal, key) for key in ("down", "up") * (KEYS // 2)]
        terminal.shows("hers:far", 60.0)
        took_s += [pressed_s(terminal, key) for key in ("down", "up") * (KEYS // 2)]
        beside_s = statistics.median(took_s)

        line.cut()
        terminal.shows("hers has not answered", 30.0, beside="no link")
        alone_s = statistics.median(pressed_s(terminal, key) for key in ("down", "up") * (KEYS // 2))
        # How long a key takes is the machine's; what the line adds to it nobody feels.
        assert beside_s < alone_s + UNFELT_S, took_s
        for _ in range(3):
            pressed_s(terminal, "down")
        terminal.press("s")
        terminal.shows("was asked nothing", 5.0)
        line.mend()
        until(lambda: "no link" not in terminal.text(), 60.0, "the other machine is back")
        killed = kill_her_supervisor()
        until(lambda: her_supervisor() not in (None, killed), 60.0, "her supervisor was started again")
        until(lambda: "no link" not in terminal.text(), 60.0, "what it followed is back")
        terminal.press("s")
        until(lambda: "stopped" in terminal.text(), 60.0, "the run of the other user is stopped")
    finally:
        terminal.end()
        quick("--host", "hers", "supervisor", "stop", "--with-runs", timeout_s=60.0)
