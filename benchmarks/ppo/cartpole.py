"""PPO on 16 CartPoles x 128 steps, minibatch 512, 4 epochs, nets 64-64: ours beside everybody's.

Two processes are this one and a worker; of two workers this one waits for both. In every round each of ours and each
peer has its turn. What ours is compared with is the best peer of that round. In one process ours is measured with one
thread and with two, and so is each peer: the goals are of the better setting of both, and what ours does with one
thread is compared with peers of one thread besides.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import stable_baselines3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv

from benchmarks.ppo.batched_cartpole import BatchedCartPole
from benchmarks.ppo.external import bare_torch, peers
from benchmarks.ppo.side import WARM_UP, Side, show, side
from benchmarks.results import Row
from benchmarks.rows import best_of, compared
from benchmarks.vec_subject import inline, split, workers
from mission_tui.trainer.ppo import PPO, FastPPO

__all__ = ["rows"]

ENV, LANES, BATCH = "CartPole-v1", 16, 512
TURNS = 10
GOALS = {
    "fast, batched core": None,
    "fast, inline": None,
    "fast, 2 processes": 2.5,
    "fast, 2 workers": None,
    "fast, batched core, 2 threads": 5.0,
    "fast, inline, 2 threads": 4.0,
}
WHAT = "PPO, 16 x CartPole-v1 x 128, minibatch 512"


def rows(rounds: int, seconds: float) -> Iterator[Row]:
    """Ours on a batched core and on single environments over the best peer, then over each; `seconds` of a program."""
    sb3 = stable_baselines3.PPO
    mine = [
        side("fast, batched core", FastPPO, BatchedCartPole(LANES), BATCH, TURNS),
        side("fast, inline", FastPPO, inline(ENV, LANES), BATCH, TURNS),
        side("fast, 2 processes", FastPPO, split(ENV, LANES, 2), BATCH, TURNS),
        side("fast, 2 workers", FastPPO, workers(ENV, LANES, 2), BATCH, TURNS),
        side("fast, batched core, 2 threads", FastPPO, BatchedCartPole(LANES), BATCH, TURNS, threads=2),
        side("fast, inline, 2 threads", FastPPO, inline(ENV, LANES), BATCH, TURNS, threads=2),
        side("our stock, batched core", PPO, BatchedCartPole(LANES), BATCH, TURNS),
    ]
    theirs = [
        side("SB3 PPO, DummyVecEnv", sb3, make_vec_env(ENV, LANES), BATCH, TURNS),
        side("SB3 PPO, SubprocVecEnv", sb3, make_vec_env(ENV, LANES, vec_env_cls=SubprocVecEnv), BATCH, TURNS),
        side("SB3 PPO, batched core", sb3, BatchedCartPole(LANES), BATCH, TURNS),
        side("SB3 PPO, DummyVecEnv, 2 threads", sb3, make_vec_env(ENV, LANES), BATCH, TURNS, threads=2),
        side("SB3 PPO, batched core, 2 threads", sb3, BatchedCartPole(LANES), BATCH, TURNS, threads=2),
    ]
    programs = [*peers(LANES, BATCH), *peers(LANES, BATCH, threads=2), bare_torch(LANES, BATCH)]
    present = [program for program in programs if program.missing is None]
    rates: dict[str, list[float]] = {program.name: [] for program in present}
    for number in range(WARM_UP + rounds):
        for each in (*mine, *theirs):
            each.round()
        for program in present:
            if number >= WARM_UP:  # a program warms up by itself
                rates[program.name].append(program.rate(seconds))
    show(WHAT, [*mine, *theirs])
    for name, found in rates.items():
        print(f"  {name:28} {statistics.median(found):9,.0f} steps/s")
    for each in theirs:
        rates[each.name] = each.rates
    yield from over_the_best(mine[:6], rates)
    for name, found in rates.items():
        if "batched core" not in name and "2 threads" not in name:
            yield compared(f"{WHAT} ({mine[0].name})", "steps/s", mine[0].rates, name, found, None)
    for each in (*mine, *theirs):
        each.close()
    for program in programs:
        if program.missing is not None:
            yield program.unmeasured(WHAT)


def over_the_best(ours: list[Side], peers: dict[str, list[float]]) -> Iterator[Row]:
    """On a batched core over SB3 on the same; each other over the best of the peers as their users have them."""
    for each in ours:
        batched = "batched core" in each.name
        meant = {
            name: found
            for name, found in peers.items()
            if ("batched core" in name) == batched
            and not name.startswith("bare")
            and (each.threads > 1 or "2 processes" in each.name or "2 threads" not in name)
        }
        middle = {name: statistics.median(found) for name, found in meant.items()}
        mostly = max(middle, key=lambda name: middle[name])
        theirs = best_of(*meant.values())
        ratio = statistics.median(mine / their for mine, their in zip(each.rates, theirs, strict=True))
        share = each.rollout_share
        free = f"if the rollout, {share:.0%} of our round, cost nothing, the ratio would be {ratio / (1 - share):.2f}"
        beside = "both sides step the same batched core" if batched else f"best of {', '.join(meant)}"
        told = f"{beside}; mostly {mostly}; {free}"
        against = "SB3 PPO, batched core" if batched else "best peer"
        yield compared(f"{WHAT} ({each.name})", "steps/s", each.rates, against, theirs, GOALS[each.name], told)
