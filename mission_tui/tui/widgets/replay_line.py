"""In a replay, where between the first run and now the picture lies, and the keys that move it."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style

from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import Part, line
from mission_tui.tui.widgets.lines import Lines

__all__ = ["ReplayLine"]

_LEAST_BAR = 8
_MOST_BAR = 80
_BLANK: Part = (" ", colours.INK)


class ReplayLine(Lines):
    """Hidden in the present."""

    def __init__(self) -> None:
        super().__init__(id="replay")
        self.display = False
        self._snapshot: FleetSnapshot | None = None
        self._step = ""

    @property
    def rows(self) -> int:
        """How many rows it takes."""
        return int(self.display)

    def update(self, snapshot: FleetSnapshot | None, step: str) -> None:
        """Show where `snapshot` lies; one key goes `step`."""
        self._snapshot, self._step = snapshot, step
        shown = snapshot is not None and snapshot.replay is not None
        if self.display != shown:
            self.display = shown
        self.redraw()

    def redraw(self) -> None:
        """The span of the files as a bar, with the moment on it."""
        snapshot, width = self._snapshot, self.size.width
        if snapshot is None or snapshot.replay is None:
            return
        first, last = snapshot.replay.since, snapshot.replay.until
        before = "nothing before " if snapshot.t <= first else ""
        start, end = f" {before}{numbers.clock(first, last)} ", f" {numbers.clock(last, last)}"
        keys = [
            [_key(",", "back in time"), _BLANK, _key(".", "forward in time"), (f" {self._step} back, on", colours.INK)],
            [_key("H", "replay"), (" now", colours.INK)],
            [_key("(", "finer"), _BLANK, _key(")", "coarser"), (" step", colours.INK)],
            [_key("g", "go to"), (" time", colours.INK)],
        ]
        fixed = cell_len(start) + cell_len(end)
        while keys and width - fixed - _cells(keys) < _LEAST_BAR:
            keys.pop()
        room = max(2, min(_MOST_BAR, width - fixed - _cells(keys) - 1))
        share = (snapshot.t - first) / (last - first) if last > first else 1.0
        at = round(share * (room - 1))
        parts: list[Part] = [
            (start, colours.QUIET),
            ("─" * at, colours.LINE),
            ("●", colours.WARN),
            ("─" * (room - 1 - at), colours.LINE),
            (end, colours.QUIET),
        ]
        for hint in keys:
            parts += [("  ", colours.INK), *hint]
        self.show([line(parts, width)])


def _key(label: str, action: str) -> Part:
    return label, colours.KEY + Style(meta={"@click": f"app.do({action!r})"})


def _cells(keys: list[list[Part]]) -> int:
    return sum(2 + sum(cell_len(text) for text, _ in hint) for hint in keys)
