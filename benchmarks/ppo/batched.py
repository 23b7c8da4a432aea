"""PPO on 256 to 2,048 batched CartPoles: the fast engine beside SB3's PPO on the very same batched environment."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

import stable_baselines3

from benchmarks.ppo.batched_cartpole import BatchedCartPole
from benchmarks.ppo.external import Program, bare_torch
from benchmarks.ppo.matmul import KERNELS, arithmetic_s
from benchmarks.ppo.side import EPOCHS, STEPS, Side, show, side, take_turns
from benchmarks.results import Row
from benchmarks.rows import compared
from mission_tui.trainer.ppo import PPO, FastPPO

__all__ = ["LANES", "rows"]

LANES = (256, 1024, 2048)
BATCH = 8192
GOAL = 1.25
FLOOR_S = 5.0


def rows(lanes: int, rounds: int) -> Iterator[Row]:
    """Ours over SB3, over our own stock engine, and over a bare torch loop, which is run once in a while."""
    ours = side("fast, batched", FastPPO, BatchedCartPole(lanes), BATCH)
    stock = side("our stock, batched", PPO, BatchedCartPole(lanes), BATCH)
    sb3 = side("SB3 PPO, batched", stable_baselines3.PPO, BatchedCartPole(lanes), BATCH)
    take_turns([ours, stock, sb3], rounds)
    show(f"{lanes} batched lanes x {STEPS} steps, minibatch {BATCH}, {EPOCHS} epochs, nets 64-64", [ours, stock, sb3])
    what = f"PPO, {lanes:,} batched CartPole-v1 x {STEPS}, minibatch {BATCH}"
    yield compared(what, "steps/s", ours.rates, "SB3 PPO, same batched env", sb3.rates, GOAL, floor(ours, sb3))
    yield beside_the_floor(what, ours, bare_torch(lanes, BATCH), rounds)


def floor(ours: Side, sb3: Side) -> str:
    """The share of the arithmetic in a round, and so the highest ratio that any loop around it could reach."""
    products_s, turn_s = arithmetic_s(ours)
    if not products_s:
        return KERNELS
    share = products_s / turn_s
    ratio = statistics.median(mine / their for mine, their in zip(ours.rates, sb3.rates, strict=True))
    return (
        f"{share:.0%} of our round are matrix products; if all else cost nothing the ratio would be {ratio / share:.2f}"
    )


def beside_the_floor(what: str, ours: Side, program: Program, rounds: int) -> Row:
    """Ours and the bare loop in turn; a row without a goal, because nobody trains with the bare loop."""
    if program.missing is not None:
        return program.unmeasured(what)
    mine, theirs = [], []
    for _ in range(min(rounds, 3)):
        mine.append(ours.model.n_envs * STEPS / ours.turn().wall_s)
        theirs.append(program.rate(FLOOR_S))
    return compared(what, "steps/s", mine, program.name, theirs, None, "the floor: no statistics, no checks, no SB3")
