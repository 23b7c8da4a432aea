"""How the rows of the fleet screen are shared out between panes, list and detail. Pure arithmetic of a size."""

from __future__ import annotations

from dataclasses import dataclass

from mission_tui.tui.widgets.pane import PANE_HEIGHT
from mission_tui.tui.widgets.pane_grid import columns_for

__all__ = ["LEAST_HEIGHT", "LEAST_WIDTH", "PANES_FROM", "Arrangement", "arrange", "timeline_rows", "wants_panes"]

LEAST_WIDTH = 40
LEAST_HEIGHT = 10
PANES_FROM = 120
BESIDE_FROM = 160

_DETAIL = 7
_LIST = 4


_TIMELINE_FROM = 44


def timeline_rows(width: int, height: int) -> int:
    """How many rows of a screen of `width` x `height` the strip may take; none where its columns would be few."""
    return height // 4 if width >= BESIDE_FROM and height >= _TIMELINE_FROM else 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Heights in rows; 0 is not displayed, and the list takes what is left. `beside`: the detail is at the right."""

    panes: int
    detail: int
    listed: bool
    beside: bool = False


def arrange(width: int, rows: int, live: int, rest: int, *, panes: bool | None, maximised: str | None) -> Arrangement:
    """Share `rows` between panes of `live` runs, a list of the others (of all without panes) and the detail.

    `panes` is the person's choice, None lets the width decide; `maximised` is "list" or "detail" or None.
    """
    if maximised == "detail":
        return Arrangement(0, rows, listed=False)
    beside = width >= BESIDE_FROM and maximised is None
    wanted = wants_panes(width, panes)
    detail = 0 if maximised == "list" or rows < _DETAIL + _LIST else _DETAIL
    if not (wanted and live) or rows < PANE_HEIGHT + (detail and _DETAIL) + 2:
        return Arrangement(0, rows if beside else _grown(detail, rows, live + rest), listed=True, beside=beside)
    needed = -(-live // columns_for(width)) * PANE_HEIGHT
    below = max(detail, min(rest + 1, _LIST)) if beside else detail + min(rest + 1, _LIST)
    fitting = max(1, (rows - below) // PANE_HEIGHT) * PANE_HEIGHT
    shown = needed if needed <= rows - below else min(fitting + 1, rows - below)
    left = rows - shown
    return Arrangement(shown, left if beside else _grown(detail, left, rest), listed=True, beside=beside)


def wants_panes(width: int, panes: bool | None) -> bool:
    """Whether live runs are to be panes: as the person chose, else as the width has it."""
    return panes if panes is not None else width >= PANES_FROM


def _grown(detail: int, rows: int, listed: int) -> int:
    """The detail takes what a short list leaves, up to three fifths of the rows, so that its chart has room."""
    if not detail:
        return 0
    return max(detail, min(rows - listed - 1, rows * 3 // 5))
