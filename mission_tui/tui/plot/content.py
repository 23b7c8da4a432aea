"""What one chart shows of one run, put together from its view, its histories and how it is to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mission_tui.fleet.events.metrics import RETURN, Metric
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import HistoryReply
from mission_tui.present import numbers
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.plot.curve import Curve, Marks, Sided, curve_of, marks_of, side_by_side
from mission_tui.tui.plot.picture import Scene
from mission_tui.tui.plot.scale import Ruler
from mission_tui.tui.state.preferences import AxisScale, ChartSettings, Over
from mission_tui.tui.state.run_data import EXACT, RunData


@dataclass(frozen=True, slots=True)
class Entry:
    """A metric of the chart: its newest value, its curve if its history is known, the scale if there is one to draw.

    `at` is what it was at the crosshair: the value, or the least and greatest of the updates that were put together;
    `soft_at` the moving average there, where one is drawn.
    """

    slot: int
    tag: str
    newest: Metric | None
    curve: Curve | None
    sided: Sided | None
    at: str = ""
    soft_at: float | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """`at` and `said` are the place of the crosshair, `limits` what rules compare the chosen metric with.

    `empty` is why there may be nothing to draw, and the key that shows more.
    """

    entries: tuple[Entry, ...]
    scene: Scene | None
    over: Over
    factor: float
    kind: AxisScale
    limits: Sequence[Part] = ()
    trouble: str | None = None
    empty: str = ""
    at: float | None = None
    said: tuple[str, ...] = ()


def content_of(
    view: RunView,
    data: RunData,
    settings: ChartSettings,
    shown: Sequence[tuple[int, str]],
    limits: Sequence[Part] = (),
) -> Content:
    """The chart of the metrics `shown`, by slot and tag, without a crosshair."""
    attempts = data.details.attempts if data.details is not None else ()
    histories = {tag: data.history[tag] for _, tag in shown if tag in data.history}
    rulers = {tag: Ruler(history, settings.over, attempts) for tag, history in histories.items()}
    curves = {
        tag: curve_of(slot, tag, histories[tag], rulers[tag].places, factor=settings.factor, kind=settings.scale)
        for slot, tag in shown
        if tag in histories
    }
    scene = None
    if histories:
        longest = max(histories, key=lambda tag: len(histories[tag].updates))
        ruler, history = rulers[longest], histories[longest]
        marks = marks_of(view, data.details, history, ruler)
        beside = {RETURN: _figures(marks)}
        sided = side_by_side(list(curves.values()), kind=settings.scale, beside=beside)
        scene = Scene(sided, ruler, marks, settings.factor > 0)
    by_tag = {it.curve.tag: it for it in scene.sided} if scene is not None else {}
    entries = tuple(
        Entry(
            slot,
            tag,
            view.steps_per_s if tag == "steps_per_s" else view.metrics.get(tag),
            curves.get(tag),
            by_tag.get(tag),
        )
        for slot, tag in shown
    )
    return Content(entries, scene, settings.over, settings.factor, settings.scale, limits, data.trouble, _empty(view))


def _empty(view: RunView) -> str:
    if view.state == "queued":
        return "it has not begun; s takes it out of the queue"
    if view.state in OVER:
        return "there is no more of it; l shows what it printed"
    if not view.update:
        return "no update has ended yet; l shows what it prints"
    return "the next update brings another"


def crossed(content: Content, data: RunData, update: int, now: float, ruler: Ruler | None = None) -> Content:
    """The same chart with the crosshair at the end of `update`, which `ruler` places where another chart leads."""
    if content.scene is None:
        return content
    ruler, exact = ruler or content.scene.ruler, data.history.get(EXACT)
    entries = tuple(
        replace(
            entry,
            at=_at(entry.tag, update, data.history[entry.tag], exact),
            soft_at=_soft_at(entry.curve, update) if content.factor > 0 else None,
        )
        if entry.tag in data.history
        else entry
        for entry in content.entries
    )
    said = tuple(ruler.said_at(update, now))
    return replace(content, entries=entries, at=ruler.of_update(update), said=said)


def _figures(marks: Marks) -> list[float]:
    return [value for it in marks.judged for value in (it.low, it.mean, it.high)]


def _at(tag: str, update: int, history: HistoryReply, exact: HistoryReply | None) -> str:
    """The value of `update`, from the answer that was asked for it alone where its bucket holds several."""
    bucket = Ruler(history, "updates").bucket(update)
    if exact is not None and exact.updates == (update,) and tag in exact.low:
        low = high = exact.low[tag][0]
    elif bucket is None:
        return numbers.DASH
    else:
        low, high = history.low[tag][bucket], history.high[tag][bucket]
    return _digits(low) if low == high else f"{_digits(low)}…{_digits(high)}"


def _soft_at(curve: Curve | None, update: int) -> float | None:
    return next((it.drawn for it in curve.shown if it.update >= update), None) if curve is not None else None


def _digits(metric: Metric | None) -> str:
    """All digits that a cell of the history has."""
    return f"{metric:.6g}" if isinstance(metric, float | int) else numbers.reading(metric)
