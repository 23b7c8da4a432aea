"""Who of the env workers was asked and has not answered, and who is slow; read by another thread than steps them.

Each worker counts its answers in shared memory and the trainer what it asked, so nobody need be asked to be looked at.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from mission_tui.fleet.events.processes import MOST_EACH, MOST_LATE, EnvWorkers, LateWorker, SlowWorker
from mission_tui.trainer.running_time import unstopped_s

__all__ = ["LATE_S", "WorkerLiveness"]

LATE_S = 2.0
_TIMES_USUAL = 4.0
"""An answer that takes longer than both `LATE_S` and so many usual ones is late."""
_AT, _STEPS, _ANSWERS, _BUSY_NS = range(4)


class WorkerLiveness:
    """`lives` (n_workers, 8) are the shared counters; `lanes` says how many environments each worker steps."""

    def __init__(self, lives: NDArray[np.int64], lanes: Sequence[int]) -> None:
        self._lives, self._lanes = lives, np.array(lanes)
        self._asked = [1] * len(lanes)
        self._asked_s = unstopped_s()
        self.usual_s = 0.0
        """Seconds that an answer of the kind asked for usually takes, for all of them together."""
        self._before = np.zeros_like(lives)
        self._slowest: SlowWorker | None = None
        self._steps_s: tuple[float, ...] = ()

    def ask(self, indices: Collection[int]) -> None:
        """These workers are asked now, and owe an answer each."""
        self._asked_s = unstopped_s()
        for index in indices:
            self._asked[index] += 1

    def sample(self, pids: Sequence[int]) -> EnvWorkers:
        """How they stand now; to be called about once a second."""
        lives, silent_s = self._lives.copy(), unstopped_s() - self._asked_s
        late: list[LateWorker] = []
        if silent_s > max(LATE_S, _TIMES_USUAL * self.usual_s):
            owing = [index for index, asked in enumerate(self._asked) if lives[index, _ANSWERS] < asked]
            at = lives[:, _AT].tolist()
            late = [LateWorker(index, pids[index], round(silent_s, 1), at[index]) for index in owing]
        self._find_slowest(lives, pids)
        each = tuple(pids[:MOST_EACH])
        return EnvWorkers(len(pids), len(late), tuple(late[:MOST_LATE]), self._slowest, each, self._steps_s)

    def _find_slowest(self, lives: NDArray[np.int64], pids: Sequence[int]) -> None:
        steps = (lives - self._before)[:, _STEPS] // self._lanes
        if not steps.all():
            # Nothing was stepped, or not by all: what was known stays.
            return
        busy_s = (lives - self._before)[:, _BUSY_NS] / steps / 1e9
        self._before = lives
        index = int(busy_s.argmax())
        usual_s = statistics.median(busy_s.tolist())
        self._steps_s = tuple(float(f"{seconds:.3g}") for seconds in busy_s[:MOST_EACH].tolist())
        self._slowest = SlowWorker(index, pids[index], float(f"{busy_s[index]:.3g}"), float(f"{usual_s:.3g}"))
