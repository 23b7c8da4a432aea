"""Raw stepping: our env workers beside SB3's and Gymnasium's vectorised environments, in one run, in turn.

Two processes step on two cores: this one and a worker ("split"), for which the goals are, and beside it two workers for
which this one waits. Actions are random and the same for all; nothing is learned. SB3's and ours carry episode
statistics, Gymnasium's do not. Ratios are those of neighbouring rounds, so that a busy machine hurts both sides alike;
nothing is asserted.
Run: python -m benchmarks.stepping [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

import benchmarks.slow_env  # noqa: F401 - registers it
from benchmarks.free_loops import CHUNK, FreeLoops
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import best_of, bounded, compared, unmeasured
from benchmarks.vec_subject import ACTIONS, MIB, Subject, brought_up, inline, play, split, workers

OURS = "split"
ALONE = "workers"
HAND_OVER = "split of nothing"
FREE = "loops, no hand-over"
GOALS = {"CartPole-v1": (12.0, 1.25), "LunarLander-v3": (6.0, 1.6), "HalfCheetah-v5": (4.0, 1.25)}
"""At least so many times SB3's process per environment, and the best that steps in its own process."""
SUBPROC, IN_PROCESS = "SB3 SubprocVecEnv", "best of SB3 Dummy, gymnasium Sync"
SUBPROC_MIB = 160
WARM_UP = 2
UPS = 5
UP_S, PSS_MIB = 0.3, 80.0
HANDED_OVER, HAND_OVER_US = 32, 40.0


def monitored(env_id: str) -> gymnasium.Env[Any, Any]:
    """One environment as SB3's `make_vec_env` makes it."""
    return Monitor(gymnasium.make(env_id))


def builders(
    env_id: str, n_envs: int, processes: int, subproc: bool, actions: list[Any]
) -> dict[str, Callable[[], Any]]:
    """Every subject of the comparison by its name."""
    make, single = partial(monitored, env_id), partial(gymnasium.make, env_id)
    found: dict[str, Callable[[], Any]] = {
        OURS: partial(split, env_id, n_envs, processes),
        ALONE: partial(workers, env_id, n_envs, processes),
        HAND_OVER: partial(split, "Still-v0", n_envs, processes),
        FREE: partial(FreeLoops, env_id, n_envs, processes, actions),
        "SB3 Dummy": lambda: DummyVecEnv([make] * n_envs),
        "gymnasium Sync": lambda: gymnasium.vector.SyncVectorEnv([single] * n_envs),
        "gymnasium Async": lambda: gymnasium.vector.AsyncVectorEnv([single] * n_envs),
    }
    if subproc:
        found[SUBPROC] = lambda: SubprocVecEnv([make] * n_envs, start_method="forkserver")
    return found


def fits(n_envs: int) -> bool:
    """Whether a process per environment, each with torch, would leave the machine a third of its free memory."""
    return n_envs * SUBPROC_MIB * MIB < psutil.virtual_memory().available * 2 / 3


def compare(env_id: str, n_envs: int, options: argparse.Namespace) -> Iterator[Row]:
    """All subjects on `n_envs` environments: prints what was seen, yields what there are goals for."""
    space = gymnasium.make(env_id).action_space
    space.seed(0)
    actions = [np.array([space.sample() for _ in range(n_envs)]) for _ in range(ACTIONS)]
    subproc = n_envs <= options.subproc_most and fits(n_envs)
    subjects = {
        name: brought_up(build, CHUNK if name == FREE else 1)
        for name, build in builders(env_id, n_envs, options.processes, subproc, actions).items()
    }
    for _ in range(WARM_UP + options.rounds):
        for name, subject in subjects.items():
            play(
                subject,
                [np.zeros(n_envs, dtype=int)] * ACTIONS if name == HAND_OVER else actions,
                n_envs,
                options.seconds,
            )
    memory = {name: subject.pss_mib() for name, subject in subjects.items()}
    for subject in subjects.values():
        subject.vec.close()
        del subject.rates[:WARM_UP], subject.cpu_us[:WARM_UP]
    show(f"{n_envs} x {env_id}", subjects, memory)
    yield from stepping_rows(env_id, n_envs, options.processes, subjects)
    if env_id == "CartPole-v1" and n_envs == max(options.n_envs):
        yield from bring_up_rows(n_envs, options.processes, subjects, memory)


def stepping_rows(env_id: str, n_envs: int, processes: int, subjects: dict[str, Subject]) -> Iterator[Row]:
    """Ours over a process per environment, and over the best without processes; and the latter for workers alone."""
    what = f"raw stepping, {n_envs} x {env_id}, {processes} processes"
    over_subproc, over_in_process = GOALS.get(env_id, (None, None))
    ours = subjects[OURS]
    fastest = most_per_s(subjects)
    if SUBPROC in subjects:
        over = fastest / statistics.median(subjects[SUBPROC].rates)
        floor = f"no more than {over:.1f} x by the hand-over, see below"
        yield compared(what, "steps/s", ours.rates, SUBPROC, subjects[SUBPROC].rates, over_subproc, floor)
    else:
        why = f"{n_envs} processes with torch need about {n_envs * SUBPROC_MIB / 1024:.0f} GiB, or --subproc-most"
        yield unmeasured(what, f">= {over_subproc:g} x" if over_subproc else "", why, SUBPROC)
    in_process = best_of(subjects["SB3 Dummy"].rates, subjects["gymnasium Sync"].rates)
    mine, theirs = (statistics.median(subjects[name].cpu_us) for name in (OURS, "gymnasium Sync"))
    hand_over_us = n_envs / statistics.median(subjects[HAND_OVER].rates) * 1e6
    free = statistics.median(subjects[FREE].rates) / statistics.median(in_process)
    floor = (
        f"{processes} processes that step their share and wait for nobody reach {free:.2f} x here; a step of {n_envs} "
        f"environments that do nothing takes {hand_over_us:.0f} us in ours: with that hand-over "
        f"{fastest / statistics.median(in_process):.2f} x; one step costs the processor {mine:.1f} us in our "
        f"{processes} processes and {theirs:.1f} us in one (Sync)"
    )
    yield compared(what, "steps/s", ours.rates, IN_PROCESS, in_process, over_in_process, floor)
    what = f"stepping on workers alone, {n_envs} x {env_id}, {processes} workers"
    yield compared(what, "steps/s", subjects[ALONE].rates, IN_PROCESS, in_process, None)


def most_per_s(subjects: dict[str, Subject]) -> float:
    """Steps a second if the hand-over were all that is added to what the processes do that wait for nobody."""
    return 1 / (1 / statistics.median(subjects[HAND_OVER].rates) + 1 / statistics.median(subjects[FREE].rates))


def bring_up_rows(n_envs: int, n_workers: int, subjects: dict[str, Subject], memory: dict[str, float]) -> Iterator[Row]:
    """How long until the first reset is done, several times over, and what the workers hold."""
    ups = [subjects[ALONE].up_s]
    for _ in range(UPS - 1):
        again = brought_up(partial(workers, "CartPole-v1", n_envs, n_workers))
        again.vec.close()
        ups.append(again.up_s)
    peer = subjects.get(SUBPROC)
    their_up, their_pss = ([peer.up_s], [memory[SUBPROC]]) if peer else ([], [])
    against = SUBPROC if peer else ""
    what = f"of {n_envs} CartPole-v1, {n_workers} workers"
    yield bounded(f"bring-up {what}", "s", ups, at_most=UP_S, against=against, theirs=their_up)
    yield bounded(f"PSS {what}", "MiB", [memory[ALONE]], at_most=PSS_MIB, against=against, theirs=their_pss)


def hand_over_rows(processes: int, rounds: int, seconds: float) -> Iterator[Row]:
    """What a step of 32 environments that do nothing takes, less what one process's share takes by itself: on one
    worker, for which there is a core beside the trainer's, on so many, and shared by this process and workers.
    """
    actions = [np.zeros(HANDED_OVER, dtype=int)] * ACTIONS
    shared: dict[str, tuple[int, Callable[[str, int, int], Any]]]
    shared = {f"{count} worker(s)": (count, workers) for count in (1, processes)}
    shared[f"this process and {processes - 1} worker(s)"] = (processes, split)
    for name, (count, build) in shared.items():
        share = HANDED_OVER // count
        there = brought_up(partial(build, "Still-v0", HANDED_OVER, count))
        here = brought_up(partial(inline, "Still-v0", share))
        for _ in range(WARM_UP + rounds):
            play(there, actions, HANDED_OVER, seconds)
            play(here, [it[:share] for it in actions], share, seconds)
        for subject in (there, here):
            subject.vec.close()
        whole = [HANDED_OVER / rate * 1e6 for rate in there.rates[WARM_UP:]]
        work = [share / rate * 1e6 for rate in here.rates[WARM_UP:]]
        what = f"hand-over of a step, {HANDED_OVER} environments that do nothing, {name}"
        note = f"of {statistics.median(whole):.0f} us for the step, on {len(os.sched_getaffinity(0))} cores"
        over = [step - share_us for step, share_us in zip(whole, work, strict=True)]
        print(f"\n{what}: {statistics.median(over):.0f} us ({min(over):.0f} to {max(over):.0f}), {note}")
        yield bounded(what, "us", over, at_most=HAND_OVER_US, note=note)


def show(title: str, subjects: dict[str, Subject], memory: dict[str, float]) -> None:
    """Print one comparison."""
    print(f"\n{title}")
    for name, subject in subjects.items():
        ratios = [mine / their for mine, their in zip(subjects[OURS].rates, subject.rates, strict=True)]
        print(
            f"  {name:18} {statistics.median(subject.rates):9,.0f} steps/s "
            f"({min(subject.rates):,.0f} to {max(subject.rates):,.0f})   ours {statistics.median(ratios):5.2f} x   "
            f"cpu {statistics.median(subject.cpu_us):5.1f} us   up {subject.up_s:6.2f} s   PSS {memory[name]:6.0f} MiB"
        )


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", nargs="*", default=list(GOALS))
    parser.add_argument("--n-envs", type=int, nargs="*", default=[32, 64])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each round")
    parser.add_argument("--subproc-most", type=int, default=64, help="largest number for SB3's process per environment")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    elsewhere, rows = busy_elsewhere(), list[Row]()
    rows.extend(hand_over_rows(options.processes, options.rounds, options.seconds))
    for env_id in options.envs:
        try:
            gymnasium.make(env_id).close()
        except (gymnasium.error.Error, ImportError) as error:
            rows.append(unmeasured(f"raw stepping, {env_id}", "", f"{error}; pip install 'mission-tui[envs]'"))
            continue
        for n_envs in options.n_envs:
            rows.extend(compare(env_id, n_envs, options))
    if options.json is not None:
        write_sheet(
            Sheet("Raw stepping", asked_as("benchmarks.stepping"), tuple(rows), elsewhere=elsewhere), options.json
        )


if __name__ == "__main__":
    main()
