"""`env.vec = "auto"`: native where a batched form will do, else the cheaper of inline and workers, measured."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Literal

import gymnasium

from mission_tui.fleet.spec import EnvSpec
from mission_tui.trainer.env_ids import native_refusal

__all__ = ["VecKind", "cheaper", "choose_kind", "step_seconds"]

VecKind = Literal["native", "inline", "workers"]

_MEASURE_S = 0.15
_PIPE_S = 75e-6
"""What one environment costs the trainer per step over SB3's pipes (13,000 steps/s with 32 CartPoles on two cores)."""
_ENVS_PER_CORE = 4
"""Every worker is a process with its own torch (150 MiB); beyond this many per core they cost more than they bring."""
_WORTH_IT = 0.8


def choose_kind(env: EnvSpec, make: Callable[[], gymnasium.Env[Any, Any]]) -> tuple[VecKind, str]:
    """The kind for `env` and the sentence that explains it."""
    if native_refusal(env) is None:
        return "native", f"{env.id} has a batched form with same-step autoreset"
    return cheaper(env.n_envs, step_seconds(make), len(os.sched_getaffinity(0)))


def step_seconds(make: Callable[[], gymnasium.Env[Any, Any]]) -> float:
    """Seconds of one step of one environment with random actions, resets included."""
    env = make()
    try:
        env.reset()
        steps, begun = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - begun) < _MEASURE_S:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps += 1
            if terminated or truncated:
                env.reset()
        return elapsed / steps
    finally:
        env.close()


def cheaper(n_envs: int, step_s: float, cores: int) -> tuple[VecKind, str]:
    """Inline or workers for `n_envs` environments of `step_s` seconds a step on `cores` cores, and why."""
    measured = f"one step takes {step_s * 1e6:.0f} us"
    if n_envs > _ENVS_PER_CORE * cores:
        return "inline", f"{measured}; {n_envs} worker processes are too many for {cores} cores"
    inline_s = n_envs * step_s
    workers_s = n_envs * _PIPE_S + step_s * -(-n_envs // cores)
    if n_envs > 1 and workers_s < _WORTH_IT * inline_s:
        return "workers", f"{measured}, more than the pipes to {n_envs} workers cost on {cores} cores"
    return "inline", f"{measured}, less than the pipes to {n_envs} workers would cost on {cores} cores"
