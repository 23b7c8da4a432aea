"""Which algorithm wrote a log, told by the tags that it alone writes, and which rules fit it.

Stable-Baselines3 and sb3-contrib name the same thing alike everywhere, so a tag tells an algorithm or its near kin: SAC
cannot be told from TQC, nor DQN from QR-DQN. What is known of PPO's updates says nothing about another algorithm, so
there only the rules of this table judge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

PPO = "PPO"
UNKNOWN = "unknown"
"""A log of returns alone, which any algorithm may have written."""

OF_ANY = ("hang", "nan", "checkpoint-age", "throughput", "drawdown", "stall", "plateau")
"""What every training has: a clock, numbers that have to be finite, a return and the length of its episodes."""

OF_CRITICS = (*OF_ANY, "value-loss")


class Algorithm(Struct, frozen=True):
    """`tags` are written by it or its `kin` alone, and `rules` fit it."""

    name: str
    tags: tuple[str, ...]
    rules: tuple[str, ...] = OF_CRITICS
    kin: tuple[str, ...] = ()


OTHERS = (
    Algorithm("DQN", ("rollout/exploration_rate",), kin=("QRDQN",)),
    Algorithm("SAC", ("train/ent_coef",), (*OF_CRITICS, "ent-coef"), kin=("TQC", "CrossQ")),
    Algorithm("TD3", ("train/actor_loss", "train/critic_loss"), kin=("DDPG",)),
    Algorithm("TRPO", ("train/policy_objective",)),
    Algorithm("A2C", ("train/policy_loss",)),
    Algorithm("ARS", ("train/step_size",), OF_ANY),
)
"""In the order in which they are asked: SAC has the tags of TD3 too."""

RETURNS_ALONE = Algorithm(UNKNOWN, (), OF_ANY)
"""What stands for any algorithm where a log has returns and nothing that was learned."""

_OF_PPO = frozenset(("train/approx_kl", "train/clip_fraction", "train/clip_range", "train/policy_gradient_loss"))
TELLING: frozenset[str] = _OF_PPO.union(*(algorithm.tags for algorithm in OTHERS))
"""The tags that tell an algorithm."""


_OF_SB3 = TELLING | {
    "train/entropy_loss", "train/explained_variance", "train/n_updates", "train/std", "train/value_loss"
}  # fmt: skip


def is_of_no_known_algorithm(tags: Collection[str]) -> bool:
    """Whether `tags` are those of no algorithm of Stable-Baselines3: any trainer of nets writes `train/loss`."""
    return _OF_SB3.isdisjoint(tags)


class RecognizedAlgorithm(Struct, frozen=True):
    """`algorithm` is None where PPO wrote it; `tag` is the one that shows it."""

    algorithm: Algorithm | None
    tag: str


def recognize_algorithm(tags: Collection[str]) -> RecognizedAlgorithm | None:
    """Who wrote a log with `tags`; None where they tell nothing."""
    if ours := min(_OF_PPO.intersection(tags), default=""):
        return RecognizedAlgorithm(None, ours)
    found = ((algorithm, tag) for algorithm in OTHERS for tag in algorithm.tags if tag in tags)
    return next((RecognizedAlgorithm(algorithm, tag) for algorithm, tag in found), None)


def other_called(name: str) -> Algorithm | None:
    """The algorithm, or the one whose kin is called, `name` in Stable-Baselines3, whatever the case."""
    plain = name.lower().replace("-", "").replace("_", "")
    return next((it for it in OTHERS if plain in (it.name.lower(), *map(str.lower, it.kin))), None)


def critic_loss(metrics: Mapping[str, float]) -> str | None:
    """The tag of the value function's loss in a row; None where it has none."""
    for tag in ("train/value_loss", "train/critic_loss"):
        if tag in metrics:
            return tag
    return "train/loss" if "rollout/exploration_rate" in metrics and "train/loss" in metrics else None
