"""Steps per second of PPO, rollout and update together: the fast engine beside Stable-Baselines3's own PPO.

Rounds are interleaved in one process with one torch thread; ratios are taken round by round, of wall-clock and of this
process's processor time, because the machine may be busy. Run: python -m benchmarks.ppo [--rounds N] [--shape N ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import stable_baselines3
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from benchmarks.batched_cartpole import BatchedCartPole
from mission_tui.trainer.ppo import PPO, FastPPO

STEPS, EPOCHS = 128, 4
BATCH = {16: 512, 256: 8192, 1024: 8192, 2048: 8192}
WARM_UP = 2


class Silent(BaseCallback):
    """SB3 wants a callback."""

    def _on_step(self) -> bool:
        return True


@dataclass
class Side:
    """One trainer on one environment, and the seconds of its rounds: (wall, processor, wall of the rollout)."""

    name: str
    model: Any
    rounds: list[tuple[float, float, float]] = field(default_factory=list)

    def turn(self) -> None:
        """One rollout and one update."""
        model, wall, cpu = self.model, time.perf_counter(), time.process_time()
        if isinstance(model, PPO):
            model.collect()
            rollout = time.perf_counter() - wall
            update = model.update()
            assert update is not None
            update.read(model)
        else:
            callback = Silent()
            callback.init_callback(model)
            model.collect_rollouts(model.env, callback, model.rollout_buffer, STEPS)
            rollout = time.perf_counter() - wall
            model.train()
        self.rounds.append((time.perf_counter() - wall, time.process_time() - cpu, rollout))


def side(name: str, engine: type[stable_baselines3.PPO], vec: VecEnv) -> Side:
    """A model of `engine` on `vec`, ready for its first rollout."""
    model = engine(
        "MlpPolicy", vec, n_steps=STEPS, batch_size=BATCH[vec.num_envs], n_epochs=EPOCHS, seed=1, device="cpu"
    )
    model.set_logger(Logger(None, []))
    model._setup_learn(0)
    return Side(name, model)


def sides(lanes: int) -> list[Side]:
    """Ours first; its peers after it."""
    batched: Callable[[], VecEnv] = lambda: BatchedCartPole(lanes)  # noqa: E731
    found = [
        side("fast, batched", FastPPO, batched()),
        side("our stock, batched", PPO, batched()),
        side("SB3, batched", stable_baselines3.PPO, batched()),
    ]
    if lanes == min(BATCH):
        found.append(side("SB3, DummyVecEnv", stable_baselines3.PPO, make_vec_env("CartPole-v1", lanes)))
    return found


def report(lanes: int, ours: Side, peers: list[Side]) -> None:
    """Print steps per second and ratios: medians, with the middle half of the rounds."""
    print(f"\n{lanes} lanes x {STEPS} steps, minibatch {BATCH[lanes]}, {EPOCHS} epochs, nets 64-64")
    for each in [ours, *peers]:
        wall, cpu, rollout = (statistics.median(column) for column in zip(*each.rounds, strict=True))
        rate, bare = lanes * STEPS / wall, lanes * STEPS / cpu
        print(
            f"  {each.name:20} {rate:9,.0f} steps/s ({bare:9,.0f} per processor second), rollout {rollout / wall:.0%}"
        )
    for peer in peers:
        for column, clock in enumerate(("wall", "processor")):
            ratios = [their[column] / our[column] for their, our in zip(peer.rounds, ours.rounds, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            print(f"  fast over {peer.name:20} {middle:.2f} x by {clock:9} (middle half {low:.2f} to {high:.2f})")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--shape", type=int, nargs="*", choices=sorted(BATCH), default=sorted(BATCH))
    arguments = parser.parse_args()
    th.set_num_threads(1)
    for lanes in arguments.shape:
        ours, *peers = sides(lanes)
        for _ in range(WARM_UP + arguments.rounds):
            for each in (ours, *peers):
                each.turn()
        for each in (ours, *peers):
            del each.rounds[:WARM_UP]
        report(lanes, ours, peers)
    print(f"\ntorch {th.__version__}, load {', '.join(f'{load:.1f}' for load in os.getloadavg())} at the end")


if __name__ == "__main__":
    main()
