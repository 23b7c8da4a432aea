"""Raw stepping: our env workers beside SB3's and Gymnasium's vectorised environments, in one run, in turn.

Actions are random and the same for all; nothing is learned. SB3's and ours carry episode statistics, Gymnasium's do
not. Every ratio is the median of ratios of neighbouring rounds, so that a busy machine hurts both sides alike; nothing
is asserted. Run: python -m benchmarks.stepping [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import benchmarks.slow_env  # noqa: F401 - registers it
from mission_tui.envs.recipe import EnvRecipe
from mission_tui.trainer.vec_env import WorkersVecEnv

OURS = "workers"
GOALS = {"SB3 Subproc": 12.0, "best in process": 1.25}
MIB = 2**20
ACTIONS = 16
WARM_UP = 1


@dataclass(slots=True)
class Subject:
    """One vectorised environment, brought up; `up_s` until the first reset was done, `family` its own processes."""

    vec: Any
    up_s: float
    family: list[psutil.Process]
    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    @property
    def memory_mib(self) -> float:
        return sum(child.memory_full_info().pss for child in self.family) / MIB

    def cpu_s(self) -> float:
        """Processor seconds of this process and the subject's own so far."""
        return time.process_time() + sum(sum(child.cpu_times()[:2]) for child in self.family)


def monitored(env_id: str) -> gymnasium.Env[Any, Any]:
    """One environment as SB3's `make_vec_env` makes it."""
    return Monitor(gymnasium.make(env_id))


def workers(env_id: str, n_envs: int, n_workers: int) -> WorkersVecEnv:
    """Ours, as the trainer builds it."""
    made = gymnasium.make(env_id)
    spaces = made.observation_space, made.action_space
    return WorkersVecEnv(EnvRecipe(env_id, {}, ("benchmarks.slow_env",)), n_envs, spaces, n_workers, all_infos=False)


def brought_up(build: Callable[[], Any]) -> Subject:
    """Build and reset, and see which processes came with it."""
    us = psutil.Process()
    before = {child.pid for child in us.children(recursive=True)}
    begun = time.perf_counter()
    vec = build()
    vec.reset()
    up_s = time.perf_counter() - begun
    family = [child for child in us.children(recursive=True) if child.pid not in before]
    return Subject(vec, up_s, family)


def play(subject: Subject, actions: list[Any], n_envs: int, seconds: float) -> None:
    """Step for `seconds`; note environment steps a second, and the processor time of one."""
    count, begun, cpu_s = 0, time.perf_counter(), subject.cpu_s()
    while (elapsed := time.perf_counter() - begun) < seconds:
        subject.vec.step(actions[count % ACTIONS])
        count += 1
    subject.rates.append(count * n_envs / elapsed)
    subject.cpu_us.append((subject.cpu_s() - cpu_s) / (count * n_envs) * 1e6)


def builders(env_id: str, n_envs: int, n_workers: int, subproc: bool) -> dict[str, Callable[[], Any]]:
    """Every subject of the comparison by its name."""
    make, single = partial(monitored, env_id), partial(gymnasium.make, env_id)
    found: dict[str, Callable[[], Any]] = {
        OURS: partial(workers, env_id, n_envs, n_workers),
        "SB3 Dummy": lambda: DummyVecEnv([make] * n_envs),
        "gymnasium Sync": lambda: gymnasium.vector.SyncVectorEnv([single] * n_envs),
        "gymnasium Async": lambda: gymnasium.vector.AsyncVectorEnv([single] * n_envs),
    }
    if subproc:
        found["SB3 Subproc"] = lambda: SubprocVecEnv([make] * n_envs, start_method="forkserver")
    return found


def compare(env_id: str, n_envs: int, options: argparse.Namespace) -> dict[str, Any]:
    """All subjects on `n_envs` environments: rates, bring-up, memory, and ours over each."""
    space = gymnasium.make(env_id).action_space
    actions = [np.array([space.sample() for _ in range(n_envs)]) for _ in range(ACTIONS)]
    subproc = n_envs <= options.subproc_most
    subjects = {name: brought_up(build) for name, build in builders(env_id, n_envs, options.workers, subproc).items()}
    for _ in range(WARM_UP + options.rounds):
        for subject in subjects.values():
            play(subject, actions, n_envs, options.seconds)
    memory = {name: subject.memory_mib for name, subject in subjects.items()}
    for subject in subjects.values():
        subject.vec.close()
        del subject.rates[:WARM_UP]
    rows = {name: {**_row(subject, subjects[OURS]), "memory_mib": memory[name]} for name, subject in subjects.items()}
    in_process = [max(pair) for pair in zip(subjects["SB3 Dummy"].rates, subjects["gymnasium Sync"].rates, strict=True)]
    best = statistics.median(ours / theirs for ours, theirs in zip(subjects[OURS].rates, in_process, strict=True))
    return {"env": env_id, "n_envs": n_envs, "load": os.getloadavg()[0], "rows": rows, "best in process": best}


def _row(subject: Subject, ours: Subject) -> dict[str, float]:
    ratios = [mine / theirs for mine, theirs in zip(ours.rates, subject.rates, strict=True)]
    return {
        "steps_per_s": statistics.median(subject.rates),
        "lowest": min(subject.rates),
        "highest": max(subject.rates),
        "ours_over_it": statistics.median(ratios),
        "up_s": subject.up_s,
        "cpu_us": statistics.median(subject.cpu_us),
    }


def scaling(options: argparse.Namespace) -> dict[int, list[float]]:
    """Steps a second of eight 10 ms environments for one worker, for two, and for twice the cores."""
    cores = len(os.sched_getaffinity(0))
    counts = sorted({1, 2, cores, min(8, 2 * cores)})
    actions = [np.zeros(8, dtype=np.int64)] * ACTIONS
    subjects = {count: brought_up(partial(workers, "Slow-v0", 8, count)) for count in counts}
    for _ in range(options.rounds):
        for subject in subjects.values():
            play(subject, actions, 8, options.seconds)
    for subject in subjects.values():
        subject.vec.close()
    return {count: subject.rates for count, subject in subjects.items()}


def show(table: dict[str, Any]) -> None:
    """Print one comparison, goals and misses."""
    print(f"\n{table['n_envs']} x {table['env']}, load {table['load']:.1f}")
    for name, row in table["rows"].items():
        print(
            f"  {name:16} {row['steps_per_s']:9,.0f} steps/s ({row['lowest']:,.0f} to {row['highest']:,.0f})   "
            f"ours {row['ours_over_it']:5.2f} x   cpu {row['cpu_us']:5.1f} us   "
            f"up {row['up_s']:6.2f} s   PSS {row['memory_mib']:6.0f} MiB"
        )
    if "SB3 Subproc" not in table["rows"]:
        print("  SB3 Subproc      not measured at this size: 150 MiB each; --subproc-most raises the limit")
    reached = {name: table["rows"][name]["ours_over_it"] for name in GOALS if name in table["rows"]}
    for name, ratio in {**reached, "best in process": table["best in process"]}.items():
        goal = GOALS[name]
        print(f"  against {name}: {ratio:.2f} x, goal {goal} x: {'met' if ratio >= goal else 'MISSED'}")


def main() -> None:
    """Measure and print; with `--json` also write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", nargs="*", default=["CartPole-v1", "LunarLander-v3", "HalfCheetah-v5"])
    parser.add_argument("--n-envs", type=int, nargs="*", default=[32, 64])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each round")
    parser.add_argument("--subproc-most", type=int, default=32, help="largest number for SB3's process per environment")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    tables = []
    for env_id in options.envs:
        try:
            gymnasium.make(env_id).close()
        except (gymnasium.error.Error, ImportError) as error:
            print(f"\n{env_id}: not measured ({error})")
            continue
        for n_envs in options.n_envs:
            tables.append(compare(env_id, n_envs, options))
            show(tables[-1])
    slow = scaling(options)
    print(f"\n8 x 10 ms of work, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for count, rates in slow.items():
        gain = statistics.median(rate / one for rate, one in zip(rates, slow[1], strict=True))
        print(f"  {count} workers {statistics.median(rates):8.0f} steps/s   {gain:.2f} x one worker")
    if options.json is not None:
        options.json.write_text(json.dumps({"tables": tables, "slow": slow}, indent=1))


if __name__ == "__main__":
    main()
