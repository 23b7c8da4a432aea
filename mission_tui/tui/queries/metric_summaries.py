"""How each metric of a run went: a few points of its whole course, its least and its greatest value. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, structs

from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.views.snapshot import SERIES, RunView
from mission_tui.ipc.replies import HistoryReply

__all__ = ["MOST_COURSES", "PHASE_SERIES", "POINTS", "MetricSummary", "metric_summaries", "metric_tags"]

POINTS = 24
MOST_COURSES = 64
"""So many metrics are asked for at once: enough for every list, and an answer of a bounded size."""

PHASE_SERIES = ("rollout_s", "update_s")
"""What each update took; no metric of the trainer's, and in no list of them."""

_FIRST = (
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "train/approx_kl",
    "train/clip_fraction",
    "policy/entropy_ratio",
    "policy/std",
    "train/explained_variance",
    "train/value_loss",
    "train/grad_norm",
    "train/learning_rate",
    "steps_per_s",
)


class MetricSummary(Struct, frozen=True):
    """`points` are means of equal stretches of updates; `least` and `most` are finite, None where no value is."""

    points: tuple[Metric | None, ...] = ()
    least: float | None = None
    most: float | None = None

    def reaching(self, newest: Metric | None) -> MetricSummary:
        """The same, its span reaching to `newest`."""
        value = number(newest)
        if value is None or not math.isfinite(value):
            return self
        known = [it for it in (self.least, self.most, value) if it is not None]
        return structs.replace(self, least=min(known), most=max(known))


def metric_tags(view: RunView | None) -> list[str]:
    """Every metric that `view` has: what one looks at first, then the others by name. Without a view those first."""
    if view is None:
        return list(_FIRST)
    known = set(view.metrics) | {tag for tag in SERIES if view.series.get(tag)}
    first = [tag for tag in _FIRST if tag in known]
    return [*first, *sorted(known.difference(first))]


def metric_summaries(history: HistoryReply) -> Mapping[str, MetricSummary]:
    """The course of each series of `history`."""
    return {tag: _course(history.low[tag], history.high.get(tag, ())) for tag in history.low}


def _course(low: tuple[Metric | None, ...], high: tuple[Metric | None, ...]) -> MetricSummary:
    points = tuple(_middle(number(least), number(most)) for least, most in zip(low, high, strict=False))
    lows, highs = ([v for m in side if (v := number(m)) is not None and math.isfinite(v)] for side in (low, high))
    return MetricSummary(points, min(lows, default=None), max(highs, default=None))


def _middle(least: float | None, most: float | None) -> Metric | None:
    return None if least is None or most is None else (least + most) / 2
