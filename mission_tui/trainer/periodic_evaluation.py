"""Periodic evaluation while a run trains: one process beside it, niced, plays each checkpoint that it is told of.

It draws from no generator of the training and shares nothing with it but files, so the run learns the same with and
without. What evaluations cost, in processor seconds, is at most a share of the time trained: what comes due earlier,
or while one plays, is put off to the first boundary that fits, and its row says so. Waiting for a core costs the
training nothing and is not counted. A training that has finished waits for the one that plays, and for one of its last
boundary; one that was stopped does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.fleet.specs.spec import EvaluateSpec
from mission_tui.records.atomic import read_json
from mission_tui.records.runs.layout import RunDir
from mission_tui.run_module import module_words
from mission_tui.trainer.failures import complain

_NICE = 15
_END_S = 5.0
LONG_S = 600.0
"""An evaluation that plays for so long is said to, since none comes after it meanwhile."""


class EvaluationReply(msgspec.Struct, frozen=True):
    """What the process says in its file, as far as a row of the record needs it, and its processor seconds since the
    evaluation before; of the first since its start.
    """

    checkpoint: str
    mean: float | str
    std: float | str
    episodes: int
    won: float | None = None
    cpu_s: float | None = None


@dataclass(frozen=True, slots=True)
class Due:
    """A saved boundary that is played; `put_off_from` is where it was due, if that was earlier."""

    checkpoint: str
    update: int
    timesteps: int
    put_off_from: int | None


@dataclass(slots=True)
class _Playing:
    what: Due
    file: Path
    begun_s: float
    is_said_long: bool = False


class Evaluating:
    """Asked at every boundary; `asked` says how often, how long, and for how much of the time."""

    def __init__(
        self,
        run_dir: RunDir,
        asked: EvaluateSpec,
        from_timesteps: int,
        from_trained_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run_dir = run_dir
        self._asked = asked
        self._clock = clock
        self._due_at = _next(asked.every, from_timesteps)
        self._put_off_from: int | None = None
        self._from_trained_s = from_trained_s
        self._process: subprocess.Popen[bytes] | None = None
        self._playing: _Playing | None = None
        self._newest_timesteps = from_timesteps
        self._cost_s = self._last_cost_s = 0.0
        self.failed: Callable[[str], None] = complain
        """Hears why a checkpoint was not played."""

    @property
    def checkpoints(self) -> frozenset[str]:
        """The one that is played, and must stay."""
        return frozenset() if self._playing is None else frozenset({self._playing.what.checkpoint})

    def due(self, timesteps: int, trained_s: float) -> bool:
        """Whether the boundary at `timesteps`, `trained_s` into the run, is to be played.

        The first of an attempt always is. Later ones are if they will have cost no more than the share allowed.
        """
        if self._due_at is None or timesteps < self._due_at:
            return False
        share, trained_s = self._asked.share, trained_s - self._from_trained_s
        fits = share is None or not self._cost_s or self._cost_s + self._last_cost_s <= share * trained_s
        if self._playing is not None or not fits:
            self._put_off_from = self._put_off_from or timesteps
            return False
        return True

    def is_last_due(self, timesteps: int) -> bool:
        """Whether the last boundary, at `timesteps`, is to be played and was not handed over yet."""
        return self._asked.every is not None and timesteps > self._newest_timesteps

    def begin(self, checkpoint: str, update: int, timesteps: int, saving_s: float = 0.0) -> None:
        """Play the saved `checkpoint`, while none is played; the training took `saving_s` to save it."""
        assert self._playing is None
        begun_s = self._clock()
        self._newest_timesteps = timesteps
        self._due_at = _next(self._asked.every, timesteps)
        what, self._put_off_from = Due(checkpoint, update, timesteps, self._put_off_from), None
        self._cost_s += saving_s
        file = self._run_dir.evaluations / f"{checkpoint}-periodic.json"
        try:
            # An earlier attempt may have played a checkpoint of this name.
            file.unlink(missing_ok=True)
            asked: dict[str, object] = {"checkpoint": checkpoint, "out": str(file)}
            self._tell(asked | ({"put_off_from": what.put_off_from} if what.put_off_from else {}))
        except OSError as error:
            self._end()
            self.failed(f"no evaluation at {timesteps:,} steps: {error.strerror}")
            return
        self._playing = _Playing(what, file, begun_s)

    def _tell(self, request: dict[str, object]) -> None:
        """Hand `request` to the process that plays, which is started anew where the last one has ended."""
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            words = ["--serve", "--episodes", str(self._asked.episodes)]
            words += [] if self._asked.deterministic else ["--stochastic"]
            self._process = subprocess.Popen(
                [*module_words("mission_tui.trainer.playing.evaluate"), str(self._run_dir.path), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self._process.pid, _NICE)
        assert self._process.stdin is not None
        # One that has just died is found by its exit code.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    def take(self) -> tuple[Due, EvaluationReply] | None:
        """What was played, and how it went, if an evaluation has ended since the last look."""
        if self._playing is None or self._process is None:
            return None
        what, file, begun_s = self._playing.what, self._playing.file, self._playing.begun_s
        code, played = self._process.poll(), None
        with suppress(DamagedError, OSError):
            played = read_json(file, EvaluationReply)
        took_s = self._clock() - begun_s
        if code is None and played is None:
            if took_s > LONG_S and not self._playing.is_said_long:
                self._playing.is_said_long = True
                self.failed(
                    f"the evaluation at {what.timesteps:,} steps has played for {LONG_S / 60:.0f} minutes, and none "
                    "comes before its end: give evaluate.episodes a smaller number"
                )
            return None
        self._playing = None
        # What one that died has cost is not known; so many seconds it cannot exceed by much.
        self._last_cost_s = took_s if played is None or played.cpu_s is None else played.cpu_s
        self._cost_s += self._last_cost_s
        if played is None:
            self._end()
            self.failed(f"the evaluation at {what.timesteps:,} steps gave no result (exit code {code})")
            return None
        return what, played

    def close(self) -> None:
        """End the process, and with it what still plays."""
        self._end()
        if self._playing is not None:
            complain(
                f"no evaluation at {self._playing.what.timesteps:,} steps: the training has ended; "
                "`mission-tui evaluate` plays a checkpoint"
            )
            self._playing = None

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)


def _next(every: int | None, timesteps: int) -> int | None:
    """The next multiple of `every` after `timesteps`."""
    return None if every is None else (timesteps // every + 1) * every
