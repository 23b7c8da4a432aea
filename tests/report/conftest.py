"""A run's folder and environment without a supervisor, and scripts that report into it as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.follow import Follower
from tests.supervisor.foreign import write_launch

REPOSITORY = Path(__file__).resolve().parents[2]
R = TypeVar("R", bound=MetricRecord)


@dataclass
class Desk:
    """Where a run of a command would be, in its attempt `attempt`."""

    folder: Path
    address: Path
    attempt: int = 1
    environ: dict[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> dict[str, str]:
        """The environment of the run's processes."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("MISSION_TUI_")}
        return (
            own
            | {
                "PYTHONPATH": str(REPOSITORY),
                "MISSION_TUI_RUN": self.folder.name,
                "MISSION_TUI_RUN_DIR": str(self.folder),
                "MISSION_TUI_ATTEMPT": str(self.attempt),
                "MISSION_TUI_REPORT": str(self.reported),
            }
            | self.environ
        )

    @property
    def reported(self) -> Path:
        """The file of the attempt that scripts report to."""
        path = RunDir(self.folder).attempt(self.attempt).reported
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def order(self) -> None:
        """Write the order of the attempt as a supervisor does."""
        env = {"MISSION_TUI_TELEMETRY": str(self.address)}
        order = LaunchOrder(run=self.folder.name, attempt=self.attempt, argv=("x",), cwd="/", env=env, nonce="secret")
        self.reported.parent.mkdir(parents=True, exist_ok=True)
        write_launch(RunDir(self.folder).attempt(self.attempt).launch, order)

    def start(self, script: str, *words: str, python: str = sys.executable) -> subprocess.Popen[str]:
        """Start Python on `script` (text) or on `words`."""
        argv = [python, *(words or ("-c", script))]
        return subprocess.Popen(
            argv, env=self.marks, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def run(self, script: str, *words: str, code: int = 0, python: str = sys.executable) -> str:
        """What the script printed; it must end with `code`. What it reported is read."""
        process = self.start(script, *words, python=python)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == code, said
        self.follow()
        return said

    def follow(self) -> None:
        """Write the rows of what was reported until now."""
        follower = Follower(RunDir(self.folder), self.attempt)
        follower.poll()
        follower.close()

    def records(self) -> list[MetricRecord]:
        """Every row of the run, all of them whole, with those of what was reported until now."""
        self.follow()
        records, damage = read_all(self.folder / "metrics.jsonl", MetricRecord)
        assert damage == []
        return records

    def of(self, type_: type[R]) -> list[R]:
        """The rows of one kind."""
        return [record for record in self.records() if isinstance(record, type_)]


@contextmanager
def fresh_desk(within: Path) -> Iterator[Desk]:
    """A fresh run; its socket lies elsewhere, because the path of one may be 107 bytes long."""
    folder = within / "20261121-104207-script-3f9a"
    folder.mkdir()
    with tempfile.TemporaryDirectory(prefix="mt-") as sockets:
        yield Desk(folder, Path(sockets) / "telemetry.sock")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A fresh run."""
    with fresh_desk(tmp_path) as desk:
        yield desk
