"""What a chart draws: metrics as means and spans of their buckets, smoothed if asked; and marks of what happened to a
run: findings, checkpoints, resumes, new settings, evaluations.

A blank is passed over; what is no number, and on a logarithmic scale what is not positive, is a gap, and counted. Two
axes have numbers beside the picture; a curve that fits neither has its own scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from msgspec import Struct

from mission_tui.fleet.events.findings import GRAVITY, Severity
from mission_tui.fleet.events.metrics import number
from mission_tui.fleet.events.provenance import SettingChange
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply, HistoryReply
from mission_tui.tui.plot.scale import Ruler, Scale, scale_of
from mission_tui.tui.state.preferences import AxisScale
from mission_tui.tui.state.run_status import short_rule

Side = Literal["left", "right", "own"]
_LEAST_SHARE = 1 / 3
"""Of the height of an axis: a curve that would have less is read on another one."""
MarkKind = Literal["checkpoint", "resume", "set", "evaluation", "event", "goal"]


class Sample(Struct, frozen=True):
    """A bucket that ends with `update`: its least and greatest value, what is drawn, and that without smoothing."""

    update: int
    place: float
    low: float
    high: float
    raw: float
    drawn: float


class Curve(Struct, frozen=True):
    """`slot` gives it letter and colour. `hidden` are those values that a logarithmic scale has no place for, because
    they are not positive; `broken` samples are no number. Of both kinds what is drawn is nan.
    """

    slot: int
    tag: str
    samples: tuple[Sample, ...]
    hidden: tuple[float, ...] = ()
    broken: int = 0

    @property
    def shown(self) -> list[Sample]:
        """The samples that have a place."""
        return [sample for sample in self.samples if not math.isnan(sample.drawn)]

    @property
    def ends(self) -> tuple[float, float] | None:
        """The first and the last place of those samples; it is asked for many times for each picture."""
        first = next((it.place for it in self.samples if not math.isnan(it.drawn)), None)
        last = next((it.place for it in reversed(self.samples) if not math.isnan(it.drawn)), None)
        return None if first is None or last is None else (first, last)

    def values(self, *, spans: bool) -> Iterator[float]:
        """All that is drawn of it; with `spans` the least and greatest of each bucket too."""
        for sample in self.samples:
            yield from (sample.drawn, sample.raw, sample.low, sample.high) if spans else (sample.drawn, sample.raw)


def curve_of(
    slot: int,
    tag: str,
    history: HistoryReply,
    places: Sequence[float],
    *,
    factor: float = 0.0,
    kind: AxisScale = "linear",
) -> Curve:
    """`tag` of `history` over `places`, one for each bucket, smoothed by `factor` per update."""
    found: list[tuple[int, float, float, float]] = []
    columns = zip(history.updates, places, history.low.get(tag, ()), history.high.get(tag, ()), strict=False)
    for update, place, least, greatest in columns:
        low, high = number(least), number(greatest)
        if low is not None and high is not None:
            found.append((update, place, low, high))
    raw = [(low + high) / 2 if math.isfinite(low) and math.isfinite(high) else math.nan for _, _, low, high in found]
    drawn = smoothed(raw, [update for update, *_ in found], factor)
    broken = sum(map(math.isnan, raw))
    hidden = tuple(value for value in raw if value <= 0) if kind == "log" else ()
    samples = (
        Sample(update, place, *(_fit(value, log=kind == "log") for value in (low, high, mean, soft)))
        for (update, place, low, high), mean, soft in zip(found, raw, drawn, strict=True)
    )
    return Curve(slot, tag, tuple(samples), hidden, broken)


def smoothed(values: Sequence[float], updates: Sequence[int], factor: float) -> list[float]:
    """The exponential moving average whose weight falls by `factor` an update, however many updates a value stands for.

    Without the gradient towards zero at the start (Kingma and Ba 2015, section 3); nan stays nan and is left out.
    """
    if factor <= 0:
        return list(values)
    found: list[float] = []
    total = weight = 0.0
    # The first bucket is as long as the second: where it began is not known.
    before = 2 * updates[0] - updates[1] if len(updates) > 1 else 0
    for value, update in zip(values, updates, strict=True):
        if math.isnan(value):
            found.append(math.nan)
            continue
        keep = factor ** max(1, update - before)
        total, weight, before = keep * total + (1 - keep) * value, keep * weight + (1 - keep), update
        found.append(total / weight)
    return found


def _fit(value: float, *, log: bool) -> float:
    return math.nan if not math.isfinite(value) or (log and value <= 0) else value


@dataclass(frozen=True, slots=True)
class ScaledCurve:
    """A curve with the scale that it is drawn on; those on one side share theirs."""

    curve: Curve
    scale: Scale
    side: Side


def side_by_side(
    curves: Sequence[Curve],
    *,
    kind: AxisScale,
    beside: Mapping[str, Sequence[float]] | None = None,
    goals: Mapping[str, float] | None = None,
) -> list[ScaledCurve]:
    """Each curve that has something to draw with its scale, in order; `beside` are further values on a tag's axis, and
    `goals` what it reaches to if there is room.
    """
    beside, goals = beside or {}, goals or {}
    alone = len(curves) == 1
    values = {
        curve.tag: [value for value in (*curve.values(spans=alone), *beside.get(curve.tag, ())) if math.isfinite(value)]
        for curve in curves
    }
    known = [curve for curve in curves if curve.shown]
    groups: list[list[Curve]] = []
    for curve in known:
        fitting = (group for group in groups[:2] if _fit_together([values[it.tag] for it in (*group, curve)], kind))
        group = next(fitting, None)
        if group is None:
            groups.append([curve])
        else:
            group.append(curve)
    found: dict[str, ScaledCurve] = {}
    for at, group in enumerate(groups):
        goal = next((goals[it.tag] for it in group if it.tag in goals), None)
        scale = scale_of([value for it in group for value in values[it.tag]], kind, goal)
        side: Side = ("left", "right")[at] if at < 2 else "own"
        if scale is not None:
            found |= {it.tag: ScaledCurve(it, scale, side) for it in group}
    return [found[curve.tag] for curve in known if curve.tag in found]


def _fit_together(columns: Sequence[Sequence[float]], kind: AxisScale) -> bool:
    """Whether none is squeezed: each that has a span has a good part of the common one."""
    scale = scale_of([value for column in columns for value in column], kind)
    if scale is None:
        return True
    places = [[place for value in column if (place := scale.share(value)) is not None] for column in columns]
    spans = [max(column) - min(column) for column in places if column]
    whole = max(map(max, filter(None, places))) - min(map(min, filter(None, places)))
    return all(span >= _LEAST_SHARE * whole for span in spans if span > 0)


@dataclass(frozen=True, slots=True)
class Mark:
    """One place, and what happened there in a word or two; `attempt` is the one that began at a resume."""

    kind: MarkKind
    place: float
    attempt: int = 0
    word: str = ""


@dataclass(frozen=True, slots=True)
class Band:
    """Where a finding was open, and what it is about."""

    first: float
    last: float
    severity: Severity
    word: str = ""


@dataclass(frozen=True, slots=True)
class Ghost:
    """The curve of another run of the same task, called `name`, by places and values; `word` says which one it is."""

    name: str
    word: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class EvaluationPoint:
    """An evaluation's mean return and the 95 % interval around it."""

    place: float
    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Marks:
    """Everything beside the curves; the most severe bands last, so that they lie on top."""

    marks: tuple[Mark, ...] = ()
    bands: tuple[Band, ...] = ()
    judged: tuple[EvaluationPoint, ...] = ()


def marks_of(view: RunView, details: DetailsReply | None, history: HistoryReply, ruler: Ruler) -> Marks:
    """What is known of the stretch that `history` covers; what has no place on it is left out."""
    judged = tuple(_judged(details, ruler)) if details is not None else ()
    found: list[tuple[MarkKind, float | None, int, str]] = [("evaluation", it.place, 0, "") for it in judged]
    attempts = () if details is None else [it for it in details.attempts if it.from_timesteps]
    if details is not None:
        found += [("checkpoint", ruler.of_update(it.update), 0, "") for it in details.checkpoints]
        again = {moment.timesteps: moment.word for moment in view.moments if moment.word == _AGAIN}
        for it in attempts:
            place = ruler.of_timesteps(it.from_timesteps or 0)
            found.append(("resume", place, it.attempt, again.get(it.from_timesteps or 0, _ON)))
    # The same resume, from the view, has its own sign only where the details are not known.
    told = (_ON, _AGAIN) if attempts else ()
    for moment in view.moments:
        if moment.word not in told:
            found.append(("event", ruler.of_update(moment.update), 0, moment.word))
    for change in history.changes:
        if change.timesteps is not None:
            found.append(("set", ruler.of_timesteps(change.timesteps), 0, set_word(change)))
    if view.goal is not None and view.goal.reached is not None:
        found.append(("goal", ruler.of_update(view.goal.reached.update), 0, "goal reached"))
    # A run that was held twice within one update is `paused` there once.
    marks = dict.fromkeys(Mark(kind, place, attempt, word) for kind, place, attempt, word in found if place is not None)
    return Marks(tuple(sorted(marks, key=lambda mark: mark.place)), tuple(_bands(view, ruler)), judged)


_ON, _AGAIN = "resumed", "restarted"
_SHORT_KEYS = {
    "learning_rate": "lr",
    "clip_range": "clip",
    "n_epochs": "epochs",
    "batch_size": "batch",
    "total_timesteps": "steps",
    "max_grad_norm": "grad norm",
    "ent_coef": "ent",
    "vf_coef": "vf",
    "target_kl": "target KL",
}


def set_word(change: SettingChange) -> str:
    """What was set, as short as it is understood: `lr 1e-4`, `epochs 5 +1`."""
    if not change.diff:
        return "set"
    return setting_word(change.diff[0]) + (f" +{len(change.diff) - 1}" if len(change.diff) > 1 else "")


def setting_word(line: str) -> str:
    """A line of such a difference, as short as it is understood."""
    key, _, rest = line.partition(" ")
    name = key.rpartition(".")[2]
    return f"{_SHORT_KEYS.get(name, name)} {rest.rpartition('→')[2].strip()}".strip()


def _bands(view: RunView, ruler: Ruler) -> Iterator[Band]:
    for finding in sorted(view.findings, key=lambda it: GRAVITY[it.severity]):
        last = ruler.of_update(finding.last_update)
        if last is not None:
            first = ruler.of_update(finding.first_update)
            # What came of another finding has no name of its own: that of the other one says why.
            word = "" if finding.part_of else short_rule(finding)
            yield Band(ruler.places[0] if first is None else first, last, finding.severity, word)


def _judged(details: DetailsReply, ruler: Ruler) -> Iterator[EvaluationPoint]:
    """Those results that say of which checkpoint they are, and hold numbers: other programs may write there too."""
    steps = {it.name: it.timesteps for it in details.checkpoints}
    for result in details.evaluations:
        name = str(result.get("checkpoint", ""))
        timesteps = steps.get(name, int(name) if name.isdecimal() else None)
        values = _figures(result)
        place = None if timesteps is None else ruler.of_timesteps(timesteps)
        if place is not None and values is not None:
            yield EvaluationPoint(place, *values)


def _figures(result: Mapping[str, Any]) -> tuple[float, float, float] | None:
    mean, interval = result.get("mean"), result.get("ci95")
    if not _is_number(mean) or result.get("policy") == "random":
        return None
    low, high = interval if isinstance(interval, list | tuple) and len(interval) == 2 else (mean, mean)
    return mean, low if _is_number(low) else mean, high if _is_number(high) else mean


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool) and math.isfinite(value)
