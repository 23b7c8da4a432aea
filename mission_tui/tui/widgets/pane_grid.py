"""Live runs as panes side by side: more width adds panes and does not stretch them. One widget draws them all."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.strip import Strip

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing.colours import QUIET
from mission_tui.tui.drawing.strips import join, line
from mission_tui.tui.widgets.lines import Lines
from mission_tui.tui.widgets.pane import PANE_HEIGHT, pane
from mission_tui.tui.widgets.run_table import RunTable

__all__ = ["PaneGrid", "columns_for"]

_LEAST_WIDTH = 48
_MOST_WIDTH = 62


def columns_for(width: int) -> int:
    """How many panes stand side by side in `width` cells."""
    return max(1, width // _LEAST_WIDTH)


class PaneGrid(Lines):
    """Panes in rows; rows that do not fit scroll so that the chosen pane is in sight."""

    def __init__(self) -> None:
        super().__init__(id="panes")
        self._runs: Sequence[RunView] = ()
        self._chosen: int | None = None
        self._marked: frozenset[str] = frozenset()
        self._now = 0.0
        self._top = 0
        self._cache: dict[str, tuple[tuple[object, ...], list[Strip]]] = {}

    def update(self, runs: Sequence[RunView], *, now: float, chosen: int | None, marked: frozenset[str]) -> None:
        """Draw `runs`; `chosen` is an index into them or None."""
        self._runs, self._now, self._chosen, self._marked = runs, now, chosen, marked
        self.redraw()

    def redraw(self) -> None:
        """Draw the rows of panes that fit."""
        width, height = self.size
        if not self._runs or width < 8:
            self._cache.clear()
            self.show([])
            return
        columns = columns_for(width)
        pane_width = min(_MOST_WIDTH, width // columns)
        rows = -(-len(self._runs) // columns)
        fitting = max(1, height // PANE_HEIGHT)
        if self._chosen is not None:
            row = self._chosen // columns
            self._top = min(max(self._top, row - fitting + 1), row)
        self._top = max(0, min(self._top, rows - fitting))
        strips: list[Strip] = []
        fresh: dict[str, tuple[tuple[object, ...], list[Strip]]] = {}
        blank = Strip.blank(pane_width)
        for row in range(self._top, min(rows, self._top + fitting)):
            panes = [
                self._pane(at, pane_width, fresh)
                for at in range(row * columns, min(len(self._runs), (row + 1) * columns))
            ]
            panes += [[blank] * PANE_HEIGHT] * (columns - len(panes))
            strips += [join(parts).adjust_cell_length(width) for parts in zip(*panes, strict=True)]
        hidden = len(self._runs) - min(len(self._runs), fitting * columns)
        if hidden and height > len(strips):
            strips.append(line([(f"  {hidden} more live runs: move on to see them", QUIET)], width))
        self._cache = fresh
        self.show(strips)

    def _pane(self, at: int, width: int, fresh: dict[str, tuple[tuple[object, ...], list[Strip]]]) -> list[Strip]:
        view = self._runs[at]
        chosen, marked = at == self._chosen, view.id in self._marked
        key = (view, width, chosen, marked)
        kept = self._cache.get(view.id)
        if kept and kept[0] == key:
            strips = kept[1]
        else:
            drawn = pane(view, width - 1, self._now, chosen=chosen, marked=marked)
            strips = [strip.adjust_cell_length(width) for strip in drawn]
        fresh[view.id] = (key, strips)
        return strips

    def on_click(self, event: events.Click) -> None:
        """A click chooses a pane; a double click opens it."""
        columns = columns_for(self.size.width)
        column = event.x // min(_MOST_WIDTH, max(1, self.size.width // columns))
        index = (self._top + event.y // PANE_HEIGHT) * columns + column
        if column < columns and index < len(self._runs):
            self.post_message(RunTable.Picked(index, twice=event.chain == 2))

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """The wheel moves the choice by a row of panes."""
        self._wheel(columns_for(self.size.width))

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """The wheel moves the choice by a row of panes."""
        self._wheel(-columns_for(self.size.width))

    def _wheel(self, by: int) -> None:
        at = max(0, min((self._chosen or 0) + by, len(self._runs) - 1))
        self.post_message(RunTable.Picked(at, twice=False))
