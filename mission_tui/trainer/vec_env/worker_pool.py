"""All env workers of a training: asked at once, answering in turn, and unusable as a whole once one has failed.

Each worker counts its answers in shared memory and the trainer what it asked. So another thread than the one that steps
them sees who is late and who is slow, without asking anybody.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs.channel import Assignment, Raised
from mission_tui.fleet.events.processes import MOST_EACH, MOST_LATE, EnvWorkers, LateWorker, SlowWorker
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.running_time import unstopped_s
from mission_tui.trainer.vec_env.worker_exit import WorkerStderr
from mission_tui.trainer.vec_env.worker_process import Patience, WorkerProcess

_LEAVE_S = 2.0
_OWN_WORK = ("making", "step", "reset")
"""What environments are for. Whatever they raise in it is an `EnvError`; a question may raise what it likes."""
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


class WorkerPool:
    """A process for each of `assignments`; `lives` (n_workers, 8) are their shared counters."""

    def __init__(self, assignments: Sequence[Assignment], lives: NDArray[np.int64]) -> None:
        count = len(assignments)
        self._workers: list[WorkerProcess] = []
        self._broken: EnvError | None = None
        self._words = WorkerStderr()
        self._liveness = WorkerLiveness(lives, [assignment.behind - assignment.first for assignment in assignments])
        try:
            for assignment in assignments:
                self._workers.append(WorkerProcess(assignment, count, lives[assignment.index], self._words))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(worker.pid for worker in self._workers)

    @property
    def steps_done(self) -> tuple[int, ...]:
        return tuple(worker.steps_done for worker in self._workers)

    def sample(self) -> EnvWorkers:
        """Who of them is late and who is slow; for another thread, about once a second."""
        return self._liveness.sample(self.pids)

    def send(self, messages: Mapping[int, bytes], *, answered: bool = True) -> None:
        """Send each worker its message, which is `answered` or not. Raises `EnvError` when one is dead, for ever."""
        if self._broken is not None:
            raise self._broken
        if answered:
            self._liveness.ask(messages)
        try:
            for index, message in messages.items():
                self._workers[index].send(message)
        except EnvError as error:
            self._broken = error
            raise

    def send_all(self, message: bytes, *, answered: bool = True) -> None:
        """Send every worker the same."""
        self.send(dict.fromkeys(range(len(self)), message), answered=answered)

    def receive(self, indices: Collection[int], doing: str, patience: Patience) -> list[Any]:
        """The answers of these workers. All are heard before one of them is raised, so that none answers late."""
        begun_s, self._liveness.usual_s = unstopped_s(), patience.usual_s
        try:
            answers = [self._workers[index].answer(doing, patience, self._check) for index in indices]
        except EnvError as error:
            self._broken = error
            raise
        except BaseException:  # a signal's handler raised: an answer was left half read
            self._broken = EnvError("waiting for the env workers was interrupted")
            raise
        patience.took(unstopped_s() - begun_s)
        for index, answer in zip(indices, answers, strict=True):
            if isinstance(answer, Raised):
                raise _error(index, doing, answer)
        return answers

    def close(self) -> None:
        """End every worker; one that does not leave within two seconds is killed."""
        for worker in self._workers:
            worker.dismiss()
        deadline_s = time.monotonic() + _LEAVE_S
        for worker in self._workers:
            worker.end(deadline_s)
        self._words.close()

    def _check(self) -> None:
        for worker in self._workers:
            worker.check()


def _error(index: int, doing: str, raised: Raised) -> Exception:
    error = raised.error
    if not isinstance(error, Exception) or doing in _OWN_WORK:
        where = "" if doing == "step" else f" in {doing}"
        error = EnvError(f"env worker {index}: environment {raised.env} raised {raised.sentence}{where}")
    error.add_note(f"In env worker {index}, environment {raised.env}:\n{raised.text}")
    return error
