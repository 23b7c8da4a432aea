"""`hang`: a trainer that lives and says nothing. Judged by the clock, since silence has no rows.

What is normal is learned from the run's own updates; time that it was paused or frozen, or that a set clock leapt over,
does not count. Silences one after the other, with no update in time between them, are one incident. When a silence was
too long is computed from rows and pauses alone, so it is found again when the files are judged later.
"""

from __future__ import annotations

import statistics
from bisect import insort
from collections.abc import Mapping
from operator import itemgetter

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.journal import Break
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.text import clean
from mission_tui.fleet.windows import Numbers

UPDATES = 50
FEWEST = 3
MOST = 0.5
_HOLDS: frozenset[Break] = frozenset({"pause", "freeze", "step"})
_RELEASES: Mapping[Break, Break] = {"unpause": "pause", "thaw": "freeze", "stepped": "step"}


class Hang(Rule):
    """One attempt's rule."""

    id = "hang"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.hang
        self._shortest_s = min(limits.first_s, limits.least_s)
        self._rollouts, self._updates = Numbers(UPDATES), Numbers(UPDATES)
        self._pauses: list[tuple[float, Break]] = []
        self._last_t: float | None = None
        self._last: Row | None = None

    def began(self, t: float) -> None:
        """The attempt began to learn at unix time `t`."""
        self._touch(t)

    def paused(self, t: float, cause: Break) -> None:
        """The run was held or went on at unix time `t`; told in any order, and also ahead of rows not judged yet.

        What is before the last row is none of this silence, also where a clock that was set back says so.
        """
        if (cause in _HOLDS or cause in _RELEASES) and (self._last_t is None or t >= self._last_t):
            # Of those at one instant the one told last counts last: paused again is paused.
            insort(self._pauses, (t, cause), key=itemgetter(0))

    def set_back(self, by_s: float) -> None:
        """The clock was set back by so much before the next row: all that is known here is as much earlier on it."""
        if self._last_t is not None:
            self._last_t -= by_s
        self._pauses = [(t - by_s, cause) for t, cause in self._pauses]

    def held_at(self, t: float) -> bool:
        """Whether the run was held at unix time `t`, as far as was told."""
        held: set[Break] = set()
        for at, cause in self._pauses:
            if at < t:
                held = held | {cause} if cause in _HOLDS else held - {_RELEASES[cause]}
        return bool(held)

    def changed(self) -> None:
        """Other settings: how long an update takes is learned anew."""
        self._rollouts.clear()
        self._updates.clear()

    def over(self) -> None:
        """The attempt has ended: silence is its right."""
        self._last_t = None

    def judge(self, row: Row) -> Severity | None:
        """A row ends any silence, and any pause, since a paused run does no updates.

        One that was too long in coming is of the same slow stretch as the next like it: the first in time ends it.
        """
        late = self.silent(row.t)
        if row.t > 0.0:
            gap_s = row.t - self._last_t if self._last_t is not None else 0.0
            measured = row.rollout_s + row.update_s > 0.0
            self._rollouts.append(row.rollout_s if measured else max(0.0, gap_s))
            self._updates.append(row.update_s if measured else 0.0)
            self._touch(row.t)
            self._last = row
        return late

    def silent(self, now: float) -> Severity | None:
        """Critical when nothing has come until unix time `now` for longer than this run's limit."""
        if self._last_t is None or (not self._pauses and now - self._last_t <= self._shortest_s):
            return None
        since = self.since
        return "critical" if since is not None and now > since else None

    @property
    def since(self) -> float | None:
        """Unix time at which the present silence is too long, past or to come; None while held or not learning."""
        if self._last_t is None:
            return None
        left_s, going_t = self.limit_s, self._last_t
        held: set[Break] = set()
        for t, cause in self._pauses:
            if cause in _HOLDS:
                if not held and t - going_t > left_s:
                    break
                left_s -= 0.0 if held else max(0.0, t - going_t)
                held.add(cause)
            elif held:
                held.discard(_RELEASES[cause])
                going_t = going_t if held else t
        return None if held else going_t + left_s

    @property
    def limit_s(self) -> float:
        """Seconds of silence that are allowed: the longer of ten median updates and two minutes."""
        usual_s = self._usual_s
        return (
            self._limits.first_s if usual_s is None else max(self._limits.times_median * usual_s, self._limits.least_s)
        )

    def explain(self, severity: Severity) -> Explanation:
        """Compares the silence with the run's own updates."""
        evidence: dict[str, Metric] = self._last.evidence() if self._last else {}
        return Explanation(
            sentence=self._sentence(),
            cause=self._cause(),
            advice="look at the log and the machine; if nothing moves, stop, and resume from the last checkpoint",
            evidence=({**evidence, "limit_s": round(self.limit_s, 1)},),
            signal="steps_per_s",
        )

    @property
    def _usual_s(self) -> float | None:
        if len(self._rollouts) < FEWEST:
            return None
        updates = zip(self._rollouts, self._updates, strict=True)
        return statistics.median(rollout_s + update_s for rollout_s, update_s in updates)

    def _sentence(self) -> str:
        usual_s = self._usual_s
        after = f"after update {self._last.update:,}" if self._last else "since training began"
        known = "fewer than three updates so far" if usual_s is None else f"an update takes {rounded(usual_s)} s"
        return f"the trainer is alive but has reported nothing for {rounded(self.limit_s)} s {after}; {known}"

    def _cause(self) -> str:
        env = clean(self.context.settings.env_id, 80) or "the environment"
        rollout_s = statistics.median(self._rollouts) if self._rollouts else 0.0
        # Logs of others do not say how an update's time divides.
        divided = self._last is not None and self._last.rollout_s + self._last.update_s > 0.0
        share = rollout_s / self._usual_s if self._usual_s and divided else None
        if share is None:
            return f"a step of {env} may block, or the machine is swapping or has no free core"
        if share < MOST:
            return f"learning takes {1.0 - share:.0%} of an update: suspect the GPU, its driver, or swapping"
        return f"the rollout of {env} takes {share:.0%} of an update: suspect a step that blocks, or a dead env worker"

    def _touch(self, t: float) -> None:
        if t > 0.0:
            self._last_t = t
            self._pauses = [pause for pause in self._pauses if pause[0] >= t] if self._pauses else self._pauses
