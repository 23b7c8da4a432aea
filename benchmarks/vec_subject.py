"""One vectorised environment under measurement: brought up, stepped with given actions, weighed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import psutil
from stable_baselines3.common.monitor import Monitor

from mission_tui.envs.channel import EnvRecipe
from mission_tui.trainer.vec_env import InlineVecEnv, WorkersVecEnv

__all__ = ["ACTIONS", "Subject", "brought_up", "inline", "play", "split", "workers"]

ACTIONS = 16
MIB = 2**20


@dataclass(slots=True)
class Subject:
    """A vectorised environment; `up_s` until its first reset was done, `family` the processes that came with it.

    One call of `step` makes `steps` steps. `rates` are environment steps a second and `cpu_us` processor microseconds
    of one, round by round.
    """

    vec: Any
    up_s: float
    family: list[psutil.Process]
    steps: int = 1
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def pss_mib(self) -> float:
        """What the family holds in memory, shared pages by their share."""
        return float(sum(child.memory_full_info().pss for child in self.family)) / MIB

    def cpu_s(self) -> float:
        """Processor seconds of this process and the family's own so far."""
        return time.process_time() + float(sum(sum(child.cpu_times()[:2]) for child in self.family))


def workers(env_id: str, n_envs: int, n_workers: int, *, split: bool = False) -> WorkersVecEnv:
    """Ours on workers, as the trainer builds it."""
    made = gymnasium.make(env_id)
    spaces = made.observation_space, made.action_space
    made.close()
    recipe = EnvRecipe(env_id, {}, ("benchmarks.slow_env",))
    return WorkersVecEnv(recipe, n_envs, spaces, n_workers, all_infos=False, split=split)


def split(env_id: str, n_envs: int, processes: int) -> WorkersVecEnv:
    """Ours on so many processes, of which this is one."""
    return workers(env_id, n_envs, processes - 1, split=True)


def inline(env_id: str, n_envs: int) -> InlineVecEnv:
    """Ours in this process, as the trainer builds it."""
    return InlineVecEnv([lambda: Monitor(gymnasium.make(env_id))] * n_envs)


def brought_up(build: Callable[[], Any], steps: int = 1) -> Subject:
    """Build and reset, and see which processes came with it."""
    us = psutil.Process()
    before = {child.pid for child in us.children(recursive=True)}
    begun = time.perf_counter()
    vec = build()
    vec.reset()
    up_s = time.perf_counter() - begun
    family = [child for child in us.children(recursive=True) if child.pid not in before]
    return Subject(vec, up_s, family, steps)


def play(subject: Subject, actions: list[Any], n_envs: int, seconds: float) -> None:
    """Step for `seconds` and note the round."""
    count, begun, cpu_s = 0, time.perf_counter(), subject.cpu_s()
    while (elapsed := time.perf_counter() - begun) < seconds:
        subject.vec.step(actions[count % ACTIONS])
        count += subject.steps
    subject.rates.append(count * n_envs / elapsed)
    subject.cpu_us.append((subject.cpu_s() - cpu_s) / (count * n_envs) * 1e6)
