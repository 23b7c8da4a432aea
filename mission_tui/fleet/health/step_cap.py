"""Life at the step limit: whether episodes end there, and whether they succeed, as far as the run says either.

The share at the limit is that of idle endings where outcomes are told, else that of the last 100 lengths, else of the
mean length. What nobody says is None: healthy runs live at their limit too, where lasting is the task.
"""

from __future__ import annotations

from collections import deque

from mission_tui.fleet.health.episode_endings import Endings
from mission_tui.fleet.health.rule import Row, RuleContext

__all__ = ["StepCap"]

EPISODES, FEWEST = 100, 50
LEAVE = 0.15


class StepCap:
    """Follows one attempt; `endings` has seen each row before."""

    def __init__(self, context: RuleContext, endings: Endings) -> None:
        self._settings = context.settings
        self._limits = context.limits.stall
        self._endings = endings
        self._at_cap: deque[bool] = deque(maxlen=EPISODES)
        self._success_rate: float | None = None
        self._mean_length: float | None = None
        self._late = False

    def update(self, row: Row) -> None:
        """Take in one update."""
        total, cap = self._settings.total_timesteps, self._settings.max_episode_steps
        self._late = total is not None and row.timesteps >= self._limits.after_share * total
        self._success_rate = row.metrics.get("rollout/success_rate", self._success_rate)
        self._mean_length = row.metrics.get("rollout/ep_len_mean", self._mean_length)
        if cap is not None:
            self._at_cap.extend([length >= cap for length in row.lengths[-EPISODES:]])

    @property
    def share(self) -> float | None:
        """Share of episodes at the limit."""
        idle, cap = self._endings.idle_share, self._settings.max_episode_steps
        if idle is not None:
            return idle
        if len(self._at_cap) >= FEWEST:
            return sum(self._at_cap) / len(self._at_cap)
        if cap is None or self._mean_length is None or self._at_cap:
            return None
        return 1.0 if self._mean_length >= self._limits.cap_share * cap else 0.0

    @property
    def success(self) -> float | None:
        """Share of episodes that succeed."""
        won = self._endings.won_share
        return self._success_rate if won is None else won

    @property
    def over(self) -> bool:
        """Whether after 30 % of the budget nearly every episode ends at the limit and hardly one succeeds."""
        share, success, limits = self.share, self.success, self._limits
        if not self._late or share is None or success is None:
            return False
        return share >= limits.cap_share and success < limits.success_share

    @property
    def calm(self) -> bool:
        """Whether clearly more episodes succeed, or clearly fewer end at the limit, than `over` asks for."""
        share, success, limits = self.share, self.success, self._limits
        if share is None or success is None:
            return True
        return success >= 2.0 * limits.success_share or share < limits.cap_share - LEAVE
