"""Faults of terminals (rows T) that need the real program beside a real supervisor."""

from __future__ import annotations

import os
import pty
import secrets
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import GetSnapshot, Watch
from tests.e2e.terminal import Terminal
from tests.supervisor.conftest import Lab
from tests.waiting import until

pytestmark = pytest.mark.slow


SCREEN = [sys.executable, "-m", "mission_tui"]
STALL_S = float(os.environ.get("FAULTS_STALL_S", "6"))
"""A minute in a campaign."""


@contextmanager
def screen(lab: Lab, *words: str) -> Iterator[Terminal]:
    """The program, or other words, in a terminal of its own."""
    environ = lab.environ | {"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    terminal = Terminal(words or SCREEN, cwd=lab.root, environ=environ)
    try:
        yield terminal
    finally:
        terminal.end()


def named(lab: Lab) -> tuple[str, str]:
    """A run at work, its id and the name that screens show."""
    (run,) = lab.launch()
    return run, lab.running(run).name


@pytest.mark.timeout(90 + STALL_S)
def test_t3_a_terminal_that_nobody_reads_slows_nobody(lab: Lab) -> None:
    """Ctrl-S on the line: the supervisor answers at once and does not grow, the run trains on; then all is drawn."""
    run, _ = named(lab)
    master, slave = pty.openpty()
    program = subprocess.Popen(
        ["setsid", "--ctty", *SCREEN],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=lab.root,
        env=lab.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
    )
    os.close(slave)
    try:
        assert select.select([master], [], [], 20)[0]
        assert lab.supervisor is not None
        supervisor = psutil.Process(lab.supervisor.pid)
        before, size = lab.view(run).update or 0, supervisor.memory_info().rss
        with Connection.connect(lab.root, start=False) as client:
            began = time.monotonic()
            while time.monotonic() - began < STALL_S:
                client.ask(lambda id_: GetSnapshot(id=id_))
                time.sleep(0.02)
        lab.running(run, before + 20)
        assert supervisor.memory_info().rss < size + (16 << 20)
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
        os.close(master)


@pytest.mark.tmux
@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.timeout(90)
def test_t7_a_screen_in_tmux_is_whole_after_detach_and_attach(lab: Lab) -> None:
    """Detached while it draws, attached again in another terminal: the same run, drawn anew."""
    _, name = named(lab)
    tmux = ["tmux", "-L", f"faults-{secrets.token_hex(4)}"]
    try:
        with screen(lab, *tmux, "-u", "new-session", " ".join(SCREEN)) as terminal:
            terminal.shows(name, 30)
            subprocess.run([*tmux, "detach-client"], check=True)
            assert terminal.process.wait(10) == 0
        with screen(lab, *tmux, "-u", "attach") as again:
            again.shows(name, 30)
            again.press("q")
            again.process.wait(15)
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)


@pytest.mark.timeout(90)
def test_t8_a_screen_that_was_stopped_shows_the_present_when_it_goes_on(lab: Lab) -> None:
    """SIGSTOP for a while, in which a run ends, then SIGCONT: the newest state at once; SIGKILL changes nothing."""
    run, name = named(lab)
    with screen(lab) as terminal:
        terminal.shows(name, 30)
        os.kill(terminal.process.pid, signal.SIGSTOP)
        lab.running(run, (lab.view(run).update or 0) + 50)
        lab.act("stop", run)
        lab.ended(run)
        os.kill(terminal.process.pid, signal.SIGCONT)
        terminal.shows("stopped", 20)
        other, _ = named(lab)
        terminal.process.kill()
        terminal.process.wait(5)
    lab.running(other, (lab.view(other).update or 0) + 5)


@pytest.mark.timeout(60)
def test_t10_of_twenty_clients_one_that_floods_and_one_that_sleeps_cost_the_others_nothing(lab: Lab) -> None:
    """Eighteen watch, one never reads, one asks without end: every watcher hears on, and the run trains on."""
    run, _ = named(lab)
    before = lab.view(run).update or 0
    watchers = [Connection.connect(lab.root, start=False) for _ in range(18)]
    with Connection.connect(lab.root, start=False) as deaf, Connection.connect(lab.root, start=False) as flood:
        deaf.ask(lambda id_: Watch(id=id_))
        seen = [iter(client.stream(lambda id_: Watch(id=id_))) for client in watchers]
        for snapshots in seen:
            next(snapshots)
        began = time.monotonic()
        while time.monotonic() - began < 3.0:
            flood.ask(lambda id_: GetSnapshot(id=id_))
        for snapshots in seen:
            next(snapshots)
            next(snapshots)
    for client in watchers:
        client.close()
    lab.running(run, before + 10)
    until(lambda: lab.view(run).connected)
