"""Periodic evaluation while a run trains: a process of its own plays the checkpoint just saved, niced, one at a time.

It draws from no generator of the training and shares nothing with it but files, so the run learns the same with and
without. What comes due while another plays waits for its turn. A training that has finished waits for those that are
left, and for one of its last boundary; one that was stopped does not.
"""

from __future__ import annotations

import os
import subprocess
from collections import deque
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
MOST_WAITING = 8
"""Each holds a checkpoint: a machine that plays slower than it trains must not fill its disk with them."""


class Played(msgspec.Struct, frozen=True):
    """What the process says in its file, as far as a row of the record needs it."""

    checkpoint: str
    mean: float | str
    std: float | str
    episodes: int
    won: float | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    checkpoint: str
    update: int
    timesteps: int


@dataclass(frozen=True, slots=True)
class _Playing:
    what: _Due
    process: subprocess.Popen[bytes]
    file: Path


class Evaluating:
    """Asked at every boundary; `asked` says how often and how long."""

    def __init__(self, run_dir: RunDir, asked: EvaluateSpec, from_timesteps: int) -> None:
        self._run_dir = run_dir
        self._asked = asked
        self._due_at = _next(asked.every, from_timesteps)
        self._playing: _Playing | None = None
        self._waiting: deque[_Due] = deque()
        self._newest_timesteps = from_timesteps
        self.failed: Callable[[str], None] = complain
        """Hears why a checkpoint was not played."""

    @property
    def checkpoints(self) -> frozenset[str]:
        """Those that are played, or wait for it, and must stay."""
        playing = [] if self._playing is None else [self._playing.what]
        return frozenset(due.checkpoint for due in (*playing, *self._waiting))

    def due(self, timesteps: int) -> bool:
        """Whether the boundary at `timesteps` is to be played."""
        if self._due_at is None or timesteps < self._due_at:
            return False
        self._due_at = _next(self._asked.every, timesteps)
        return True

    def is_last_due(self, timesteps: int) -> bool:
        """Whether the last boundary, at `timesteps`, is to be played and was not handed over yet."""
        return self._asked.every is not None and timesteps > self._newest_timesteps

    def begin(self, checkpoint: str, update: int, timesteps: int) -> None:
        """Play the saved `checkpoint`, once those before it were played."""
        self._newest_timesteps = timesteps
        self._waiting.append(_Due(checkpoint, update, timesteps))
        if len(self._waiting) > MOST_WAITING:
            left_out = self._waiting.popleft()
            self.failed(f"the evaluation at {left_out.timesteps:,} steps was left out: {MOST_WAITING} later ones wait")
        if self._playing is None:
            self._play_next()

    def _play_next(self) -> None:
        while self._playing is None and self._waiting:
            self._play(self._waiting.popleft())

    def _play(self, due: _Due) -> None:
        checkpoint, timesteps = due.checkpoint, due.timesteps
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
        self._playing = _Playing(due, process, file)

    def take(self) -> tuple[int, int, Played] | None:
        """Update, timesteps and result of an evaluation that has ended since the last look."""
        if self._playing is None:
            return None
        what, process, file = self._playing.what, self._playing.process, self._playing.file
        code, played = process.poll(), None
        with suppress(DamagedError, OSError):
            played = read_json(file, Played)
        if code is None and played is None:
            return None
        self._playing = None
        if code is None:
            # The file is the last thing it does; leaving takes it longer than an update may take here.
            _end(process)
        self._play_next()
        if played is None:
            self.failed(f"the evaluation at {what.timesteps:,} steps gave no result (exit code {code})")
            return None
        return what.update, what.timesteps, played

    def close(self) -> None:
        """End the one that still plays, and forget those that wait."""
        if self._playing is None:
            return
        _end(self._playing.process)
        steps = ", ".join(f"{due.timesteps:,}" for due in (self._playing.what, *self._waiting))
        complain(f"no evaluation at {steps} steps: the training has ended; `mission-tui evaluate` plays a checkpoint")
        self._playing = None
        self._waiting.clear()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_S)


def _next(every: int | None, timesteps: int) -> int | None:
    """The next multiple of `every` after `timesteps`."""
    return None if every is None else (timesteps // every + 1) * every
