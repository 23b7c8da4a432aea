"""How episodes end, as `outcomes`, `stall` and `plateau` read it: shares over the last 100 episodes, and their rise.

Outcomes are the environment's own words. An ending is won if one of its words says so and none denies it, idle if it
names the clock or a standstill; what is neither (`crashed`) is neither. Winning has a word in MissionGym, and in a run
that has won before; elsewhere a run without wins may simply have no word for them.

Life at the step limit is the share of idle endings where outcomes are told, else that of the last 100 lengths, else of
the mean length. What is not reported is None: healthy runs live at their limit too, where lasting is the task.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.health.rule import Row, RuleContext
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.text import clean
from mission_tui.fleet.windows import Window

Kind = Literal["won", "idle", "other"]

MISSION_GYM = "MissionGym"
MISSION_GYM_WORDS = frozenset({"captured", "early_success", "all_disabled", "stalled"})
"""Endings that only MissionGym is known to have; `timeout` is everybody's word."""

WON = frozenset(("win", "wins", "won", "success", "successful", "succeeded", "captured", "goal", "solved", "victory"))
DENIED = frozenset(("no", "not", "non", "never", "missed", "lost", "without", "fail", "failed", "failure", "before"))
IDLE = frozenset(("timeout", "timelimit", "truncated", "truncation", "stalled", "stall", "stuck", "idle"))
WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

UNPAID = "best_so_far"
"""MissionGym's shaping under which going back and forth earns nothing."""

FEWEST, ENOUGH = 50, 100
"""Episodes that a share needs (health guide, section 3), and those that it is taken over."""

MOST_UPDATES = 50
LARGEST_COUNT = 1_000_000
NAMED = 3
FOOT = 0.1
"""A rise begins at the newest moment that is within a tenth of it from its lowest."""
CAP_EPISODES, CAP_FEWEST = 100, 50
CAP_LEAVE = 0.15


@lru_cache(maxsize=256)
def kind_of(outcome: str) -> Kind:
    """What the environment's word `outcome` says of an episode."""
    words = {word.lower() for word in WORD.findall(outcome[:80])}
    if words & WON and not words & DENIED:
        return "won"
    return "idle" if words & IDLE or {"time", "limit"} <= words or {"time", "out"} <= words else "other"


def shaping_remedy(settings: Settings) -> tuple[str, tuple[str, ...]]:
    """What stops episodes from earning without getting anywhere, with the assignment where it is ours to make."""
    if not settings.env_id.startswith(MISSION_GYM):
        return "add a small penalty per step, and pay for progress only against the best so far in the episode", ()
    if settings.shaping != UNPAID:
        advice = "pay only for the best distance so far in an episode, which going back and forth cannot earn twice"
        return advice, (f'env.kwargs.shaping="{UNPAID}"',)
    return "see that the goal can be reached in the time there is, and make a step cost more", ()


class Rise(Struct, frozen=True):
    """A significant rise of the share of idle endings within `updates` updates, with the smoothed return of each end.

    `is_paid` is whether the return rose with it.
    """

    idle_then: float
    idle_now: float
    return_then: float
    return_now: float
    is_paid: bool


class Endings:
    """The endings of one attempt, newest 100 episodes or 50 updates."""

    def __init__(self, context: RuleContext) -> None:
        self._returns = context.returns
        self._limits = limits = context.limits.outcomes
        self._rows: list[tuple[int, int, int, Mapping[str, int]]] = []
        self._won = self._idle = 0
        self._then = Window[tuple[int, int, int, float]](limits.updates + 1)
        self._row: Row | None = None
        self.episodes = 0
        self.winnable = context.settings.env_id.startswith(MISSION_GYM)
        self.rise: Rise | None = None

    @classmethod
    def shared(cls, context: RuleContext) -> Endings:
        """The one of all rules of `context`."""
        return context.shared(cls, lambda: cls(context))

    def update(self, row: Row) -> bool:
        """Take in one update, after the run's returns have; whether it had endings to take in.

        The same row again is passed over.
        """
        if not row.outcomes or row is self._row:
            return bool(row.outcomes)
        self._row = row
        counts = {"won": 0, "idle": 0, "other": 0}
        for word, count in row.outcomes.items():
            counts[kind_of(word)] += min(count, LARGEST_COUNT)
            self.winnable = self.winnable or word in MISSION_GYM_WORDS
        self.winnable = self.winnable or counts["won"] > 0
        self._count(counts["won"], counts["idle"], sum(counts.values()), row.outcomes)
        self.rise = None
        if self.episodes >= FEWEST and self._returns.smooth is not None:
            self._then.append((self._won, self._idle, self.episodes, self._returns.smooth))
            self.rise = self._risen()
        return True

    @property
    def full(self) -> bool:
        """Whether shares are over 100 episodes or more."""
        return self.episodes >= ENOUGH

    @property
    def won_share(self) -> float | None:
        """Share of episodes that were won; None before there are 50, or where winning has no word."""
        return self._won / self.episodes if self.winnable and self.episodes >= FEWEST else None

    @property
    def idle_share(self) -> float | None:
        """Share of episodes that the clock or a standstill ended; None before there are 50."""
        return self._idle / self.episodes if self.episodes >= FEWEST else None

    def words(self) -> str:
        """The commonest endings with their shares, in the environment's own words."""
        total: Counter[str] = Counter()
        for *_, outcomes in self._rows:
            total.update({word: min(count, LARGEST_COUNT) for word, count in outcomes.items()})
        shown = total.most_common(NAMED)
        return ", ".join(f"{clean(word, 40)} {count / max(1, self.episodes):.0%}" for word, count in shown)

    def _count(self, won: int, idle: int, total: int, outcomes: Mapping[str, int]) -> None:
        self._rows.append((won, idle, total, outcomes))
        self._won, self._idle, self.episodes = self._won + won, self._idle + idle, self.episodes + total
        while len(self._rows) > MOST_UPDATES or self.episodes - self._rows[0][2] >= ENOUGH:
            won, idle, total, _ = self._rows.pop(0)
            self._won, self._idle, self.episodes = self._won - won, self._idle - idle, self.episodes - total

    def _risen(self) -> Rise | None:
        """Two-proportion z-test of the idle share now against that of the moment from which it rose.

        Where more is won than then, idle endings took the place of worse ones: that is learning.
        """
        now, limits, returns = self._idle / self.episodes, self._limits, self._returns
        if now <= limits.bad_share:
            return None
        lowest = min([idle / total for _, idle, total, _ in self._then])
        foot = lowest + FOOT * (now - lowest)
        won_then, idle_then, total_then, return_then = next(
            moment for moment in reversed(self._then) if moment[1] / moment[2] <= foot
        )
        then, return_now = idle_then / total_then, self._then[-1][3]
        if now - then < limits.rise or self._won * total_then > won_then * self.episodes:
            return None
        pooled = (self._idle + idle_then) / (self.episodes + total_then)
        error = math.sqrt(pooled * (1.0 - pooled) * (1.0 / self.episodes + 1.0 / total_then))
        if now - then <= limits.z * error:
            return None
        is_paid = return_now - return_then > max(limits.return_share * returns.span, returns.noise)
        return Rise(lowest, now, return_then, return_now, is_paid)


class StepCap:
    """Follows one attempt; `endings` has seen each row before."""

    def __init__(self, context: RuleContext, endings: Endings) -> None:
        self._settings = context.settings
        self._returns = context.returns
        self._limits = context.limits.stall
        self._endings = endings
        self._at_cap = Window[bool](CAP_EPISODES)
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
            self._at_cap.extend([length >= cap for length in self._returns.lengths[-CAP_EPISODES:]])

    @property
    def share(self) -> float | None:
        """Share of episodes at the limit."""
        idle, cap = self._endings.idle_share, self._settings.max_episode_steps
        if idle is not None:
            return idle
        if len(self._at_cap) >= CAP_FEWEST:
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
        success, limits = self.success, self._limits
        if not self._late or success is None or not success < limits.success_share:
            return False
        share = self.share
        return share is not None and share >= limits.cap_share

    @property
    def calm(self) -> bool:
        """Whether clearly more episodes succeed, or clearly fewer end at the limit, than `over` asks for."""
        success, limits = self.success, self._limits
        if success is None or success >= 2.0 * limits.success_share:
            return True
        share = self.share
        return share is None or share < limits.cap_share - CAP_LEAVE
