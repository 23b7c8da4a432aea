"""What one step of one environment costs, measured: time of the clock, and time of the processor within it.

The difference is waiting (a simulator, a socket), which workers can do side by side on one core; work they cannot.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
import psutil

from mission_tui.envs.masks import MASKS, sampled
from mission_tui.errors import raised_by
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError

__all__ = ["StepCost", "step_cost"]

_MEASURE_S = 0.15
_WAITS_A_STEP = 0.5


@dataclass(frozen=True, slots=True)
class StepCost:
    """Seconds of a step alone on a quiet machine, and processor seconds within it, of whatever process it starts too.

    `work_s` may exceed `step_s` where several threads work on one step.
    """

    step_s: float
    work_s: float

    @property
    def waits(self) -> bool:
        """Whether more of a step is waiting than work."""
        return self.work_s < 0.5 * self.step_s

    def __str__(self) -> str:
        step = f"one step takes {self.step_s * 1e6:,.0f} us"
        return f"{step}, of which {self.work_s * 1e6:,.0f} us are work" if self.waits else step


def step_cost(make: Callable[[], gymnasium.Env[Any, Any]]) -> StepCost:
    """The cost of a step with random actions, allowed ones where the environment says which, resets included but not
    the very first step. Raises `EnvError` for whatever the environment raises in it.

    An environment that never gives the processor away computes: its time is processor time, which does not grow on a
    busy machine. One that does is measured again, by the clock, with the processes that work for it.
    """
    env = make()
    try:
        env.reset()
        draw = _drawing(env)
        env.step(draw())
        env.reset()
        waits, worked = _waits(), time.thread_time()
        steps, _ = _stepped(env, draw)
        if _waits() - waits < _WAITS_A_STEP * steps:
            each_s = (time.thread_time() - worked) / steps
            return StepCost(each_s, each_s)
        worked = _family_s()
        steps, elapsed_s = _stepped(env, draw)
        return StepCost(elapsed_s / steps, (_family_s() - worked) / steps)
    except Exception as error:  # an environment is foreign code and may raise anything
        leave_fork(error)
        raise EnvError(f"an environment raised {raised_by(error)}") from error
    finally:
        leave_fork(sys.exc_info()[1])
        env.close()


def _stepped(env: gymnasium.Env[Any, Any], draw: Callable[[], Any]) -> tuple[int, float]:
    steps, begun = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - begun) < _MEASURE_S:
        _, _, terminated, truncated, _ = env.step(draw())
        steps += 1
        if terminated or truncated:
            env.reset()
    return steps, elapsed


def _drawing(env: gymnasium.Env[Any, Any]) -> Callable[[], Any]:
    """How an action is drawn; decided once, because asking costs as much as some steps."""
    if not env.has_wrapper_attr(MASKS):
        return env.action_space.sample
    masks = env.get_wrapper_attr(MASKS)
    return lambda: sampled(env.action_space, np.asarray(masks(), dtype=bool))


def _waits() -> int:
    """How often this thread has given the processor away of its own accord; being preempted does not count."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def _family_s() -> float:
    """Processor seconds of this process and those it started; a simulator beside the environment is one of them."""
    children = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            children += sum(child.cpu_times()[:2])
        except psutil.NoSuchProcess:
            continue
    return time.process_time() + children
