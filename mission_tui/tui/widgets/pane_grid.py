"""Live runs as panes side by side: more width adds panes and does not stretch them. One widget draws them all."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs
from textual import events
from textual.strip import Strip

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing.colours import QUIET
from mission_tui.tui.drawing.strips import join, line
from mission_tui.tui.state.roster import row_fingerprint
from mission_tui.tui.widgets.lines import Lines
from mission_tui.tui.widgets.pane import PANE_HEIGHT, framed, inside
from mission_tui.tui.widgets.run_table import RunTable

_LEAST_WIDTH = 48
_MOST_WIDTH = 62


def columns_for(width: int) -> int:
    """How many panes stand side by side in `width` cells."""
    return max(1, width // _LEAST_WIDTH)


class _Pane(Struct, frozen=True):
    """A pane as it was drawn last: `view` looked so, as the marks in `how` and the width say."""

    view: RunView
    how: tuple[int, bool, bool]
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

    def update(self, runs: Sequence[RunView], *, now: float, chosen: int | None, marked: frozenset[str]) -> None:
        """Draw `runs`; `chosen` is an index into them or None."""
        self._runs, self._now, self._chosen, self._marked = runs, now, chosen, marked
        self.redraw()

    def redraw(self) -> None:
        """Draw the rows of panes that fit."""
        width, height = self.size
        if not self._runs or width < 8:
            self._panes, self._rows = {}, {}
            self.show([])
            return
        columns = columns_for(width)
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
            strips.append(line([(f"  {hidden} more live runs: move on to see them", QUIET)], width))
        self.show(strips)

    def _draw(self, shown: range, columns: int, width: int) -> None:
        """The rows that are shown, of those that were before as much as can be kept."""
        pane_width = min(_MOST_WIDTH, width // columns)
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
        view, how = row_fingerprint(run), (width, at == self._chosen, run.id in self._marked)
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
        strips = framed(view, body, width, chosen=how[1], marked=how[2])
        if kept is not None:
            strips = [old if old == new else new for old, new in zip(kept.strips, strips, strict=True)]
        return _Pane(view, how, body, strips)

    def on_click(self, event: events.Click) -> None:
        """A click chooses a pane; a double click opens it."""
        columns = columns_for(self.size.width)
        column = event.x // min(_MOST_WIDTH, max(1, self.size.width // columns))
        index = (self._top + event.y // PANE_HEIGHT) * columns + column
        if column < columns and index < len(self._runs):
            self.post_message(RunTable.Picked(index, twice=event.chain == 2))

    def wheel(self, by: int) -> None:
        """The wheel moves the choice by a row of panes."""
        at = max(0, min((self._chosen or 0) + by * columns_for(self.size.width), len(self._runs) - 1))
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
