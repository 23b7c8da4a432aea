"""What is computed from a run's history: the course of each metric, and the stretch that shows a finding. Pure.

A resume from before an incident writes the same updates again; then the history is not the one that the rule saw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.views.snapshot import SERIES, RunView
from mission_tui.ipc.replies import DetailsReply, HistoryReply

POINTS = 24
MOST_SUMMARIES = 64
"""So many metrics are asked for at once: enough for every list, and an answer of a bounded size."""

PHASE_SERIES = ("rollout_s", "update_s")
"""What each update took; no metric of the trainer's, and in no list of them."""

_FIRST = (
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "eval/success_rate",
    "train/approx_kl",
    "train/clip_fraction",
    "policy/entropy_ratio",
    "policy/std",
    "train/explained_variance",
    "train/value_loss",
    "train/critic_loss",
    "train/actor_loss",
    "train/ent_coef",
    "train/grad_norm",
    "train/learning_rate",
    "steps_per_s",
)
Points = list[tuple[float, float, float]]
"""Place on the axis, minimum and maximum of each bucket."""

_LEAST_BEFORE = 40
_SHARE_BEFORE = 0.5


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
    known = set(view.metrics) | {tag for tag in SERIES if any(value is not None for value in view.series.get(tag, ()))}
    first = [tag for tag in _FIRST if tag in known]
    return [*first, *sorted(known.difference(first))]


def metric_summaries(history: HistoryReply) -> Mapping[str, MetricSummary]:
    """The course of each series of `history`."""
    return {tag: _summary(history, tag) for tag in history.low}


def _summary(history: HistoryReply, tag: str) -> MetricSummary:
    ends = (history.low[tag], history.high.get(tag, ()))
    lows, highs = ([value for metric in side if (value := _finite(metric)) is not None] for side in ends)
    return MetricSummary(middles(history, tag), min(lows, default=None), max(highs, default=None))


def middles(history: HistoryReply, tag: str) -> tuple[Metric | None, ...]:
    """The middle of each bucket of `tag`; None where it has no value."""
    pairs = zip(history.low.get(tag, ()), history.high.get(tag, ()), strict=False)
    ends = ((number(least), number(most)) for least, most in pairs)
    return tuple(None if least is None or most is None else (least + most) / 2 for least, most in ends)


def evidence_start(finding: Finding) -> int:
    """The first update that the rule looked at when the finding opened."""
    return max(0, finding.first_update - max(1, finding.window) + 1)


def stretch(finding: Finding) -> tuple[int, int | None]:
    """First and last update to draw; None is the newest one, because the finding lasts until now."""
    length = finding.last_update - finding.first_update + 1
    before = max(_LEAST_BEFORE, 2 * finding.window, int(_SHARE_BEFORE * length))
    first = max(0, evidence_start(finding) - before)
    return first, None if finding.state != "cleared" else finding.last_update + before


def rewritten(finding: Finding, details: DetailsReply | None) -> bool:
    """Whether a later attempt went over the updates of `finding` again, as far as `details` know."""
    place = number(finding.evidence[-1].get("timesteps")) if finding.evidence else None
    attempts = details.attempts if details is not None and finding.attempt else ()
    later = [attempt.from_timesteps for attempt in attempts if attempt.attempt > finding.attempt]
    return any(start is None or place is None or start < place for start in later)


def evidence_points(finding: Finding) -> Points:
    """The finding's own evidence as points over updates."""
    pairs = [(_finite(row.get("update")), _finite(row.get(finding.signal))) for row in finding.evidence]
    return [(update, value, value) for update, value in pairs if update is not None and value is not None]


def points_of(history: HistoryReply, tag: str, over: Sequence[int]) -> Points:
    """Those buckets of `tag` that have finite values, over one of the reply's axes."""
    columns = zip(over, history.low.get(tag, ()), history.high.get(tag, ()), strict=False)
    known = ((step, _finite(low), _finite(high)) for step, low, high in columns)
    return [(float(step), low, high) for step, low, high in known if low is not None and high is not None]


def _finite(metric: Metric | None) -> float | None:
    value = number(metric)
    return value if value is not None and math.isfinite(value) else None
