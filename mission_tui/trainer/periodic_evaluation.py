"""Periodic evaluation while a run trains: a process of its own plays the checkpoint just saved, niced, one at a time.

It draws from no generator of the training and shares nothing with it but files, so the run learns the same with and
without. One that has not ended when the training does is ended with it.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.fleet.specs.spec import EvaluateSpec
from mission_tui.records.files.atomic import read_json
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.trainer.failures import complain

_NICE = 15
_END_S = 5.0


class Played(msgspec.Struct, frozen=True):
    """What the process says in its file, as far as a row of the record needs it."""

    checkpoint: str
    mean: float | str
    std: float | str
    episodes: int


@dataclass(slots=True)
class _Process:
    process: subprocess.Popen[bytes]
    checkpoint: str
    update: int
    timesteps: int
    file: Path


class Evaluating:
    """Asked at every boundary; `asked` says how often and how long."""

    def __init__(self, run_dir: RunDir, asked: EvaluateSpec, from_timesteps: int) -> None:
        self._run_dir = run_dir
        self._asked = asked
        self._due_at = _next(asked.every, from_timesteps)
        self._at_work: _Process | None = None
        self.failed: Callable[[str], None] = complain
        """Hears why a checkpoint was not played."""

    @property
    def checkpoint(self) -> str | None:
        """The checkpoint that is being played and must stay."""
        return None if self._at_work is None else self._at_work.checkpoint

    def due(self, timesteps: int) -> bool:
        """Whether the boundary at `timesteps` is to be played. One that comes while another is played is left out."""
        if self._due_at is None or timesteps < self._due_at:
            return False
        self._due_at = _next(self._asked.every, timesteps)
        if self._at_work is not None:
            complain(f"evaluation at {timesteps:,} steps left out: the one at {self._at_work.timesteps:,} still plays")
            return False
        return True

    def begin(self, checkpoint: str, update: int, timesteps: int) -> None:
        """Play the saved `checkpoint`."""
        file = self._run_dir.evaluations / f"{checkpoint}-periodic.json"
        words = ["--checkpoint", checkpoint, "--episodes", str(self._asked.episodes), "--out", str(file)]
        words += [] if self._asked.deterministic else ["--stochastic"]
        try:
            # An earlier attempt may have played a checkpoint of this name.
            file.unlink(missing_ok=True)
            process = subprocess.Popen(
                [*module_words("mission_tui.trainer.playing.evaluate"), str(self._run_dir.path), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        except OSError as error:
            self.failed(f"no evaluation at {timesteps:,} steps: {error.strerror}")
            return
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
        self._at_work = _Process(process, checkpoint, update, timesteps, file)

    def take(self) -> tuple[int, int, Played] | None:
        """Update, timesteps and result of an evaluation that has ended since the last look."""
        work = self._at_work
        if work is None:
            return None
        code, played = work.process.poll(), None
        with suppress(DamagedError, OSError):
            played = read_json(work.file, Played)
        if code is None and played is None:
            return None
        self._at_work = None
        if code is None:
            # The file is the last thing it does; leaving takes it longer than an update may take here.
            _end(work.process)
        if played is None:
            self.failed(
                f"the evaluation at {work.timesteps:,} steps gave no result (exit code {code}); training goes on"
            )
            return None
        return work.update, work.timesteps, played

    def close(self) -> None:
        """End the one that still plays."""
        if self._at_work is None:
            return
        _end(self._at_work.process)
        complain(f"the evaluation at {self._at_work.timesteps:,} steps had not ended; `mission-tui evaluate` plays it")
        self._at_work = None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def _next(every: int | None, timesteps: int) -> int | None:
    """The next multiple of `every` after `timesteps`."""
    return None if every is None else (timesteps // every + 1) * every
