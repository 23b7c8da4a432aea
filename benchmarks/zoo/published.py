"""What the RL zoo published of each task, and how near our seeds must come to it.

The figures are read from the zoo's own table, which lies beside the checkout; nothing of it is copied here.
"""

from __future__ import annotations

import csv
import importlib.util
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mission_tui.errors import UsageError

__all__ = ["TABLE", "TASKS", "Published", "Task", "read_published"]

TABLE = Path(__file__).resolve().parents[3] / "shared" / "data" / "zoo_ppo_benchmark.csv"
LEAST_MARGIN, MOST_MARGIN = 0.01, 0.05
ERRORS = 2.0


@dataclass(frozen=True, slots=True)
class Task:
    """An environment, the preset with the zoo's settings for it, and the zoo's name of it.

    `module` is what the environment needs beyond the plain install, with the extra that brings it. `engine` is written
    where it is not the default one. A repeat with seeds from `first_seed` on has its reason in `repeat`; `also` are
    settings beyond the preset's that change nothing of what is learned. `algo` is the algorithm's name in the zoo.
    """

    env: str
    preset: str
    zoo_env: str
    module: str = ""
    extra: str = ""
    engine: str = ""
    first_seed: int = 1
    repeat: str = ""
    also: tuple[str, ...] = ()
    algo: str = "ppo"

    @property
    def name(self) -> str:
        """What it is called in a table."""
        if self.algo != "ppo":
            return f"{self.env}, {self.algo.upper()}"
        if self.repeat:
            return f"{self.env}, seeds from {self.first_seed}"
        return f"{self.env}, engine {self.engine}" if self.engine else self.env

    @property
    def unjudged(self) -> str:
        """Why its figures are shown and not judged; empty where they are judged."""
        if self.env != self.zoo_env:
            return f"the zoo trained {self.zoo_env}, another version"
        if self.repeat:
            return self.repeat
        return "shown beside the default engine" if self.engine else ""

    @property
    def missing(self) -> str:
        """Why it cannot be trained here; empty where it can."""
        if not self.module or importlib.util.find_spec(self.module) is not None:
            return ""
        return f"needs the `{self.extra}` extra"


TASKS = (
    Task("CartPole-v1", "cartpole", "CartPole-v1"),
    Task("Pendulum-v1", "pendulum", "Pendulum-v1"),
    Task("Acrobot-v1", "acrobot", "Acrobot-v1"),
    Task("MountainCar-v0", "mountaincar", "MountainCar-v0"),
    Task("LunarLander-v3", "lunarlander", "LunarLander-v2", "Box2D", "envs"),
    Task("MountainCarContinuous-v0", "zoo-mountaincar-continuous", "MountainCarContinuous-v0"),
    Task("Pendulum-v1", "pendulum-sac", "Pendulum-v1", algo="sac"),
    Task("MountainCarContinuous-v0", "mountaincar-continuous-td3", "MountainCarContinuous-v0", algo="td3"),
    Task("CartPole-v1", "cartpole-dqn", "CartPole-v1", algo="dqn"),
    # SB3's numbers to the last bit, where the default engine's are SB3's up to rounding: is a miss the engine's?
    Task("CartPole-v1", "cartpole", "CartPole-v1", engine="stock"),
    # Five other seeds, because one of the first five forgot what it knew. It takes nothing back of their verdict.
    Task(
        *("CartPole-v1", "cartpole", "CartPole-v1"),
        first_seed=6,
        repeat="a repeat with other seeds",
        also=("keep.checkpoint.every_steps=10000", "keep.checkpoint.last=10"),
    ),
)


@dataclass(frozen=True, slots=True)
class Published:
    """One row of the zoo's table: mean and standard deviation of the return over the `episodes` of one agent."""

    mean: float
    std: float
    episodes: int

    @property
    def error(self) -> float:
        """The standard error of its mean: of one agent, so it says nothing of how its seeds would scatter."""
        return self.std / math.sqrt(self.episodes)

    def error_apart(self, means: Sequence[float]) -> float:
        """The standard error of the difference to the mean of `means`, one of each seed."""
        ours = statistics.stdev(means) / math.sqrt(len(means)) if len(means) > 1 else 0.0
        return math.hypot(self.error, ours)

    def bound(self, means: Sequence[float] = ()) -> float:
        """The least mean of `means` that meets it: two standard errors of the difference below it, and of its size one
        percent at least and five at most. So a seed that learned nothing is not excused by the spread that it makes.
        """
        size = abs(self.mean)
        return self.mean - max(LEAST_MARGIN * size, min(ERRORS * self.error_apart(means), MOST_MARGIN * size))

    def is_met(self, means: Sequence[float]) -> bool:
        """Whether the seeds came to what was published."""
        return statistics.fmean(means) >= self.bound(means)


# DLR-RM/rl-baselines3-zoo @ 22e3ff2 (MIT), benchmark.md: the table beside the checkout has PPO's rows alone.
OTHERS = {
    ("sac", "Pendulum-v1"): Published(-156.995, 88.714, 750),
    ("td3", "MountainCarContinuous-v0"): Published(93.483, 0.075, 2275),
    ("dqn", "CartPole-v1"): Published(500.0, 0.0, 300),
}
"""What the zoo published of other algorithms."""


def read_published(table: Path) -> dict[str, Published]:
    """PPO's rows by the zoo's name of the environment. Raises `UsageError` for a file that is no such table."""
    try:
        with table.open(encoding="utf-8", newline="") as file:
            return {
                row["env_id"]: Published(float(row["mean_reward"]), float(row["std_reward"]), int(row["eval_episodes"]))
                for row in csv.DictReader(file)
                if row["algo"] == "ppo"
            }
    except OSError as error:
        raise UsageError(f"--published {table}: cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise UsageError(f"--published {table}: not the zoo's table of results ({error!r})") from None
