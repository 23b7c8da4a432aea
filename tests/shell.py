"""The real command line on an isolated runs root; whatever a test starts is ended with it.

Shared by the tests of the command line and by those of the whole road.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import psutil

from mission_tui.cli.follow_runs import view_of
from mission_tui.cli.root import main
from mission_tui.cli.tables.documents import run_facts
from mission_tui.errors import MissionError
from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import GetSnapshot, Shutdown
from mission_tui.paths import socket_dir
from tests.waiting import until

REPOSITORY = Path(__file__).resolve().parents[1]
STUB = REPOSITORY / "tests" / "supervisor" / "stub_trainer.py"
TINY = """
description = "a training small enough for a test"
key = "1"
[env]
id = "CartPole-v1"
n_envs = 4
vec = "inline"
[ppo]
n_steps = 64
batch_size = 64
n_epochs = 2
[run]
total_timesteps = 5_000_000
"""


@dataclass(frozen=True)
class Shell:
    """A working folder with presets of its own, and the command line called from it."""

    cwd: Path
    environ: dict[str, str]

    @property
    def root(self) -> Path:
        return self.cwd / "runs"

    def scripted(self) -> Shell:
        """The same shell with the scripted trainer, which needs no torch, for tests about verbs and not training."""
        self.environ.update(MISSION_TUI_TRAINER=str(STUB), PYTHONPATH=str(REPOSITORY), STUB_UPDATE_S="0.05")
        self.environ["MISSION_TUI_PRELOAD"] = "0"  # it would load torch, and no script can be forked
        return self

    def preloaded(self) -> Shell:
        """The same shell, whose launches wait for a preloader and are forks of it; so is what plays their policies. For
        tests with three processes or more that each would load torch.
        """
        self.environ["MISSION_TUI_PRELOAD"] = "always"
        return self

    def start(self, *words: str, **more: Any) -> subprocess.Popen[str]:
        """The command as a process of its own, with pipes."""
        command = [sys.executable, "-m", "mission_tui", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | more
        return subprocess.Popen(command, cwd=self.cwd, env=self.environ, text=True, **pipes)

    def __call__(self, *words: str, timeout_s: float = 30.0) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        with self.start(*words) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The same in this process: an interpreter for each takes ten times as long as what most commands do. Not for
        what a test is to limit in time, to signal, or to start with other modules than its own.
        """
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environ, clear=True),
            chdir(self.cwd),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(words)
        return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())

    def json(self, *words: str, timeout_s: float | None = None, code: int = 0) -> Any:
        """The one document that the command prints with `--json`; with a limit it is a process of its own."""
        done = self.typed(*words, "--json") if timeout_s is None else self(*words, "--json", timeout_s=timeout_s)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def launch(self, *words: str) -> list[str]:
        """Ids of the launched runs."""
        return [run["id"] for run in self.json("launch", *words)["runs"]]

    def view(self, run: str) -> dict[str, Any]:
        """The run as `status --json` says it; where nobody answers, the command starts a supervisor."""
        # A wait asks this many times: as a command each would be an interpreter that takes the core it waits for.
        try:
            with Connection.connect(self.root, start=False) as connection:
                return as_read(run_facts(view_of(connection, run)))
        except MissionError:
            (view,) = self.json("status", run)["runs"]
            return dict(view)

    def views(self) -> list[dict[str, Any]]:
        """Every run as `status --json` says it; none where nobody answers."""
        try:
            with Connection.connect(self.root, start=False) as connection:
                snapshot = connection.ask(lambda id_: GetSnapshot(id=id_)).snapshot
        except MissionError:
            return []
        return [as_read(run_facts(view)) for view in snapshot.runs]

    def advancing(self, run: str, beyond: int = 0) -> int:
        """Wait until the run has done an update, and more than `beyond` timesteps; how many."""

        def done() -> int:
            view = self.view(run)
            return view["timesteps"] if view["update"] and view["timesteps"] > beyond else 0

        return until(done, 40, f"{run} advances")

    def trainer(self, run: str) -> int:
        """Wait until the process of its trainer is known, which its rows may be a moment before; its number."""
        pid: int = until(lambda: self.view(run)["pids"]["trainer"], 20, f"the trainer of {run} is known")
        return pid

    def rows(self, run: str) -> list[dict[str, Any]]:
        """All records of the run's metrics file, in file order."""
        return self._lines(run, "metrics.jsonl")

    def events(self, run: str) -> list[dict[str, Any]]:
        """All events of the run's journal, in file order."""
        return self._lines(run, "events.jsonl")

    def _lines(self, run: str, name: str) -> list[dict[str, Any]]:
        """Its records; a line that is being written is none yet."""
        path = self.root / run / name
        return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] if path.exists() else []

    def processes(self) -> list[psutil.Process]:
        """Every process whose words or environment name this runs root."""
        # Asked twenty times a second while processes end: psutil takes three times as long.
        root = os.fsencode(self.root)
        marked = b"MISSION_TUI_RUN_DIR=" + root
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError, psutil.Error):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").split(b" ")
                if root in words or marked in (folder / "environ").read_bytes():
                    found.append(psutil.Process(int(folder.name)))
        return found

    def shut_down(self) -> None:
        """End the supervisor and its runs, as `supervisor stop --with-runs` does, without an interpreter for it."""
        try:
            with Connection.connect(self.root, start=False) as connection:
                connection.ask(lambda id_: Shutdown(id=id_, with_runs=True))
        except MissionError:
            self("supervisor", "stop", "--with-runs", timeout_s=120)


def as_read(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts as whoever reads the document has them."""
    read: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(facts))
    return read


def environment(home: Path) -> dict[str, str]:
    """This process's environment without what would lead the command to another runs root or preset."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("MISSION_TUI", "XDG_"))}
    environ |= {"HOME": str(home), "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8", "MISSION_TUI_LEDGER": str(home)}
    # As for all tests: a preloader comes after the first launch or with a screen, and most tests have no other.
    environ["MISSION_TUI_PRELOAD"] = os.environ.get("MISSION_TUI_PRELOAD", "0")
    environ.pop("NO_COLOR", None)
    return environ


@contextmanager
def opened(folder: Path) -> Iterator[Shell]:
    """A shell in the empty `folder` with the preset `tiny` and the set `pair`; ends with every process gone.

    They are the user's own: what lies in `./presets` may be anybody's, and starts by no key.
    """
    (folder / "presets").mkdir()
    own = folder / ".config" / "mission-tui" / "presets"
    own.mkdir(parents=True)
    (own / "tiny.toml").write_text(TINY)
    (own / "small.toml").write_text(TINY.replace('key = "1"\n', ""))
    (own / "pair.toml").write_text('description = "two at once"\nlaunch = ["tiny", "small"]\n')
    made = Shell(folder, environment(folder))
    try:
        yield made
    finally:
        if made.root.exists():
            made.shut_down()
        try:
            until(lambda: not made.processes(), 20, "every process of the test is gone")
        finally:
            for process in made.processes():
                process.kill()
            shutil.rmtree(socket_dir(made.root), ignore_errors=True)
