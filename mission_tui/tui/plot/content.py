"""What one chart shows of one run, put together from its view, its histories and how it is to be looked at; and which
run it is held against: of those of the same task that finished or were stopped the one that was marked, the best, or
the previous.

And the whole run in a few cells, from what every snapshot has of it: for lines of a list, for panes, and for a chart
before it has its answer. A further update changes the newest column alone, until all are used up and each stands for a
quarter more. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from mission_tui.fleet.events.metrics import EVAL_RETURN, EVAL_SUCCESS, RETURN, Metric, number, spoken
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.history.course import ROLLOUT_SUCCESS, Course
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import HistoryReply
from mission_tui.present import numbers
from mission_tui.present.run_state import goal_words
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import spark
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.plot.canvas import DOTS_ACROSS, Canvas
from mission_tui.tui.plot.curve import Curve, Ghost, ScaledCurve, curve_of, marks_of, side_by_side
from mission_tui.tui.plot.picture import GHOST_SIGN, Scene, down_of, draw_level
from mission_tui.tui.plot.scale import Ruler, Scale, scale_of, steady
from mission_tui.tui.state.preferences import AxisScale, ChartSettings, GhostWord, Over
from mission_tui.tui.state.run_data import EXACT, RunData

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


_GOAL_TAGS: Mapping[str, tuple[str, ...]] = {
    "return": (RETURN, EVAL_RETURN),
    "success": (EVAL_SUCCESS, ROLLOUT_SUCCESS),
}


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
    sided: ScaledCurve | None
    at: str = ""
    soft_at: float | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """`at` and `said` are the place of the crosshair, `limits` what rules compare the chosen metric with.

    `empty` is why there may be nothing to draw, and the key that shows more; `aims` are best, goal and ghost
    in words.
    """

    entries: tuple[Entry, ...]
    scene: Scene | None
    over: Over
    factor: float
    kind: AxisScale
    limits: Sequence[Part] = ()
    trouble: str | None = None
    empty: str = ""
    aims: tuple[str, ...] = ()
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
        alone = shown[0][1] if len(shown) == 1 else ""
        ghost = _ghost(data, alone, settings, ruler)
        beside = {RETURN: [value for it in marks.judged for value in (it.low, it.mean, it.high)]}
        if ghost is not None:
            beside[alone] = [*beside.get(alone, ()), *(value for _, value in ghost.points)]
        goals = {tag: goal for tag in curves if (goal := goal_of(view, tag)) is not None}
        sided = side_by_side(list(curves.values()), kind=settings.scale, beside=beside, goals=goals)
        best = _best(view, ruler) if alone == RETURN else None
        scene = Scene(sided, ruler, marks, settings.factor > 0, goals, best, ghost)
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
    aims = tuple(_aims(view, data, shown[0][1], scene)) if len(shown) == 1 else ()
    kept = settings.over, settings.factor, settings.scale
    return Content(entries, scene, *kept, limits, data.trouble, _empty(view), aims)


def besides(view: RunView, data: RunData, tag: str) -> object:
    """What the chart of `tag` shows beside its curve: it is the same chart while that is equal."""
    of_return = (view.goal, view.best) if tag == RETURN or goal_of(view, tag) is not None else None
    return data.ghost_word, data.ghost and data.ghost.id, id(data.ghosts.get(tag)), view.moments, of_return


def goal_of(view: RunView, tag: str) -> float | None:
    """What the run is to reach on the curve of `tag`."""
    goal = view.goal
    return goal.value if goal is not None and tag in _GOAL_TAGS[goal.of] else None


def _best(view: RunView, ruler: Ruler) -> tuple[float, float] | None:
    place = None if view.best is None else ruler.of_update(view.best.update)
    return None if view.best is None or place is None else (place, view.best.value)


def _ghost(data: RunData, tag: str, settings: ChartSettings, ruler: Ruler) -> Ghost | None:
    """The other run's curve of the one metric that is drawn, over the same axis."""
    history = data.ghosts.get(tag) if data.ghost is not None else None
    if history is None or data.ghost is None or not ruler.places:
        return None
    places = Ruler(history, settings.over).shifted(ruler.places[0])
    curve = curve_of(0, tag, history, places, factor=settings.factor, kind=settings.scale)
    points = tuple((sample.place, sample.drawn) for sample in curve.shown)
    return Ghost(data.ghost.name, data.ghost_word, points) if points else None


def _aims(view: RunView, data: RunData, tag: str, scene: Scene | None) -> Iterator[str]:
    if scene is not None and scene.best is not None and view.best is not None:
        yield f"best {numbers.reading(view.best.value)} at {numbers.compact(view.best.timesteps)}"
    if goal_of(view, tag) is not None:
        yield goal_words(view)
    if scene is not None and scene.ghost is not None:
        yield f"{GHOST_SIGN} {scene.ghost.name}, the {scene.ghost.word} run"
    elif data.ghost is not None and data.ghosts.get(tag) is None:
        yield f"{GHOST_SIGN} {data.ghost.name}: asking…"


def _empty(view: RunView) -> str:
    # Each fits a chart of 80 cells: it has one line there.
    if view.state == "queued":
        return "not begun; s takes it out of the queue"
    if view.state in OVER:
        return "no more of it; l shows what it printed"
    if "metrics" not in view.can:
        return "curves need run.follow, --hook or report"
    if not view.update:
        return "no update yet; l shows what it prints"
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


_GHOST_WORDS: tuple[GhostWord, ...] = get_args(GhostWord)
_COUNTED_ENDS = ("finished", "stopped")
"""Somebody may have stopped it at its best; what was killed or failed was cut off."""


def ghost_of(view: RunView, runs: Iterable[RunView], which: str, marked: str = "") -> RunView | None:
    """The run among `runs` that `which` means for `view`, `marked` being the id of one; None where there is none, or
    nothing is meant.
    """
    if not which or not view.task:
        return None
    over = [
        run
        for run in runs
        if run.task == view.task and run.outcome in _COUNTED_ENDS and run.id != view.id and run.update
    ]
    if which == "marked":
        return next((run for run in over if run.id == marked), None)
    if which == "previous":
        before = [run for run in over if run.created_t < view.created_t]
        return max(before, key=lambda run: run.created_t, default=None)
    return max(over, key=_last_return, default=None)


def _last_return(run: RunView) -> float:
    value = number(run.metrics.get(RETURN))
    return value if value is not None and math.isfinite(value) else -math.inf


def turn_ghost(settings: ChartSettings, view: RunView, runs: Iterable[RunView], marked: Iterable[str] = ()) -> str:
    """Draw the next of none, the one run that is `marked` besides, the best and the previous run that there is; what
    that is, in a sentence.
    """
    runs, others = tuple(runs), [run for run in marked if run != view.id]
    if len(others) == 1 and settings.ghost_run != others[0]:
        # A run that has just been marked is meant, whichever was drawn before.
        settings.ghost, settings.ghost_run = "", others[0]
    words = _GHOST_WORDS[_GHOST_WORDS.index(settings.ghost) + 1 :] if settings.ghost else _GHOST_WORDS
    shown = ghost_of(view, runs, settings.ghost, settings.ghost_run)
    for word in words:
        ghost = ghost_of(view, runs, word, settings.ghost_run)
        if ghost is not None and (shown is None or ghost.id != shown.id):
            settings.ghost = word
            return f"beside it as a dotted ghost: {ghost.name}, the {word} run of the same task"
    if settings.ghost:
        settings.ghost, settings.ghost_run = "", ""
        return "no ghost"
    return f"no other run of {view.task or 'the same task'} has finished or was stopped: there is no ghost to draw"
