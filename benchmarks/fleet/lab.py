"""A runs root of its own with a real supervisor, acted on by the real command line; nothing of it is left behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil

from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.client import Connection
from mission_tui.ipc.client_environment import captured_environ
from mission_tui.ipc.requests import GetSnapshot, Launch
from mission_tui.paths import socket_dir
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.layout import RunDir

__all__ = ["ROOT", "Lab", "kept", "opened", "until"]

ROOT = Path(__file__).resolve().parents[2]
MIB = 2**20
PATIENCE_S = 30.0
"""A machine that others keep busy as well is slow to answer; how slow is what other rows say."""

T = TypeVar("T")


ASKED = ("MISSION_TUI_PRELOAD",)
"""What of our own variables counts here too: a preloader loads torch, which one short run does not pay back."""


class Lab:
    """The runs root at `root`, and what a person or a script does with it."""

    def __init__(self, root: Path, environ: dict[str, str]) -> None:
        self.root = root = root.resolve()
        kept = {key: value for key, value in os.environ.items() if key in ASKED or not key.startswith("MISSION_TUI")}
        self.environ = {
            **kept,
            "PYTHONPATH": str(ROOT),
            "MISSION_TUI_RUNS": str(root),
            "MISSION_TUI_LEDGER": "off",
            "XDG_STATE_HOME": str(root.parent / "state"),
            **environ,
        }

    def cli(self, *words: str) -> Any:
        """What the command prints with `--json`. Raises `CalledProcessError`, its last words on stderr."""
        command = [sys.executable, "-m", "mission_tui", *words, "--json"]
        done = subprocess.run(command, cwd=ROOT, env=self.environ, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def launch(self, *words: str) -> list[str]:
        """Launch as the words say; the runs' ids."""
        return [run["id"] for run in self.cli("launch", *words)["runs"]]

    def launch_items(self, items: Sequence[LaunchItem], **environ: str) -> list[str]:
        """Launch what no preset describes, in one request; the runs' ids."""
        caller: dict[str, Any] = {"cwd": str(ROOT), "python": sys.executable}
        caller["environ"] = captured_environ(self.environ) | environ
        with self.connect() as link:
            answer = link.ask(lambda id_: Launch(id=id_, items=tuple(items), **caller))
        return [view.id for view in answer.runs]

    def connect(self) -> Connection:
        """A client's connection; starts the supervisor if there is none."""
        with _environment(self.environ):
            return Connection.connect(self.root, timeout_s=PATIENCE_S)

    def views(self) -> dict[str, RunView]:
        """Every run of the snapshot by id."""
        with self.connect() as link:
            return {view.id: view for view in link.ask(lambda id_: GetSnapshot(id=id_)).snapshot.runs}

    def dir(self, run: str) -> RunDir:
        """The run's directory."""
        return RunDir(self.root / run)

    def rows(self, run: str) -> list[MetricRecord]:
        """Everything that the run's trainer has written."""
        file = self.dir(run).metrics
        return list(read_all(file, MetricRecord)[0]) if file.exists() else []

    def updates(self, run: str) -> list[UpdateDone]:
        """The rows of finished updates."""
        return [row for row in self.rows(run) if isinstance(row, UpdateDone)]

    def supervisor(self) -> psutil.Process:
        """The supervisor's process."""
        with self.connect() as link:
            return psutil.Process(link.welcome.pid)

    def families(self, runs: Sequence[str]) -> list[psutil.Process]:
        """Keepers, trainers, workers and whatever else they started."""
        found: list[psutil.Process] = []
        views = self.views()
        for run in runs:
            with suppress(psutil.NoSuchProcess):
                if (pid := views[run].pids.keeper) is not None:
                    keeper = psutil.Process(pid)
                    found += [keeper, *keeper.children(recursive=True)]
        return found

    def pss_mib(self, runs: Sequence[str]) -> float:
        """Memory of the runs' processes in MiB, shared pages in parts, so that the sum is what is really used."""
        total = 0
        for process in self.families(runs):
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += process.memory_full_info().pss
        return total / MIB

    def kill(self, *runs: str) -> None:
        """Kill the runs and wait until they are gone."""
        self._end("kill", runs, 30.0)

    def stop(self, *runs: str) -> None:
        """Stop the runs, each with a checkpoint, and wait until they are gone."""
        self._end("stop", runs, 180.0)

    def _end(self, verb: str, runs: Sequence[str], within_s: float) -> None:
        with suppress(subprocess.CalledProcessError):  # one that has just ended by itself cannot be ended
            self.cli(verb, *runs)
        until(lambda: all(self.views()[run].state in OVER for run in runs), within_s, "the runs end")


@contextmanager
def opened(**environ: str) -> Iterator[Lab]:
    """A lab in a temporary folder, with `environ` for everything that is started in it."""
    with tempfile.TemporaryDirectory(prefix="mission-bench-") as folder:
        lab = Lab(Path(folder) / "runs", environ)
        with _attended(lab, lab.kill):
            yield lab


@contextmanager
def kept(root: Path, **environ: str) -> Iterator[Lab]:
    """A lab at `root` that stays as it is left: what trains when it is left is stopped, each with a checkpoint."""
    lab = Lab(root, environ)
    with _attended(lab, lab.stop):
        yield lab


@contextmanager
def _attended(lab: Lab, end: Callable[..., None]) -> Iterator[None]:
    lab.root.mkdir(parents=True, exist_ok=True)
    # Who ends a campaign must not leave its trainings behind.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        live = [run for run, view in lab.views().items() if view.state not in OVER]
        if live:
            end(*live)
        lab.cli("supervisor", "stop")
        shutil.rmtree(socket_dir(lab.root), ignore_errors=True)


@contextmanager
def _environment(environ: dict[str, str]) -> Iterator[None]:
    """The client's own environment, which a supervisor that it has to start inherits."""
    kept = dict(os.environ)
    os.environ.clear()
    os.environ.update(environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


def until(predicate: Callable[[], T], timeout_s: float, what: str, every_s: float = 0.1) -> T:
    """The first truthy value of `predicate`. Raises `TimeoutError` after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        time.sleep(every_s)
    return value
