"""Several runs beside each other: their curves over each other, and below what came of them and what differs."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.strip import Strip

from mission_tui.errors import MissionError
from mission_tui.fleet.compare import Axis, Comparison
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Compare
from mission_tui.tui.app_context import AppContext
from mission_tui.tui.cursor_moves import Move
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.listing.key_metrics import metric_title
from mission_tui.tui.screens.still_open import still_open
from mission_tui.tui.sections.comparison import comparison
from mission_tui.tui.widgets.hint_line import HintLine
from mission_tui.tui.widgets.overlay import Overlay
from mission_tui.tui.widgets.scroll_lines import ScrollLines

__all__ = ["CompareScreen"]

_AROUND, _LEAST_CHART = 2, 8
_HINT = "t steps or time  ↑↓ scroll  F5 again  Esc back"


class CompareScreen(Screen[None], inherit_bindings=False):
    """Asked for once, and again with F5 or for the other axis: numbers that run away cannot be compared."""

    CSS_PATH = "compare.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,c", "back", "back"),
        Binding("t", "turn", "steps or time"),
        Binding("f5", "again", "again"),
        *(
            Binding(keys, f"scroll_to('{how}')", how)
            for keys, how in (
                ("up,k", "up"),
                ("down,j", "down"),
                ("pageup", "page_up"),
                ("pagedown", "page_down"),
                ("home", "first"),
                ("end", "last"),
            )
        ),
    ]

    def __init__(self, app_context: AppContext, runs: tuple[RunView, ...]) -> None:
        super().__init__()
        self._app_context = app_context
        self._runs = runs
        self._by: Axis = "step"
        self._found: Comparison | None = None
        self._trouble = ""

    def compose(self) -> ComposeResult:
        """Title, curves, tables, hint."""
        yield ScrollLines(self._title, id="compare-title")
        yield Overlay()
        yield ScrollLines(self._lines, id="compare-lines")
        yield HintLine(lambda: f" {_HINT}", id="compare-hint")

    def on_mount(self) -> None:
        """Ask."""
        self._app_context.start(self._ask())

    async def _ask(self) -> None:
        ids, by = tuple(view.id for view in self._runs), self._by
        try:
            reply = await self._app_context.ask(lambda id_: Compare(id=id_, runs=ids, by=by))
        except MissionError as error:
            self._trouble = str(error)
        else:
            if by != self._by:
                return
            self._found, self._trouble = msgspec.convert(reply.comparison, Comparison), ""
        if still_open(self):
            self._draw()

    def _draw(self) -> None:
        if self._found is not None:
            overlay = self.query_one(Overlay)
            overlay.display = any(len(curve.x) > 1 for curve in (*self._found.curves, *self._found.bands))
            overlay.styles.height = self._chart_rows(len(comparison(self._found, self.size.width)))
            overlay.draw_comparison(self._found)
        for widget in self.query(ScrollLines):
            widget.redraw()

    def _chart_rows(self, lines: int) -> int:
        """What the tables leave of the screen, and two fifths of it where they are long."""
        rows = self.size.height - _AROUND
        return max(_LEAST_CHART, rows * 2 // 5, rows - lines)

    def on_resize(self) -> None:
        """Share the rows out again."""
        self._draw()

    def _title(self, width: int) -> list[Strip]:
        found = self._found
        said = f" compare {len(self._runs)} runs"
        if found is None:
            return [line([(said, colours.BOLD), ("" if self._trouble else ": asking…", colours.QUIET)], width)]
        over = "seconds of training" if found.by == "time" else "timesteps"
        place = self.query_one("#compare-lines", ScrollLines).place
        parts = [
            (said, colours.BOLD),
            (f"  {metric_title(found.metric)} over {over}", colours.INK),
            (_span(found), colours.QUIET),
        ]
        return [line([*parts, (f"  {place}" if place else "", colours.QUIET)], width)]

    def _lines(self, width: int) -> list[Strip]:
        if self._trouble:
            return [line([(f" {self._trouble}", colours.ALARM)], width)]
        return comparison(self._found, width) if self._found is not None else []

    def action_scroll_to(self, how: Move) -> None:
        """Scroll the tables."""
        self.query_one("#compare-lines", ScrollLines).move(how)
        self.query_one("#compare-title", ScrollLines).redraw()

    def action_turn(self) -> None:
        """Over the other axis."""
        self._by = "step" if self._by == "time" else "time"
        self._app_context.start(self._ask())

    def action_again(self) -> None:
        """The same runs as they are now."""
        self._app_context.start(self._ask())

    def action_back(self) -> None:
        """Back one layer."""
        self.dismiss(None)


def _span(found: Comparison) -> str:
    if found.span is None:
        return ""
    say = numbers.duration if found.by == "time" else numbers.compact
    return f"  area up to {say(found.span[1])}"
