"""The reward of a decision: what was gained, minus what it cost, plus what an ending pays."""

from __future__ import annotations

import numpy as np

from mission_tui.envs.fields import Floats, Ints
from mission_tui.envs.mission import OUTCOMES, Mission

__all__ = ["RewardModel"]


class RewardModel:
    """Prices of a mission."""

    def __init__(self, mission: Mission) -> None:
        self._prices = mission.rewards
        self._endings = np.array([0.0, *(getattr(mission.rewards.outcome, name) for name in OUTCOMES)])

    def compute(self, gain_m: Floats, capture_gain_s: Floats, lost: Ints, outcome: Ints) -> Floats:
        """Reward (N,) for metres and capture seconds gained, units lost in this decision, and the outcome code."""
        prices = self._prices
        reward: Floats = prices.progress_per_m * gain_m + prices.capture_per_s * capture_gain_s
        reward -= prices.step_cost
        reward -= prices.unit_lost * lost
        reward += self._endings[outcome]
        return reward
