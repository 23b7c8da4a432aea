"""Runs with a real keeper over a scripted stub trainer; whatever a test leaves alive is ended after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mission_tui.records.runs.attempt import ExitRecord, Identity, LaunchOrder, read_exit, read_identity
from mission_tui.records.runs.layout import AttemptDir, RunDir
from tests.supervisor.foreign import write_launch
from tests.waiting import until

CHECKOUT = Path(__file__).parents[2]
PREAMBLE = """
import os, signal, sys, time
from pathlib import Path

def ready(*pids):
    Path("ready.part").write_text(" ".join(map(str, pids)))
    os.rename("ready.part", "ready")

def wait_for_ever():
    while True:
        signal.pause()
"""


class KeptRun:
    """One run directory; its stub trainers run in it and call `ready(pids...)` when a test may go on."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.run = RunDir(path)
        self.nonce = os.urandom(8).hex()
        self.keepers: list[subprocess.Popen[bytes]] = []

    def order(self, script: str = "wait_for_ever()", attempt: int = 1, **changes: Any) -> AttemptDir:
        """Write `launch.json` for a stub that runs `script`; `changes` replace fields of the order."""
        folder = self.run.attempt(attempt)
        folder.path.mkdir(parents=True)
        stub = self.run.path / f"stub{attempt}.py"
        stub.write_text(PREAMBLE + textwrap.dedent(script))
        fields: dict[str, Any] = {
            "run": self.run.id,
            "attempt": attempt,
            "argv": (sys.executable, "-I", "-S", str(stub)),
            "cwd": str(self.run.path),
            "env": {"MISSION_TUI_NONCE": self.nonce, "PYTHONUNBUFFERED": "1"},
            "nonce": self.nonce,
        }
        write_launch(folder.launch, LaunchOrder(**{**fields, **changes}))
        return folder

    def keep(self, attempt: int = 1, *more: str, own_session: bool = True) -> subprocess.Popen[bytes]:
        """Start the keeper of an attempt that was ordered, as the supervisor does, or with one word more as a node."""
        keeper = subprocess.Popen(
            [sys.executable, "-m", "mission_tui.keeper", str(self.run.path), str(attempt), *more],
            cwd=CHECKOUT,
            start_new_session=own_session,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.keepers.append(keeper)
        return keeper

    def start(self, script: str = "ready()\nwait_for_ever()", **changes: Any) -> subprocess.Popen[bytes]:
        """Order attempt 1, start its keeper and wait until the stub is ready and the identity is written."""
        folder = self.order(script, **changes)
        keeper = self.keep()
        until(lambda: (self.run.path / "ready").exists() and folder.identity.exists(), what="stub trainer ready")
        return keeper

    def told_pids(self) -> list[int]:
        """The processes that the stub named when it was ready."""
        return [int(pid) for pid in (self.run.path / "ready").read_text().split()]

    def identity(self, attempt: int = 1) -> Identity:
        """Who runs the attempt; fails if that is not written."""
        identity = read_identity(self.run.attempt(attempt).identity)
        assert identity is not None
        return identity

    def ended(self, attempt: int = 1, code: int = 0, timeout_s: float = 15.0) -> ExitRecord:
        """How the attempt ended, once its keeper has exited with `code`."""
        assert self.keepers[-1].wait(timeout_s) == code
        record = read_exit(self.run.attempt(attempt).exit)
        assert record is not None
        return record

    def end_everything(self) -> None:
        """Kill what is left: keepers, whatever carries this run's nonce, and the processes the stub named."""
        named = self.told_pids() if (self.run.path / "ready").exists() else []
        for keeper in self.keepers:
            keeper.kill()
            keeper.wait()
        for pid in [*named, *marked(self.nonce)]:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)


def marked(nonce: str) -> list[int]:
    """Processes that were exec'd with `nonce` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and nonce.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie does not."""
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptRun]:
    """A fresh run directory with keepers on demand."""
    run = KeptRun(tmp_path / "run")
    yield run
    run.end_everything()
