"""The tab `watch`: a policy at play, drawn anew with every frame; only the cells that changed are painted."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from mission_tui.fleet.views.played_frame import Canvas, Colours, Protocol
from mission_tui.tui.drawing import colours
from mission_tui.tui.sections.watch import Shown, picture_room, watch_lines
from mission_tui.tui.terminal.pixels import Placed
from mission_tui.tui.widgets.lines import Lines

_LEAST_COLUMNS, _LEAST_LINES = 12, 4
_NUMBERS_ONLY = Canvas(columns=1, lines=1)


class Player(Lines):
    """Draws what it was shown last; `laid_out` is called whenever there may be another room for pictures."""

    def __init__(self, laid_out: Callable[[], None]) -> None:
        super().__init__(id="player")
        self._laid_out = laid_out
        self._shown: Shown | None = None

    def on_resize(self, _event: events.Resize) -> None:
        """The first one comes once the tab is shown: nothing can be played before."""
        self._laid_out()

    def canvas(self, shades: Colours, cell: tuple[int, int] | None = None, pixels: Protocol = "kitty") -> Canvas | None:
        """The room for pictures; None before there is a layout. Where it is too small for one, a cell."""
        if not self.display or self.size.width == 0:
            return None
        columns, lines = picture_room(self.size.width, self.size.height)
        if columns < _LEAST_COLUMNS or lines < _LEAST_LINES:
            return _NUMBERS_ONLY
        return Canvas(columns=min(columns, 1000), lines=min(lines, 1000), colours=shades, cell=cell, pixels=pixels)

    def placed(self, canvas: Canvas | None) -> Placed | None:
        """Where on the screen the pixels of the newest frame belong, of a canvas that takes some."""
        frame = None if self._shown is None else self._shown.frame
        if frame is None or frame.pixels is None or canvas is None or canvas.cell is None:
            return None
        columns, lines = canvas.fitting(frame.pixels.width, frame.pixels.height)
        x, y = self.region.x + 1 + (canvas.columns - columns) // 2, self.region.y + (canvas.lines - lines) // 2
        return Placed(frame.pixels.png, x, y, columns, lines, frame.pixels.sixels, colours.PALETTE.ground)

    def update(self, shown: Shown) -> None:
        """Draw `shown`."""
        self._shown = shown
        self.redraw()

    def redraw(self) -> None:
        """Picture and numbers in the present size."""
        width, height = self.size
        if width > 0 and self._shown is not None:
            self.show(watch_lines(self._shown, width, height))

    def text(self) -> list[str]:
        """What is shown, as words."""
        return [strip.text.rstrip() for strip in self._strips]
