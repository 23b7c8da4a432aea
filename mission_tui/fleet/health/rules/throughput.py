"""`throughput`: a run that has become much slower than it was itself, and in which of its two phases.

The measure is the median of the run's own updates, slow ones left out, so a run that stays slow stays reported. Another
run that joins or leaves makes speeds incomparable: everything is learned anew. A pause or an evaluation does not change
what is normal, it only ends a row of slow updates: a measure that began anew at each evaluation would never be full.

Of a rollout it says whether the environments or the policy that chooses actions take the time, where the trainer timed
them apart, and which setting makes that cheaper: a rollout that has become slow, and one that was never faster.

Where rollout and update are slow alike, the machine is busy with something else. That is worth a word only when it
lasts: of 84 traces recorded for tuning on a crowded machine, 9 have seconds of it that say nothing of the run.
"""

from __future__ import annotations

import math
import statistics
from array import array
from bisect import bisect_left, insort
from collections.abc import Sequence

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.journal import Break
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health import rollout_parts
from mission_tui.fleet.health.phrases import rounded
from mission_tui.fleet.health.rollout_parts import MINOR, Parts, Words
from mission_tui.fleet.health.rule import Explanation, Row, Rule, RuleContext
from mission_tui.fleet.text import clean
from mission_tui.fleet.windows import Numbers, Window

BOTH_SLOW = 2.0
"""Times its usual seconds: where both phases take so long, neither an environment nor a GPU explains the other."""


class Throughput(Rule):
    """One attempt's rule; rows without seconds are passed over."""

    id = "throughput"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._limits = limits = context.limits.throughput
        self._speeds, self._rollouts, self._updates, self._envs = (Numbers(limits.window) for _ in range(4))
        """Of usual updates: steps/s, and seconds; those in the environments are NaN where nobody timed them apart."""
        self._sorted_speeds = array("d")
        self._sorted_parts = array("d"), array("d"), array("d")
        """Of those that were timed apart: seconds of stepping, of choosing and of learning, each sorted."""
        self._slow = Window[Row](limits.updates)
        self._slow_s = 0.0
        self._fast = 0
        self._on = False
        self._measured_s = 0.0
        self._costly: tuple[Parts, Words] | None = None

    def judge(self, row: Row) -> Severity | None:
        """Warning from the fifth update in a row below 60 % of the run's median until five reach 75 % again.

        Information, once enough is known, where most of the time goes into a part of the rollout that a setting makes
        cheaper.
        """
        limits, speed, seconds = self._limits, row.steps_per_s, row.rollout_s + row.update_s
        if speed > 0.0 and seconds > 0.0:
            median = self._median
            if median is not None and speed < limits.warning * median:
                self._take_slow(row, seconds)
            else:
                self._take_usual(row, median is not None and speed >= limits.leave * median)
        if self._on:
            return "warning"
        if self._costly is None and self._measured_s >= limits.machine_s:
            self._costly = self._most_of_it()
        return None if self._costly is None else "info"

    def explain(self, severity: Severity) -> Explanation:
        """Compares both phases of the slow updates with what they usually take."""
        if severity == "info" and self._costly is not None:
            return self._explain_costly(*self._costly)
        median = self._median or 0.0
        speed = statistics.median(row.steps_per_s for row in self._slow)
        count = len(self._slow)
        phases, (cause, advice, assignments) = self._diagnosis()
        return Explanation(
            sentence=f"{rounded(speed)} steps/s in the last {count} updates, {speed / median:.0%} of this run's own "
            f"median of {rounded(median)}: {phases}",
            cause=cause,
            advice=advice,
            advice_set=assignments,
            evidence=tuple(row.evidence() | _seconds(row) for row in self._slow),
            signal="steps_per_s",
            threshold=self._limits.warning * median,
            window=self._limits.updates,
        )

    def _explain_costly(self, parts: Parts, words: Words) -> Explanation:
        total, (cause, advice, assignments) = parts.env_s + parts.choice_s + parts.update_s, words
        shares = zip(("stepping the environments", "choosing actions"), (parts.env_s, parts.choice_s), strict=True)
        said = ", ".join(f"{spent / total:.0%} {what}" for what, spent in shares)
        return Explanation(
            sentence=f"of the {total:.2g} s of an update {said}, {parts.update_s / total:.0%} learning",
            cause=cause,
            advice=advice,
            advice_set=assignments,
            signal="steps_per_s",
            window=len(self._speeds),
        )

    def broken(self, cause: Break) -> None:
        """Company makes speeds incomparable; a pause or an evaluation only ends a row of slow updates."""
        if cause == "company":
            for usual in (self._speeds, self._rollouts, self._updates, self._envs):
                usual.clear()
            for ordered in (self._sorted_speeds, *self._sorted_parts):
                del ordered[:]
            self._on = False
            self._measured_s, self._costly = 0.0, None
        self._end_row()

    @property
    def _median(self) -> float | None:
        speeds = self._sorted_speeds
        return speeds[len(speeds) // 2] if len(speeds) >= self._limits.fewest else None

    def _take_slow(self, row: Row, seconds: float) -> None:
        self._slow.append(row)
        self._slow_s += seconds
        self._fast = 0
        if not self._on and len(self._slow) == self._limits.updates and self._slow_s >= self._limits.least_s:
            self._on = self._slow_s >= self._limits.machine_s or not self._alike()

    def _take_usual(self, row: Row, recovered: bool) -> None:
        self._fast = self._fast + 1 if recovered else 0
        if self._on and self._fast < self._limits.updates:
            return
        self._on = False
        self._end_row()
        if len(self._speeds) == self._speeds.maxlen:
            self._forget_oldest()
        self._speeds.append(row.steps_per_s)
        self._rollouts.append(row.rollout_s)
        self._updates.append(row.update_s)
        self._envs.append(math.nan if row.env_s is None else row.env_s)
        if row.env_s is not None:
            parts = _apart(row.rollout_s, row.update_s, row.env_s)
            for ordered, seconds in zip(self._sorted_parts, parts, strict=True):
                insort(ordered, seconds)
        self._measured_s += row.rollout_s + row.update_s
        insort(self._sorted_speeds, row.steps_per_s)

    def _forget_oldest(self) -> None:
        """Take the usual update that the windows are about to lose out of what is sorted."""
        del self._sorted_speeds[bisect_left(self._sorted_speeds, self._speeds[0])]
        if not math.isnan(self._envs[0]):
            parts = _apart(self._rollouts[0], self._updates[0], self._envs[0])
            for ordered, seconds in zip(self._sorted_parts, parts, strict=True):
                del ordered[bisect_left(ordered, seconds)]

    def _end_row(self) -> None:
        self._slow.clear()
        self._slow_s = 0.0
        self._fast = 0

    def _changes(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Of rollout and update: the median seconds of usual updates and of the slow ones."""
        rollout = _change(self._rollouts, [row.rollout_s for row in self._slow])
        return rollout, _change(self._updates, [row.update_s for row in self._slow])

    def _alike(self) -> bool:
        """Whether the less slowed phase has at least the square root of the other's factor."""
        less, more = sorted(now / was for was, now in self._changes())
        return less > 1.0 and less * less >= more

    def _usual_parts(self) -> Parts | None:
        """Kept sorted, because every update asks for it until most of the time is known to go into one part."""
        return _median_parts(self._sorted_parts, len(self._speeds))

    def _most_of_it(self) -> tuple[Parts, Words] | None:
        parts = self._usual_parts() if len(self._speeds) >= self._limits.fewest else None
        words = None if parts is None else rollout_parts.costly(self.context.settings, parts)
        return None if parts is None or words is None else (parts, words)

    def _diagnosis(self) -> tuple[str, Words]:
        """What takes longer, why that may be, what to do, and the settings that do it."""
        rollout, update = self._changes()
        settings = self.context.settings
        if not any(row.update_s for row in self._slow):
            took = f"the same steps {rollout_parts.took(*rollout)}"
            return took, ("the log does not tell collecting from learning", "see which processes use the cores", ())
        if max(rollout[1] / rollout[0], update[1] / update[0]) <= MINOR:
            return "both phases take as long as ever", ("updates hold fewer steps than before", "look at the log", ())
        what = f"rollout {rollout_parts.took(*rollout)}, update {rollout_parts.took(*update)}"
        advice = "see which processes use the cores, and pause what can wait"
        slow_at_least = min(now / was for was, now in (rollout, update))
        if self._alike() or slow_at_least >= BOTH_SLOW:
            how = "equally " if self._alike() else ""
            return what, (f"both phases are {how}slow: the machine has too few free cores for this run", advice, ())
        if rollout[1] - rollout[0] >= update[1] - update[0]:
            env = clean(settings.env_id, 80) or "the environment"
            steps = f"{settings.rollout:,} steps of {env}" if settings.rollout else env
            was, now = self._usual_parts(), _parts_of(self._slow)
            if was is not None and now is not None:
                return what, rollout_parts.slower(settings, steps, was, now, advice)
            slow = f"stepping is slow: {steps} {rollout_parts.took(*rollout)}"
            return what, (f"{slow}; too few free cores, or an env worker that is slow or dead", advice, ())
        steps = f"{settings.gradient_steps:,} gradient steps" if settings.gradient_steps else "the gradient steps"
        slow = f"learning is slow: {steps} {rollout_parts.took(*update)}"
        shared = "" if rollout_parts.in_use(settings)[1] == "cpu" else "a shared GPU, or "
        return what, (f"{slow}; {shared}too few free cores", advice, ())


def _change(usual: Sequence[float], slow: Sequence[float]) -> tuple[float, float]:
    """Median seconds of a phase in usual updates and in slow ones, the former never 0."""
    return max(statistics.median(usual), 1e-9), statistics.median(slow)


def _apart(rollout_s: float, update_s: float, env_s: float) -> tuple[float, float, float]:
    """The seconds of stepping, of choosing and of learning."""
    return env_s, rollout_s - env_s, update_s


def _parts_of(rows: Sequence[Row]) -> Parts | None:
    """The median parts of `rows`; None where most were not timed apart."""
    timed = [_apart(row.rollout_s, row.update_s, row.env_s) for row in rows if row.env_s is not None]
    return _median_parts([sorted(column) for column in zip(*timed, strict=True)], len(rows))


def _median_parts(columns: Sequence[Sequence[float]], count: int) -> Parts | None:
    """The medians of three sorted columns, those of `count` updates that were timed apart; None where most were not."""
    timed = len(columns[0]) if columns else 0
    if 2 * timed < count or not timed:
        return None
    half, odd = timed // 2, timed % 2
    return Parts(*(column[half] if odd else (column[half - 1] + column[half]) / 2 for column in columns))


def _seconds(row: Row) -> dict[str, Metric]:
    seconds: dict[str, Metric] = {
        "steps_per_s": row.steps_per_s,
        "rollout_s": row.rollout_s,
        "update_s": row.update_s,
    }
    return seconds if row.env_s is None else seconds | {"env_s": row.env_s}
