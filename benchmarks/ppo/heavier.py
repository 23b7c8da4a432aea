"""PPO on 32 LunarLander and 32 HalfCheetah: the fast engine in two processes beside SB3 on its better vec env."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import gymnasium
import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from benchmarks.ppo.side import STEPS, WARM_UP, Side, show, side, take_turns
from benchmarks.results import Row
from benchmarks.rows import best_of, compared, unmeasured
from benchmarks.vec_subject import inline, split, workers
from mission_tui.trainer.ppo import FastPPO

__all__ = ["GOALS", "rows"]

LANES, BATCH, PROCESSES = 32, 1024, 2
GOALS = {"LunarLander-v3": 1.5, "HalfCheetah-v5": 1.3}
AGAINST = "best of SB3 PPO on Dummy, Subproc"


def floor(ours: Side, alone: Side, best: list[float]) -> str:
    """The ratio if processes halved the rollout that takes place in one, and waking one took no time."""
    shared_s = statistics.median(turn.rollout_s for turn in alone.rounds[WARM_UP:]) / PROCESSES
    update_s = statistics.median(turn.wall_s - turn.rollout_s for turn in ours.rounds[WARM_UP:])
    ratio = LANES * STEPS / (shared_s + update_s) / statistics.median(best)
    return f"with the rollout of one process shared by {PROCESSES} cores that never wait the ratio would be {ratio:.2f}"


def rows(env_id: str, rounds: int) -> Iterator[Row]:
    """Ours in this process and a worker over the best of SB3's two, and ours in one process and on workers alone, to
    see what comes of what.
    """
    what = f"PPO, {LANES} x {env_id} x 128, minibatch {BATCH}"
    goal = GOALS[env_id]
    try:
        gymnasium.make(env_id).close()
    except (gymnasium.error.Error, ImportError) as error:
        yield unmeasured(what, f">= {goal:g} x", f"{error}; pip install 'mission-tui[envs]'", AGAINST)
        return
    sb3 = stable_baselines3.PPO
    ours = side(f"fast, {PROCESSES} processes", FastPPO, split(env_id, LANES, PROCESSES), BATCH)
    waited_for = side(f"fast, {PROCESSES} workers", FastPPO, workers(env_id, LANES, PROCESSES), BATCH)
    alone = side("fast, inline", FastPPO, inline(env_id, LANES), BATCH)
    dummy = side("SB3 PPO, DummyVecEnv", sb3, make_vec_env(env_id, LANES), BATCH)
    subproc = side("SB3 PPO, SubprocVecEnv", sb3, make_vec_env(env_id, LANES, vec_env_cls=SubprocVecEnv), BATCH)
    sides = [ours, waited_for, alone, dummy, subproc]
    take_turns(sides, rounds)
    show(what, sides)
    best = best_of(dummy.rates, subproc.rates)
    note = (
        f"{ours.rollout_share:.0%} of our round is the rollout, {dummy.rollout_share:.0%} of SB3's on Dummy; "
        f"{floor(ours, alone, best)}"
    )
    yield compared(f"{what} ({ours.name})", "steps/s", ours.rates, AGAINST, best, goal, note)
    for other in (waited_for, alone):
        yield compared(f"{what} ({other.name})", "steps/s", other.rates, AGAINST, best, None)
    for each in sides:
        each.close()
