"""Environments in worker processes, several in each, with everything that is said at every step in shared memory.

A drop-in for SB3's vectorised environments: the same seeds live the same episodes as under `DummyVecEnv`, bit for bit,
however the environments are shared out. All workers are asked at once and answer in turn; what goes wrong arrives as
one `EnvError` that names worker and environment, and the pool is unusable as a whole then. Each worker counts its
answers in shared memory and the trainer what it asked, so another thread than the one that steps them sees who is late
and who is slow, without asking anybody.

With a share of its own the trainer steps it where it would only wait for the workers: they are asked first and heard
last, so that of two processes on two cores neither takes the other's core.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from mission_tui.envs.channel import (
    CALL,
    FORM,
    ActionForm,
    Assignment,
    EnvRecipe,
    Layout,
    Raised,
    SharedArrays,
    anonymous_memory,
    frame,
)
from mission_tui.envs.lanes import FINAL, LaneQuery, Lanes, LaneStep
from mission_tui.errors import CheckpointError
from mission_tui.fleet.events.processes import MOST_EACH, MOST_LATE, EnvWorkers, LateWorker, SlowWorker
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError, EnvMemoryError
from mission_tui.trainer.running_time import unstopped_s
from mission_tui.trainer.vec_env.worker_process import AnswerTimeout, WorkerProcess, WorkerStderr

_LEAVE_S = 2.0
_OWN_WORK = ("making", "step", "reset")
"""What environments are for. Whatever they raise in it is an `EnvError`; a question may raise what it likes."""
LATE_S = 2.0
_TIMES_USUAL = 4.0
"""An answer that takes longer than both `LATE_S` and so many usual ones is late."""
_AT, _STEPS, _ANSWERS, _BUSY_NS = range(4)

_STEP_S, _FIRST_S = 60.0, 300.0


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

    @property
    def asked_s(self) -> float:
        """When they were last asked, on the clock of `unstopped_s`."""
        return self._asked_s

    def ask(self, indices: Collection[int], usual_s: float) -> None:
        """These workers are asked now, and owe an answer each, which usually takes them so long."""
        self._asked_s, self.usual_s = unstopped_s(), usual_s
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

    def send(self, messages: Mapping[int, bytes], patience: AnswerTimeout) -> None:
        """Send each worker its message, to be received with the same `patience`.

        Raises `EnvError` when one is dead, for ever.
        """
        if self._broken is not None:
            raise self._broken
        self._liveness.ask(messages, patience.usual_s)
        try:
            for index, message in messages.items():
                self._workers[index].send(message)
        except EnvError as error:
            self._broken = error
            raise

    def send_all(self, message: bytes, patience: AnswerTimeout) -> None:
        """Send every worker the same."""
        self.send(dict.fromkeys(range(len(self)), message), patience)

    def step_all(self, patience: AnswerTimeout) -> None:
        """Ask every worker for a step. Raises `EnvError` when one is known to be dead."""
        if self._broken is not None:
            raise self._broken
        self._liveness.ask(range(len(self)), patience.usual_s)
        for worker in self._workers:
            worker.step()

    def receive(self, indices: Collection[int], doing: str, patience: AnswerTimeout) -> list[Any]:
        """The answers of these workers. All are heard before one of them is raised, so that none answers late."""
        try:
            answers = [self._workers[index].answer(doing, patience, self._check) for index in indices]
        except EnvError as error:
            self._broken = error
            raise
        except BaseException:  # a signal's handler raised: an answer was left half read
            self.interrupted()
            raise
        patience.took(unstopped_s() - self._liveness.asked_s)
        for index, answer in zip(indices, answers, strict=True):
            if isinstance(answer, Raised):
                raise _error(f"env worker {index}", doing, answer)
        return answers

    def interrupted(self) -> None:
        """Answers were left unread: no worker can be asked anything more."""
        self._broken = EnvError("waiting for the env workers was interrupted")

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


def _error(who: str, doing: str, raised: Raised) -> Exception:
    error = raised.error
    if not isinstance(error, Exception) or doing in _OWN_WORK:
        where = "" if doing == "step" else f" in {doing}"
        kind = EnvMemoryError if isinstance(error, MemoryError) else EnvError
        error = kind(f"{who}: environment {raised.env} raised {raised.sentence}{where}")
    error.add_note(f"In {who}, environment {raised.env}:\n{raised.text}")
    return error


class WorkersVecEnv(VecEnv):
    """`n_envs` environments of `recipe` on `n_workers` processes, as evenly as they can be shared out.

    `observed` are the observation and action space of one environment. With `all_infos` every info arrives, as from
    SB3's own; without, those of steps that end an episode, which is all that a training reads. `floor_s` is the least
    time that a step is given. With `split` one more share, the last, is stepped by this process. `pool` are the others.
    """

    def __init__(
        self,
        recipe: EnvRecipe,
        n_envs: int,
        observed: tuple[spaces.Space[Any], spaces.Space[Any]],
        n_workers: int,
        all_infos: bool = True,
        floor_s: float = _STEP_S,
        split: bool = False,
    ) -> None:
        shares = min(n_workers + split, n_envs)
        layout = Layout.of(*observed, n_envs, shares)
        self._stepping, self._calling = AnswerTimeout(floor_s, _FIRST_S), AnswerTimeout(_FIRST_S, _FIRST_S)
        self._pending = self._masks_told = self._masks_there = False
        self._form: ActionForm | None = None
        cuts = [n_envs * index // shares for index in range(shares + 1)]
        lanes = [range(first, behind) for first, behind in pairwise(cuts)]
        self._of_lane = [index for index, numbers in enumerate(lanes) for _ in numbers]
        memory = anonymous_memory(layout.size)
        try:
            self._arrays = SharedArrays(layout, memory)
            self._own = Lanes(self._arrays, shares - 1, lanes.pop(), all_infos) if split else None
            assignments = [
                Assignment(
                    recipe, layout, memory, index, numbers.start, numbers.stop, n_envs, all_infos, tuple(sys.path)
                )
                for index, numbers in enumerate(lanes)
            ]
            self.pool = WorkerPool(assignments, self._arrays.lives[: len(lanes)])
        finally:
            os.close(memory)
        try:
            made = self._did(partial(self._own.make, recipe.make)) if self._own is not None else None
            self.can_save_state = all(self._answers("making", self._calling, made))
            if self._own is not None:
                self.can_save_state = self.can_save_state and self._own.can_save_state
            super().__init__(n_envs, *observed)
        except BaseException:
            self.close()
            raise

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return self.pool.pids

    @property
    def steps_done(self) -> tuple[int, ...]:
        """Environment steps that each worker has done since it began, readable from any thread."""
        return self.pool.steps_done

    def step_async(self, actions: NDArray[Any]) -> None:
        self._settle()
        actions = np.asarray(actions)
        if len(actions) != self.num_envs:
            raise ValueError(f"{len(actions)} actions for {self.num_envs} environments")
        form = actions.dtype.str, actions.shape[1:]
        if form != self._form:
            self._shared_actions = self._arrays.actions(form, self.num_envs)
            self.pool.send_all(frame(FORM, form), self._calling)
            self.pool.receive(range(len(self.pool)), "form of the actions", self._calling)
            if self._own is not None:
                self._own.form(form, self.num_envs)
            self._form = form
        self._shared_actions[...] = actions
        self.pool.step_all(self._stepping)
        self._pending, self._masks_there = True, False

    def step_wait(self) -> VecEnvStepReturn:
        self._pending = False
        own = None if self._own is None else self._did(self._own.step)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        finals = self._arrays.finals
        lane_steps: list[LaneStep] | None
        for lane_steps in self._answers("step", self._stepping, own):
            for env, info, reset_info in lane_steps or ():
                infos[env] = info
                if reset_info is not None:
                    self.reset_infos[env] = reset_info
                    if FINAL not in info and finals is not None:
                        info[FINAL] = finals[env].copy()
        self._masks_there = self._masks_told
        return self._arrays.copied_observations(), self._arrays.rewards.copy(), self._arrays.dones.copy(), infos

    def reset(self) -> VecEnvObs:
        self.reset_infos = self._ask("reset", list(zip(self._seeds, self._options, strict=True)))
        self._reset_seeds()
        self._reset_options()
        observations: VecEnvObs = self._arrays.copied_observations()
        return observations

    def action_masks(self) -> NDArray[np.bool_]:
        """Which choices are allowed, shape (n_envs, choices). Once asked for, they come with every step."""
        if not self._masks_there:
            self._ask("mask", [()] * self.num_envs)
            self._masks_told = self._masks_there = True
        return self._arrays.masks.copy()

    def close(self) -> None:
        """End every worker; one that does not leave within two seconds is killed."""
        self.pool.close()
        if self._own is not None:
            self._own.close()
            leave_fork()

    def get_state(self) -> dict[str, Any]:
        """The state of all environments, the same as `InlineVecEnv` gives."""
        return {"envs": self._ask("save", [()] * self.num_envs)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `state`. Raises `CheckpointError` when it does not fit."""
        if len(state["envs"]) != self.num_envs:
            there = len(state["envs"])
            raise CheckpointError(f"the checkpoint holds {there} environments, this run has {self.num_envs}")
        self._ask("restore", [(saved,) for saved in state["envs"]])

    def get_images(self) -> Sequence[NDArray[Any] | None]:
        if self.render_mode != "rgb_array":
            warnings.warn(f"The render mode is {self.render_mode}; images need `rgb_array`.", stacklevel=2)
            return [None] * self.num_envs
        return self._ask("render", [()] * self.num_envs)

    def has_attr(self, attr_name: str) -> bool:
        # Not by asking for it: methods, and environments with them, need not be picklable.
        return all(self._ask_same("has", (attr_name,), None))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self._ask_same("get", (attr_name,), indices)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._ask_same("set", (attr_name, value), indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return self._ask_same("method", (method_name, method_args, method_kwargs), indices)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: VecEnvIndices = None
    ) -> list[bool]:
        return self._ask_same("is_wrapped", (f"{wrapper_class.__module__}.{wrapper_class.__qualname__}",), indices)

    def _ask_same(self, what: str, arguments: tuple[Any, ...], indices: VecEnvIndices) -> list[Any]:
        # Not `_get_indices` for everyone: `VecEnv.__init__` asks for an attribute before it knows how many there are.
        lanes = range(len(self._of_lane)) if indices is None else [int(lane) for lane in self._get_indices(indices)]
        return self._ask(what, [arguments] * len(lanes), lanes)

    def _ask(self, what: str, arguments: Sequence[tuple[Any, ...]], lanes: Sequence[int] | None = None) -> list[Any]:
        """Ask each of `lanes`, or all, with its arguments; answers in the order of `lanes`."""
        self._settle()
        # Whatever is asked may open or shut something.
        self._masks_there = False
        asked, n_envs = range(self.num_envs) if lanes is None else lanes, len(self._of_lane)
        shares: dict[int, list[int]] = {}
        for position, lane in enumerate(asked):
            shares.setdefault(self._of_lane[lane], []).append(position)
        asks = {
            index: LaneQuery(what, [(asked[position] % n_envs, arguments[position]) for position in shares[index]])
            for index in sorted(shares)
        }
        order, own_ask = list(asks), asks.pop(len(self.pool), None)
        # All are pickled before the first is sent: what cannot be must leave no worker waited for in vain.
        self.pool.send({index: frame(CALL, ask) for index, ask in asks.items()}, self._calling)
        own = None if own_ask is None or self._own is None else self._did(partial(self._own.call, own_ask))
        answers: list[Any] = [None] * len(asked)
        for index, given in zip(order, self._answers(what, self._calling, own, asks), strict=True):
            for position, answer in zip(shares[index], given, strict=True):
                answers[position] = answer
        return answers

    def _did(self, what: Callable[[], Any]) -> Any:
        """What comes of `what`, which environments of this process do after the workers were asked: its result, or a
        `Raised`, as from a worker, for those must be heard before it is told.
        """
        try:
            result = what()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an environment is foreign code and may raise anything
            leave_fork(error)
            assert self._own is not None
            return Raised.of(error, self._own.at)
        except BaseException:
            self.pool.interrupted()
            raise
        leave_fork()
        return result

    def _answers(
        self, doing: str, patience: AnswerTimeout, own: Any, asked: Collection[int] | None = None
    ) -> list[Any]:
        """The answers of the workers `asked`, or of all, and behind them this process's `own` where it has one."""
        answers = self.pool.receive(range(len(self.pool)) if asked is None else asked, doing, patience)
        if isinstance(own, Raised):
            raise _error("the trainer", doing, own)
        return answers if own is None else [*answers, own]

    def _settle(self) -> None:
        """Nothing is under way after this: a step that was begun is waited for."""
        if self._pending:
            self.step_wait()
