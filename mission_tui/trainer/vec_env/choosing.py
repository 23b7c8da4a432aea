"""`env.vec = "auto"`: native where a batched form will do, else the cheaper of inline and workers, measured."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from typing import Any, Literal

import gymnasium

from mission_tui.fleet.spec import EnvSpec
from mission_tui.trainer.env_ids import native_refusal
from mission_tui.trainer.vec_env.workers import default_workers

__all__ = ["VecKind", "cheaper", "choose_kind", "step_seconds"]

VecKind = Literal["native", "inline", "workers"]

_MEASURE_S = 0.15
_WAITS_A_STEP = 0.5
_HAND_OVER_S = 200e-6
"""What a step of all environments costs over their work: waking the workers and being woken (200-350 us measured)."""
_WORTH_IT = 0.8


def choose_kind(env: EnvSpec, make: Callable[[], gymnasium.Env[Any, Any]]) -> tuple[VecKind, str]:
    """The kind for `env` and the sentence that explains it."""
    if native_refusal(env) is None:
        return "native", f"{env.id} has a batched form with same-step autoreset"
    n_workers = env.n_workers or default_workers(env.n_envs)
    return cheaper(env.n_envs, step_seconds(make), n_workers, len(os.sched_getaffinity(0)))


def step_seconds(make: Callable[[], gymnasium.Env[Any, Any]]) -> float:
    """Seconds of one step of one environment with random actions, resets included but not the very first step.

    Of an environment that computes these are seconds of the processor, which do not grow on a busy machine; of one that
    waits for something else (a simulator, a socket), seconds of the clock.
    """
    env = make()
    try:
        env.reset()
        env.step(env.action_space.sample())
        env.reset()
        steps, begun, worked, waits = 0, time.perf_counter(), time.thread_time(), _waits()
        while (elapsed := time.perf_counter() - begun) < _MEASURE_S:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps += 1
            if terminated or truncated:
                env.reset()
        computes = _waits() - waits < _WAITS_A_STEP * steps
        return (time.thread_time() - worked if computes else elapsed) / steps
    finally:
        env.close()


def _waits() -> int:
    """How often this thread has given the processor away of its own accord; being preempted does not count."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def cheaper(n_envs: int, step_s: float, n_workers: int, cores: int) -> tuple[VecKind, str]:
    """Inline or `n_workers` workers for `n_envs` environments of `step_s` seconds a step on `cores` cores, and why."""
    measured = f"one step takes {step_s * 1e6:,.0f} us"
    if n_envs == 1:
        return "inline", f"{measured}; one environment cannot be shared out"
    inline_s = n_envs * step_s
    at_once = min(n_workers, cores)
    workers_s = _HAND_OVER_S + step_s * -(-n_envs // at_once)
    compared = (
        f"{measured}; {n_envs} environments on {n_workers} workers take {workers_s * 1e3:.2f} ms, "
        f"inline {inline_s * 1e3:.2f} ms on {cores} core(s)"
    )
    return ("workers" if workers_s < _WORTH_IT * inline_s else "inline"), compared
