"""Live runs as framed panes side by side: progress, speed, phases, return, the worst finding. One widget draws all.

They are as wide as there is room, in rows of as many. What is inside a frame changes with the run's updates; name and
state, on the frame, change far more often.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from msgspec import Struct, structs
from rich.cells import cell_len
from rich.style import Style
from textual import events
from textual.strip import Strip

from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.run_state import goal_words, share_done, state_word, stuck_sentence, time_left
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import bar, spark
from mission_tui.tui.drawing.strips import Part, clause, fit, fit_name, join, line, literal
from mission_tui.tui.plot.content import pane_chart
from mission_tui.tui.state import run_status
from mission_tui.tui.state.fleet_view_state import row_fingerprint
from mission_tui.tui.state.run_status import key_metrics
from mission_tui.tui.widgets.lines import Lines
from mission_tui.tui.widgets.run_table import RunTable

_LEAST_WIDTH = 48
PANE_HEIGHT = 7
_AXIS, _CHART_ROWS = 6, 2
LENGTH = "rollout/ep_len_mean"
_USE_EVERY_S, _USE_CELLS = 2.0, 12
"""Each cell of a sparkline of what a run takes is as long as the supervisor takes between two looks."""


def columns_for(width: int, many: int) -> int:
    """How many of `many` panes stand side by side in `width` cells: rows as few as may be, and as alike."""
    most = max(1, width // _LEAST_WIDTH)
    rows = max(1, -(-many // most))
    return max(1, -(-many // rows))


class OwnUse:
    """What one run took of late, percent of a core and of a GPU; `words` say it on the frame of its pane."""

    def __init__(self) -> None:
        self._looked_at = float("-inf")
        self._cpu: deque[float] = deque(maxlen=_USE_CELLS)
        self._gpu: deque[float] = deque(maxlen=_USE_CELLS)
        self.words: tuple[str, ...] = ()

    def sample(self, view: RunView, now: float) -> None:
        """Take in what it takes at `now`, if the last sample is old enough."""
        if view.usage is None:
            self.words = ()
            return
        if now - self._looked_at < _USE_EVERY_S:
            return
        self._looked_at = now
        self._cpu.append(view.usage.cpu_percent)
        self.words = (self._drawn("CPU", self._cpu, max(100.0, *self._cpu)),)
        if view.usage.gpu_percent is not None:
            self._gpu.append(view.usage.gpu_percent)
            self.words += (self._drawn("GPU", self._gpu, 100.0),)

    @staticmethod
    def _drawn(what: str, values: Sequence[float], most: float) -> str:
        return f"{what} {numbers.in_unit(values[-1], '%')} {spark(values, min(len(values), _USE_CELLS), 0, most)}"


class _Pane(Struct, frozen=True):
    """A pane as it was drawn last: `view` looked so, as the marks in `how`, the width and what it takes say."""

    view: RunView
    how: tuple[int, bool, bool, tuple[str, ...]]
    body: list[Strip]
    strips: list[Strip]


class _Row(Struct, frozen=True):
    """Panes side by side as they were drawn last."""

    panes: list[list[Strip]]
    strips: list[Strip]


class PaneGrid(Lines):
    """Panes in rows; rows that do not fit scroll so that the chosen pane is in sight.

    A line is made anew only when something in it changed: of a run that goes from one phase to the next that is one.
    """

    def __init__(self) -> None:
        super().__init__(id="panes")
        self._runs: Sequence[RunView] = ()
        self._chosen: int | None = None
        self._marked: frozenset[str] = frozenset()
        self._now = 0.0
        self._top = 0
        self._panes: dict[str, _Pane] = {}
        self._rows: dict[int, _Row] = {}
        self._uses: dict[str, OwnUse] = {}

    def update(self, runs: Sequence[RunView], *, now: float, chosen: int | None, marked: frozenset[str]) -> None:
        """Draw `runs`; `chosen` is an index into them or None."""
        self._runs, self._now, self._chosen, self._marked = runs, now, chosen, marked
        self._uses = {run.id: self._uses.get(run.id) or OwnUse() for run in runs}
        for run in runs:
            self._uses[run.id].sample(run, now)
        self.redraw()

    def redraw(self) -> None:
        """Draw the rows of panes that fit."""
        width, height = self.size
        if not self._runs or width < 8:
            self._panes, self._rows = {}, {}
            self.show([])
            return
        columns = columns_for(width, len(self._runs))
        rows = -(-len(self._runs) // columns)
        fitting = max(1, height // PANE_HEIGHT)
        if self._chosen is not None:
            row = self._chosen // columns
            self._top = min(max(self._top, row - fitting + 1), row)
        self._top = max(0, min(self._top, rows - fitting))
        shown = range(self._top, min(rows, self._top + fitting))
        self._draw(shown, columns, width)
        strips = [strip for row in shown for strip in self._rows[row].strips]
        hidden = len(self._runs) - min(len(self._runs), fitting * columns)
        if hidden and height > len(strips):
            runs, them = ("run", "it") if hidden == 1 else ("runs", "them")
            strips.append(line([(f"  {hidden} more live {runs}: move on to see {them}", colours.QUIET)], width))
        self.show(strips)

    def _draw(self, shown: range, columns: int, width: int) -> None:
        """The rows that are shown, of those that were before as much as can be kept."""
        pane_width = width // columns
        many = len(self._runs)
        panes = {
            at: self._pane(at, pane_width - 1) for at in range(shown.start * columns, min(many, shown.stop * columns))
        }
        rows: dict[int, _Row] = {}
        for row in shown:
            drawn = [panes[at].strips for at in range(row * columns, min(many, (row + 1) * columns))]
            rows[row] = _Row(drawn, _beside(drawn, self._rows.get(row), pane_width, width))
        self._panes = {self._runs[at].id: pane for at, pane in panes.items()}
        self._rows = rows

    def _pane(self, at: int, width: int) -> _Pane:
        run = self._runs[at]
        use = self._uses[run.id].words
        view, how = row_fingerprint(run), (width, at == self._chosen, run.id in self._marked, use)
        kept = self._panes.get(run.id)
        if kept is None or kept.how[0] != width:
            kept, body = None, inside(view, width, self._now)
        elif kept.view == view:
            if kept.how == how:
                return kept
            body = kept.body
        else:
            same = structs.replace(kept.view, phase=view.phase) == view
            body = kept.body if same else inside(view, width, self._now)
        strips = framed(view, body, width, chosen=how[1], marked=how[2], use=use)
        if kept is not None:
            strips = [old if old == new else new for old, new in zip(kept.strips, strips, strict=True)]
        return _Pane(view, how, body, strips)

    def on_click(self, event: events.Click) -> None:
        """A click chooses a pane; a double click opens it."""
        columns = columns_for(self.size.width, len(self._runs))
        column = event.x // max(1, self.size.width // columns)
        index = (self._top + event.y // PANE_HEIGHT) * columns + column
        if column < columns and index < len(self._runs):
            self.post_message(RunTable.Picked(index, twice=event.chain == 2))

    def wheel(self, by: int) -> None:
        """The wheel moves the choice by a row of panes."""
        at = max(0, min((self._chosen or 0) + by * columns_for(self.size.width, len(self._runs)), len(self._runs) - 1))
        self.post_message(RunTable.Picked(at, twice=False))


def _beside(panes: list[list[Strip]], kept: _Row | None, pane_width: int, width: int) -> list[Strip]:
    """The lines of panes side by side, each with a blank after it; those of which nothing changed are the kept ones."""
    gap = Strip.blank(1)
    rest = Strip.blank(width - len(panes) * pane_width)
    if kept is not None and (len(kept.panes) != len(panes) or kept.strips[0].cell_length != width):
        kept = None
    strips: list[Strip] = []
    for y in range(PANE_HEIGHT):
        if kept is not None and all(old[y] is new[y] for old, new in zip(kept.panes, panes, strict=True)):
            strips.append(kept.strips[y])
        else:
            strips.append(join([*(part for strip in panes for part in (strip[y], gap)), rest]))
    return strips


def inside(view: RunView, width: int, now: float) -> list[Strip]:
    """What stands within the frame of a pane of `width` cells; the phase, for one, is not in it."""
    width -= 4
    rows = (_progress(view, width), *_returns(view, width), _vitals(view, width), _concern(view, now, width))
    return [line(parts, width) for parts in rows]


def framed(
    view: RunView, body: Sequence[Strip], width: int, *, chosen: bool, marked: bool, use: Sequence[str] = ()
) -> list[Strip]:
    """`body` as the pane of `view`: `PANE_HEIGHT` strips of `width` cells; what it takes stands on the frame."""
    frame = colours.KEY if chosen else colours.LINE
    left, right = line([("│ ", frame)], 2), line([(" │", frame)], 2)
    return [
        _top(view, width, frame, chosen=chosen, marked=marked),
        *(join((left, strip, right)) for strip in body),
        _bottom(use, width, frame),
    ]


def _bottom(use: Sequence[str], width: int, frame: Style) -> Strip:
    parts: list[Part] = [("└", frame)]
    room = width - 2
    for words in use:
        if cell_len(words) + 4 > room:
            break
        parts += [("─ ", frame), (words, colours.QUIET), (" ", frame)]
        room -= cell_len(words) + 3
    return line([*parts, ("─" * room + "┘", frame)], width)


def _top(view: RunView, width: int, frame: Style, *, chosen: bool, marked: bool) -> Strip:
    word, health = state_word(view), run_status.badge(view)
    badge = literal(health[0])
    state = f" {run_status.shape(view)} {word} "
    room = width - 6 - len(state) - cell_len(badge) - 3
    name = fit_name(view.name, min(room, cell_len(literal(view.name)))) if room > 0 else ""
    mark = "✓" if marked else " "
    lead = ">" if chosen else "─"
    rule = "─" * max(0, width - 7 - cell_len(name) - len(state) - cell_len(badge))
    parts: list[Part] = [
        (f"┌{lead}{mark}", frame),
        (name, colours.BOLD),
        (state, run_status.state_style(view)),
        (rule, frame),
        (f" {badge} ", health[1]),
        ("─┐", frame),
    ]
    return line(parts, width)


def _progress(view: RunView, width: int) -> list[Part]:
    share = share_done(view)
    pace = "" if view.pace is None else f"  {numbers.rate(view.pace)}/s  {time_left(view)}"
    amount = run_status.steps_words(view) or numbers.DASH
    tail = f" {numbers.percent(share):>4}  {amount}{pace}"
    done, rest = bar(share, width - len(tail))
    return [(done, colours.LIVE), (rest, colours.TRACK), (tail, colours.INK)]


def _returns(view: RunView, width: int) -> list[list[Part]]:
    """The newest return and the best one, and beside them the whole run with its goal."""
    best = None if view.best is None else view.best.value
    words = (("return", numbers.reading_in(view.metrics.get(RETURN), 7)), ("best", numbers.reading_in(best, 7)))
    leads: list[list[Part]] = [[(f"{word:<6} ", colours.QUIET), (f"{value:>7} ", colours.INK)] for word, value in words]
    columns = width - 15 - _AXIS - 1
    if view.course is None or columns < 4:
        return leads
    goal = view.goal.value if view.goal is not None and view.goal.of == "return" else None
    marked = (*(it.update for it in view.changes if it.update is not None), *(it.update for it in view.moments))
    chart, ends = pane_chart(view.course, columns, _CHART_ROWS, goal=goal, marked=marked)
    if ends is None:
        return leads
    return [
        [*lead, (f"{numbers.reading_in(end, _AXIS):>{_AXIS}.{_AXIS}}", colours.QUIET), ("┤", colours.LINE), *parts]
        for lead, end, parts in zip(leads, reversed(ends), chart, strict=True)
    ]


def _vitals(view: RunView, width: int) -> list[Part]:
    """How the time is shared, how long episodes are, and the metrics that tell how it learns."""
    share, length = run_status.update_share(view), view.metrics.get(LENGTH)
    parts: list[Part] = [("update ", colours.QUIET), (f"{numbers.percent(share):>4}   ", colours.INK)]
    if length is not None:
        parts += [("length ", colours.QUIET), (f"{numbers.reading(length)}   ", colours.INK)]
    return [*parts, *key_metrics(view, width - sum(len(text) for text, _ in parts))]


def _concern(view: RunView, now: float, width: int) -> list[Part]:
    worst = run_status.headline_finding(view)
    if (stuck := stuck_sentence(view)) and (worst is None or worst.severity != "critical"):
        return [(f"▲ {clause(stuck, width - 2)}", colours.WARN)]
    if worst is None:
        goal = f"{goal_words(view)}  " if view.goal is not None and not view.cause else ""
        said = run_status.headline(view, now)
        if cell_len(goal) + cell_len(literal(said)) > width and said == view.description:
            said = " on ".join(filter(None, (view.preset, view.env_id)))
        return [(fit(goal + said, width), colours.QUIET)]
    style = colours.severity_style(worst.severity)
    return [(f"{run_status.severity_shape(worst)} {clause(worst.sentence, width - 2)}", style)]
