"""What the loop, the boundaries and the players of a run need of whatever learns: PPO, or another algorithm of SB3's.

The loop asks for one update after the other; what an update is, how it is given up half way, and what besides the
policy has to be kept to go on, each algorithm says for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.fleet.events.outcome import Phase
from mission_tui.trainer.callbacks import Callbacks
from mission_tui.trainer.running_time import unstopped_s
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env.episodes import Act, EpisodeTally

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Advanced:
    """What came of one update: its signals by tag, and the seconds that went into each half of it."""

    metrics: Mapping[str, Any]
    rollout_s: float
    update_s: float
    env_s: float | None = None


class Replayed(Protocol):
    """A replay buffer that a boundary goes back to without having copied it."""

    @property
    def size_bytes(self) -> int:
        """Bytes that it will have in a checkpoint once it is full."""

    def mark(self) -> None:
        """A boundary is taken here."""

    def write(self, path: Path) -> None:
        """Write it as it was at the last mark, to which it then returns."""

    def read(self, path: Path) -> str:
        """Take over what another one wrote; "" if that is exactly what it was, else what is otherwise."""


class Learner(BaseAlgorithm):
    """`stop_asked` is looked at at every environment step and minibatch; `episodes` counts what ended.

    `callbacks` are those of the preset; `replay` is the replay buffer, None of an algorithm without one; it is in
    checkpoints if it `keeps_replay`.
    """

    algo: ClassVar[str] = ""
    stop_asked: Callable[[], bool]
    episodes: EpisodeTally
    callbacks: Callbacks | None
    replay: Replayed | None = None
    keeps_replay: bool = True

    def advance(self, enter: Callable[[Phase], None], remaining: Callable[[int], float]) -> Advanced | None:
        """One update; None if a stop was asked or a callback ended it, and only an earlier boundary may be saved then.

        `enter` is told what begins, `remaining` says how much of the budget is left after so many timesteps (1 to 0).
        Raises `CallbackError`, `EnvError` and `NonFiniteError`.
        """
        raise NotImplementedError

    def player(self, env: VecEnv, *, deterministic: bool) -> Act:
        """What chooses actions in `env` from its reset on; `env` is wrapped as the model's own."""
        return lambda observations, _: self.predict(observations, deterministic=deterministic)[0]

    def memory(self) -> Tree | None:
        """A copy of what the policy remembers of the episodes that are under way; None if it remembers nothing."""
        return None

    def remember(self, memory: Tree) -> None:
        """Go on with a `memory` of the same policy and as many environments."""

    def optimizers(self) -> tuple[th.optim.Optimizer, ...]:
        """Everything that has moments to keep."""
        return (self.policy.optimizer,)

    def learned_besides(self) -> dict[str, th.Tensor]:
        """What is learned outside of the policy, by a name that no parameter of a policy has."""
        return {}

    def counters(self) -> Tree | None:
        """What it counts and draws besides timesteps, updates and schedules; None if nothing."""
        return None

    def count_from(self, counters: Tree) -> None:
        """Go on from such `counters`."""


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What `work` returned, and its seconds."""
    begun_s = unstopped_s()
    result = work()
    return result, unstopped_s() - begun_s
