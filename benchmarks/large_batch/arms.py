"""The five ways to train that are held against each other, and what one training of each comes to.

All of them are `swarm` (the source's network, entropy coefficient and task of ours) but for what makes the arm.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.campaign import Done, Job
from mission_tui.fleet.events.metrics import UpdateDone, number
from mission_tui.fleet.specs.sizes import BatchPlan, plan_batch

__all__ = ["ARMS", "LARGE", "REFERENCE", "SCALED", "UNSCALED", "Arm", "Learned", "learned"]

PRESET = "swarm"
STEPS = 6_000_000


@dataclass(frozen=True, slots=True)
class Arm:
    """One setting; `assignments` are what makes it differ from the preset."""

    name: str
    assignments: tuple[str, ...]

    def job(self, seed: int, steps: int = STEPS, device: str = "cpu") -> Job:
        """Its training with `seed`, on one thread of the CPU, and on a GPU where `device` is one."""
        fixed = (f"run.total_timesteps={steps}", "run.threads=1", f"run.device={device}")
        return Job(PRESET, seed, (*self.assignments, *fixed))

    @property
    def plan(self) -> BatchPlan:
        """How each of its rollouts is learned from."""
        return plan_batch(self.job(1).spec)


REFERENCE = Arm("256 x 128", ("env.n_envs=256", "ppo.learning_rate=2.5e-4"))
UNSCALED = Arm(
    "2,048 x 128, unscaled",
    ("run.auto_scale=false", "ppo.batch_size=65536", "ppo.n_epochs=4", "ppo.learning_rate=2.5e-4"),
)
RATES = ("2.5e-4", "1.25e-4", "6.25e-5")
SCALED = tuple(Arm(f"2,048 x 128, auto-scaled, lr {rate}", (f"ppo.learning_rate={rate}",)) for rate in RATES)
LARGE = (UNSCALED, *SCALED)
ARMS = (REFERENCE, *LARGE)


@dataclass(frozen=True, slots=True)
class Learned:
    """One training: KL and clip fraction over its updates (median and most), the highest and the last mean return of
    its last hundred episodes, steps per second (median over updates), and what its final policy played. `place` says
    in words where it trained.
    """

    kl: float
    kl_most: float
    clip: float
    clip_most: float
    best: float
    last: float
    steps_per_s: float
    won: float | None
    updates: int
    seed: int = 0
    place: str = ""


def learned(done: Done, updates: Sequence[UpdateDone], seed: int = 0, place: str = "") -> Learned:
    """What a finished training came to. A number that is not finite counts as it is: infinite KL is no missing KL."""
    kl, clip = _values(updates, "train/approx_kl"), _values(updates, "train/clip_fraction")
    returns = _values(updates, "rollout/ep_rew_mean")
    return Learned(
        kl=_median(kl),
        kl_most=max(kl, default=math.nan),
        clip=_median(clip),
        clip_most=max(clip, default=math.nan),
        best=max(returns, default=math.nan),
        last=returns[-1] if returns else math.nan,
        steps_per_s=_median([row.steps_per_s for row in updates]),
        won=done.evaluation.get("won"),
        updates=len(updates),
        seed=seed,
        place=place,
    )


def _values(updates: Sequence[UpdateDone], tag: str) -> list[float]:
    values = (number(row.metrics.get(tag)) for row in updates)
    return [value for value in values if value is not None]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else math.nan
