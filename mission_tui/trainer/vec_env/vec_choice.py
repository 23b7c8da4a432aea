"""What nobody wrote about `env.vec` and `env.n_workers`: native where a batched form will do, else what is cheapest.

Workers share environments evenly. Those that compute get at most a core each; those that wait may be more, because
waiting (for a simulator, for a socket) side by side costs no core. So a step is measured twice: time of the clock, and
time of the processor within it. On 2 cores 64 environments that wait 10 ms make 195 steps/s on 2 workers, 1,480 on 16,
2,600 on 32 and 3,400 on 64; 8 that compute 10 ms gain 1.82 x over one worker on 2, and 1.77 x on 4.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
import psutil

from mission_tui.envs.masks import MASKS, sampled
from mission_tui.errors import raised_by
from mission_tui.fleet.specs.sizes import divisors, nearby_divisors
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import EnvError
from mission_tui.trainer.named_parts import native_refusal

VecKind = Literal["native", "inline", "workers"]

_HAND_OVER_S = 100e-6
"""What a step of all environments costs over their work for each worker: waking it and hearing it.

Measured: 200 to 350 us with 2 workers, 4.5 ms with 32, 8.6 ms with 64.
"""
_WORTH_IT = 0.8
_AS_GOOD = 1.1
_MOST_A_CORE = 16
"""Workers that wait: each takes 26 MiB and about a tenth of a second to start (32: 3.9 s, on 2 cores)."""
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
    busy machine. One that does is measured again, by the clock, with the processes that work for it by then.
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
        family = [os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))]
        before = _processor_s(family)
        steps, elapsed_s = _stepped(env, draw)
        after = _processor_s(family)
        return StepCost(elapsed_s / steps, sum(after[pid] - before[pid] for pid in after.keys() & before) / steps)
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


def _processor_s(pids: Sequence[int]) -> dict[int, float]:
    """Processor seconds of each process that lives, to the nanosecond: `/proc` and psutil count hundredths, and a
    busy machine takes seven steps in the time of a measure.
    """
    seconds = {}
    for pid in pids:
        with suppress(OSError):  # it has ended
            seconds[pid] = time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) returns on Linux
    return seconds


@dataclass(frozen=True, slots=True)
class Choice:
    """How environments are stepped, and the sentence that explains it; `n_workers` is None where there are none."""

    kind: VecKind
    n_workers: int | None
    reason: str


def choose(env: EnvSpec, make: Callable[[], gymnasium.Env[Any, Any]], cores: int) -> Choice:
    """What `env` leaves open, measured where that takes measuring."""
    match env.vec, env.n_workers:
        case ("native" | "inline") as kind, _:
            return Choice(kind, None, "as the preset says")
        case "workers", int(n_workers):
            return Choice("workers", n_workers, "as the preset says")
    if env.vec == "auto" and native_refusal(env) is None:
        return Choice("native", None, f"{env.id} has a batched form with same-step autoreset")
    if env.n_envs == 1:
        alone = "one environment cannot be shared out"
        return Choice("workers", 1, alone) if env.vec == "workers" else Choice("inline", None, alone)
    return cheapest(env, step_cost(make), cores)


def keep(env: EnvSpec, kind: VecKind, n_workers: int | None, cores: int) -> Choice:
    """What an earlier attempt resolved, as far as it still fits: a resume may have changed `n_envs`."""
    if kind != "workers":
        return Choice(kind, None, "as in the attempt before")
    wanted = env.n_workers or n_workers or cores
    return Choice("workers", nearby_divisors(env.n_envs, wanted)[0], "as in the attempt before")


def cheapest(env: EnvSpec, cost: StepCost, cores: int) -> Choice:
    """The fewest workers that are as good as any, or inline where those do not pay and `env.vec` leaves it open."""
    n_envs, inline_s = env.n_envs, env.n_envs * cost.step_s
    counts = _counts(env, cost, cores)
    times = {count: _seconds(n_envs, count, cost, cores) for count in counts}
    n_workers = next(count for count in counts if times[count] <= _AS_GOOD * min(times.values()))
    compared = (
        f"{cost}; {n_envs} environments on {n_workers} worker(s) take {times[n_workers] * 1e3:.2f} ms, "
        f"inline {inline_s * 1e3:.2f} ms on {cores} core(s)"
    )
    if env.vec == "auto" and times[n_workers] >= _WORTH_IT * inline_s:
        return Choice("inline", None, compared + _unshared(env, counts, cores))
    return Choice("workers", n_workers, compared + _next(times, n_workers) + _unshared(env, counts, cores))


def _counts(env: EnvSpec, cost: StepCost, cores: int) -> Sequence[int]:
    """The numbers of workers to choose from, ascending."""
    if env.n_workers is not None:
        return [env.n_workers]
    most = _MOST_A_CORE * cores if cost.waits else cores
    return [count for count in divisors(env.n_envs) if count <= most]


def _seconds(n_envs: int, n_workers: int, cost: StepCost, cores: int) -> float:
    """A step of all: workers step theirs one after another, and no more work is done at once than there are cores."""
    share_s = n_envs // n_workers * cost.step_s
    return _HAND_OVER_S * n_workers + max(share_s, n_envs * cost.work_s / cores)


def _next(times: dict[int, float], n_workers: int) -> str:
    more = next((count for count in times if count > n_workers), None)
    return "" if more is None else f", {more} workers {times[more] * 1e3:.2f} ms"


def _unshared(env: EnvSpec, counts: Sequence[int], cores: int) -> str:
    """A word about cores that stay idle because no larger number of workers divides the environments."""
    if env.n_workers is not None or counts[-1] >= min(cores, env.n_envs):
        return ""
    even = -(-env.n_envs // cores) * cores
    return f"; {env.n_envs} cannot be shared evenly by {cores}, env.n_envs = {even} could"
