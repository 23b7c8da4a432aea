"""The whole run in a few cells, from what every snapshot has of it: for lines of a list, for panes, and for a chart
before it has its answer. Pure.

A further update changes the newest column alone, until all are used up and each stands for a quarter more.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from mission_tui.fleet.events.metrics import RETURN, Metric, number, spoken
from mission_tui.fleet.history.course import Course
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import HistoryReply
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.plot.canvas import DOTS_ACROSS, Canvas
from mission_tui.tui.plot.picture import down_of, draw_level
from mission_tui.tui.plot.scale import Scale, scale_of, steady

_LEAST_ROOM = 8
_WILD = 0.25
"""Of the scale: a cell whose values lie farther apart shows the one that is farther from what was before."""
_BROKEN = "×"
_EARLIER = "…"
Span = tuple[float, float] | None
"""Least and greatest of one column; nan where a value is no number, None where there is none."""


def scale_for(course: Course, goal: float | None = None) -> Scale | None:
    """From the least to the greatest of the whole run, and to the goal if there is room."""
    values = [value for it in (*course.low, *course.high) if (value := number(it)) is not None]
    scale = scale_of(values, goal=goal)
    return None if scale is None else steady(scale)


def columns_of(course: Course, columns: int) -> list[Span]:
    """The course in so many columns, those that are still free left out."""
    spans = list(_spans(course))
    room = _room(len(spans))
    found: list[Span] = []
    for column in range(columns):
        first, last = column * room // columns, (column + 1) * room // columns
        if first >= len(spans):
            break
        found.append(_joined(spans[first : max(last, first + 1)]))
    return found


def column_at(course: Course, update: int, columns: int) -> int:
    """In which of so many columns an update lies."""
    return min(columns - 1, (max(1, update) - 1) // course.every * columns // _room(len(course.low)))


def _room(stretches: int) -> int:
    """At least `stretches`, in steps of a quarter, so that columns keep their place for long."""
    room = _LEAST_ROOM
    while room < stretches:
        room += max(1, (1 << (room.bit_length() - 1)) // 4)
    return room


def _spans(course: Course) -> Iterator[Span]:
    for least, greatest in zip(course.low, course.high, strict=True):
        low, high = number(least), number(greatest)
        if low is None or high is None:
            yield None
        else:
            yield (low, high) if math.isfinite(low) and math.isfinite(high) else (math.nan, math.nan)


def _joined(spans: Sequence[Span]) -> Span:
    known = [span for span in spans if span is not None]
    if any(math.isnan(low) for low, _ in known):
        return math.nan, math.nan
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def line_of(view: RunView, cells: int) -> str:
    """The return of the whole run in one line; of one that is known by its last updates alone those, after `…`."""
    course = view.course
    scale = None if course is None else scale_for(course)
    if course is None or scale is None or cells <= 0:
        tail = spark(view.series.get(RETURN, ()), max(0, cells - 1), last=view.update).lstrip()
        return (_EARLIER + tail if tail else "")[: max(0, cells)]
    values: list[Metric | None] = []
    before: float | None = None
    for span in columns_of(course, cells):
        before = _telling(span, before, scale)
        values.append(None if before is None else spoken(before))
    return spark(values, len(values), scale.low, scale.high)


def _telling(span: Span, before: float | None, scale: Scale) -> float | None:
    """The middle; of values that lie far apart the one that is news, so that a short collapse is not averaged away."""
    if span is None or math.isnan(span[0]):
        return None if span is None else math.nan
    low, high = span
    if high - low <= _WILD * (scale.high - scale.low) or before is None or math.isnan(before):
        return (low + high) / 2
    return low if abs(low - before) > abs(high - before) else high


def pane_chart(
    course: Course, columns: int, rows: int, *, goal: float | None, marked: Iterable[int]
) -> tuple[list[list[Part]], tuple[float, float] | None]:
    """The whole run as a picture: from the least to the greatest of each column, the goal as dots, marks as lines.

    With it the least and the greatest value on it; None where there is none.
    """
    canvas, scale = Canvas(columns, rows), scale_for(course, goal)
    if scale is None:
        return [[(" " * columns, colours.INK)] for _ in range(rows)], None
    before: tuple[int, int] | None = None
    for across, span in enumerate(columns_of(course, columns * DOTS_ACROSS)):
        if span is None:
            continue
        if math.isnan(span[0]):
            canvas.glyph(across // DOTS_ACROSS, rows - 1, _BROKEN, colours.ALARM)
            continue
        top, bottom = down_of(span[1], scale, rows) or 0, down_of(span[0], scale, rows) or 0
        if before is not None:
            # Joined to the column before, so that a jump is a line and no two dots.
            top, bottom = min(top, max(before[1] + 1, 0)), max(bottom, before[0] - 1)
        canvas.column(across, top, bottom, colours.LIVE, layer=2)
        before = down_of(span[1], scale, rows) or 0, down_of(span[0], scale, rows) or 0
    for update in marked:
        canvas.fill(column_at(course, update, columns), "│", colours.KEY)
    if goal is not None:
        draw_level(canvas, goal, scale)
    known = [it for span in columns_of(course, columns) if span is not None for it in span if math.isfinite(it)]
    if goal is not None and scale.low <= goal <= scale.high:
        known.append(goal)
    return list(canvas.lines()), (min(known), max(known))


def first_history(view: RunView) -> HistoryReply | None:
    """The course as the answer to a question for the return: what a chart shows before it has one, over timesteps."""
    course = view.course
    if course is None or not view.update or not view.timesteps:
        return None
    updates = tuple(min(view.update, course.every * (at + 1)) for at in range(len(course.low)))
    timesteps = tuple(round(view.timesteps * update / view.update) for update in updates)
    low, high = {RETURN: course.low}, {RETURN: course.high}
    return HistoryReply(
        re=0, run=view.id, updates=updates, timesteps=timesteps, t=(0.0,) * len(updates), low=low, high=high,
        changes=tuple(it for it in view.changes if it.update is not None),
    )  # fmt: skip
