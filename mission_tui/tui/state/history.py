"""Metrics of a run as they are shown: the handful beside the return, the names people say aloud, each curve's colour,
the course of each over the history, and the stretch of it that shows a finding. Pure.

A resume from before an incident writes the same updates again; then the history is not the one that the rule saw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs
from rich.style import Style

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.views.snapshot import SERIES, RunView
from mission_tui.ipc.replies import DetailsReply, HistoryReply
from mission_tui.present import numbers
from mission_tui.present.numbers import TITLES
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part

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
    return {tag: _summary(history.low[tag], history.high.get(tag, ())) for tag in history.low}


def _summary(low: tuple[Metric | None, ...], high: tuple[Metric | None, ...]) -> MetricSummary:
    points = tuple(_middle(number(least), number(most)) for least, most in zip(low, high, strict=False))
    lows, highs = ([v for m in side if (v := number(m)) is not None and math.isfinite(v)] for side in (low, high))
    return MetricSummary(points, min(lows, default=None), max(highs, default=None))


def _middle(least: float | None, most: float | None) -> Metric | None:
    return None if least is None or most is None else (least + most) / 2


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


_VITALS = (
    ("KL", "train/approx_kl"),
    ("clip", "train/clip_fraction"),
    ("H", "policy/entropy_ratio"),
    ("std", "policy/std"),
    ("EV", "train/explained_variance"),
    ("lr", "train/learning_rate"),
    ("value loss", "train/value_loss"),
    ("critic loss", "train/critic_loss"),
    ("actor loss", "train/actor_loss"),
    ("ent coef", "train/ent_coef"),
    ("exploration", "rollout/exploration_rate"),
    ("grad", "train/grad_norm"),
)
_COLUMNS = {"rollout/ep_rew_mean": "return", "rollout/ep_len_mean": "length", "timesteps": "steps"}
_P = colours.PALETTE
_HUES = (_P.live, _P.warn, _P.good, _P.paused, _P.key, _P.bold)
MOST_CURVES = len(_HUES)
"""More curves than this cannot be told apart."""
COHORT_HUES = (_P.live, _P.warn, _P.good, _P.paused, _P.key, _P.alarm, _P.bold)
"""A colour for each setting of a comparison, in order; a curve's letter names it without colours."""
_FAINT = 0.45


def key_metrics(view: RunView, width: int) -> list[Part]:
    """Short names and readings of those metrics that this run has, as many as fit `width` cells."""
    parts: list[Part] = []
    for name, tag in _VITALS:
        if tag in view.metrics:
            reading = numbers.reading_of(tag, view.metrics[tag])
            width -= len(name) + len(reading) + 1
            if width < 0:
                break
            parts += [(f"{name} ", colours.QUIET), (reading, colours.INK), ("   ", colours.INK)]
            width -= 3
    return parts


def column_title(tag: str) -> str:
    """The shortest name that is no other metric's, for a column of a table."""
    return _COLUMNS.get(tag) or next((name for name, known in _VITALS if known == tag), tag.rpartition("/")[2])


def metric_title(tag: str) -> str:
    """What people call the metric; an unknown tag is its own title."""
    return TITLES.get(tag, tag)


def letter(slot: int) -> str:
    """What the curve in `slot` is called: it says which one it is without colours."""
    return chr(ord("A") + slot)


def hue(slot: int) -> Style:
    """The colour of the curve in `slot`."""
    return Style(color=_HUES[slot % MOST_CURVES])


def faint(slot: int) -> Style:
    """The same colour, nearly sunk in the ground."""
    over, under = _parts(_HUES[slot % MOST_CURVES]), _parts(_P.ground)
    mixed = (round(_FAINT * one + (1 - _FAINT) * other) for one, other in zip(over, under, strict=True))
    return Style(color="#" + "".join(f"{part:02x}" for part in mixed))


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
