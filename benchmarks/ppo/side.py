"""One trainer on one environment under measurement: a turn is a rollout and an update, of any engine."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import stable_baselines3
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.trainer.ppo import PPO

__all__ = ["EPOCHS", "STEPS", "WARM_UP", "Side", "Turn", "show", "side", "take_turns"]

STEPS, EPOCHS = 128, 4
WARM_UP = 2


class Silent(BaseCallback):
    """SB3 wants a callback."""

    def _on_step(self) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Turn:
    """Seconds of one rollout and update by the clock and of this process's processor; `rollout_s` of the former."""

    wall_s: float
    cpu_s: float
    rollout_s: float


@dataclass
class Side:
    """A model with its environment, and the rounds it has had; in one round it takes `turns` turns, with `threads`."""

    name: str
    model: Any
    turns: int = 1
    threads: int = 1
    rounds: list[Turn] = field(default_factory=list)

    def turn(self) -> Turn:
        """One rollout and one update."""
        model, wall, cpu = self.model, time.perf_counter(), time.process_time()
        if isinstance(model, PPO):
            model.collect()
            rollout_s = time.perf_counter() - wall
            update = model.update()
            assert update is not None
            update.read(model)
        else:
            callback = Silent()
            callback.init_callback(model)
            model.collect_rollouts(model.env, callback, model.rollout_buffer, STEPS)
            rollout_s = time.perf_counter() - wall
            model.train()
        return Turn(time.perf_counter() - wall, time.process_time() - cpu, rollout_s)

    def round(self) -> None:
        """As many turns as make a round, noted by their mean."""
        th.set_num_threads(self.threads)
        taken = [self.turn() for _ in range(self.turns)]
        sums = (sum(turn.wall_s for turn in taken), sum(t.cpu_s for t in taken), sum(t.rollout_s for t in taken))
        self.rounds.append(Turn(*(seconds / self.turns for seconds in sums)))

    @property
    def rates(self) -> list[float]:
        """Environment steps a second of each round after the warm-up."""
        transitions = self.model.n_envs * STEPS
        return [transitions / turn.wall_s for turn in self.rounds[WARM_UP:]]

    @property
    def rates_of_the_processor(self) -> list[float]:
        """The same per second of this process's processor, which a busy machine hardly changes."""
        transitions = self.model.n_envs * STEPS
        return [transitions / turn.cpu_s for turn in self.rounds[WARM_UP:]]

    @property
    def rollout_share(self) -> float:
        """The part of a median round that is the rollout."""
        return median(turn.rollout_s / turn.wall_s for turn in self.rounds[WARM_UP:])

    def close(self) -> None:
        """Let go of the environment's processes."""
        self.model.env.close()


def side(
    name: str, engine: type[stable_baselines3.PPO], vec: VecEnv, batch_size: int, turns: int = 1, threads: int = 1
) -> Side:
    """A model of `engine` on `vec` with nets of 64-64, ready for its first rollout."""
    th.set_num_threads(threads)
    model = engine("MlpPolicy", vec, n_steps=STEPS, batch_size=batch_size, n_epochs=EPOCHS, seed=1, device="cpu")
    model.set_logger(Logger(None, []))
    model._setup_learn(0)
    return Side(name, model, turns, threads)


def take_turns(sides: list[Side], rounds: int) -> None:
    """The warm-up, and `rounds` rounds of every side in turn."""
    for _ in range(WARM_UP + rounds):
        for each in sides:
            each.round()


def show(title: str, sides: list[Side]) -> None:
    """Print what each side did, and the first over each."""
    print(f"\n{title}")
    for each in sides:
        ratios = [mine / their for mine, their in zip(sides[0].rates, each.rates, strict=True)]
        print(
            f"  {each.name:28} {median(each.rates):9,.0f} steps/s "
            f"({median(each.rates_of_the_processor):9,.0f} per processor second), rollout {each.rollout_share:.0%}, "
            f"{sides[0].name} {median(ratios):.2f} x"
        )
