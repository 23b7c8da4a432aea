"""`nan`: a number of training that is not finite. Critical at once, because nothing learned after it is worth saving.

An explained variance of NaN is none of these: it means that the returns do not vary. Nor is the mean of nothing, which
loggers write as NaN until the first episode has ended.
"""

from __future__ import annotations

import math

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import TrainingEnded, spoken
from mission_tui.fleet.health.phrases import halved_learning_rate, learning_rate_of, pressure_sentence
from mission_tui.fleet.health.rule import Explanation, Hysteresis, Row, Rule, RuleContext
from mission_tui.fleet.text import clean
from mission_tui.fleet.windows import Window

WINDOW = 8
FAMILIES = ("train/", "policy/", "rollout/")
MAY_BE_NAN = frozenset({"train/explained_variance"})
MEANS = ("rollout/ep_rew_mean", "rollout/ep_len_mean", "rollout/success_rate")
NAMED = 3
NORMALIZED = {True: ", with normalised inputs", False: ", without normalised inputs", None: ""}


class NotFinite(Rule):
    """One attempt's rule."""

    id = "nan"

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._state = Hysteresis(1, WINDOW)
        self._bad = Window[tuple[Row, tuple[str, ...]]](WINDOW)
        self._known: set[str] = set()
        self._last_word: TrainingEnded | None = None

    def judge(self, row: Row) -> Severity | None:
        """Critical from the first number that is not finite until a whole window has been finite."""
        names = self._not_finite(row)
        if names:
            self._bad.append((row, names))
        return "critical" if self._state.update(over=bool(names), calm=not names) else None

    def check_record(self, record: TrainingEnded) -> None:
        """The trainer itself stopped at such a number, before any row showed it; its words are the finding's."""
        self._last_word = record

    def explain(self, severity: Severity) -> Explanation:
        """Names the numbers; the cause is the run's own update pressure, or the environment for a return."""
        row, names = self._bad[-1] if self._bad else (None, ())
        settings, end = self.context.settings, self._last_word
        signal = next((name for name in names if name != "episode return"), "rollout/ep_rew_mean")
        sentence = _sentence(row, names) if row else ""
        if end is not None:
            sentence = clean(end.cause) or "training stopped at a number that is not finite"
        if end.from_env if end is not None else names == ("episode return",):
            what, advice = "reward", "stop, and look at how the environment computes its reward"
            if end is not None:
                what, advice = "number", "look at how the environment computes it: a resume would meet it again"
            return Explanation(
                sentence=sentence,
                cause=f"{clean(settings.env_id, 80) or 'the environment'} gave a {what} that is not finite",
                advice=advice,
                evidence=self._evidence(),
                signal=signal,
            )
        rate = learning_rate_of(row, settings)
        return Explanation(
            sentence=sentence,
            cause=pressure_sentence(settings, rate) + NORMALIZED[settings.normalize_obs],
            advice="go back to the last good checkpoint with half the learning rate",
            advice_set=halved_learning_rate(settings, row),
            evidence=self._evidence(),
            signal=signal,
        )

    def _not_finite(self, row: Row) -> tuple[str, ...]:
        for tag in MEANS if len(self._known) < len(MEANS) else ():
            if tag not in self._known and math.isfinite(row.metrics.get(tag, math.nan)):
                self._known.add(tag)
        # A sum is finite only if every summand is, so most rows need no second look.
        returns = self.context.returns.sampled
        if math.isfinite(sum(row.metrics.values()) + sum(returns)):
            return ()
        names = [
            tag
            for tag, value in row.metrics.items()
            if not math.isfinite(value) and tag.startswith(FAMILIES) and not self._means_nothing(tag, value)
        ]
        if not all(math.isfinite(value) for value in returns):
            names.append("episode return")
        return tuple(names)

    def _means_nothing(self, tag: str, value: float) -> bool:
        return tag in MAY_BE_NAN or (tag in MEANS and tag not in self._known and math.isnan(value))

    def _evidence(self) -> tuple[dict[str, float | str], ...]:
        return tuple(row.evidence(*names) for row, names in self._bad)


def _sentence(row: Row, names: tuple[str, ...]) -> str:
    shown = ", ".join(
        f"{clean(name, 60)} is {spoken(row.metrics[name])}" if name in row.metrics else f"an {name} is not finite"
        for name in names[:NAMED]
    )
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{shown}{more} at update {row.update:,}"
