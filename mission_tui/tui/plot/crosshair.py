"""The place of a chart that is read off: an update of the run, so that it stays where it is when the axis changes."""

from __future__ import annotations

from mission_tui.tui.plot.frame import Frame
from mission_tui.tui.plot.ruler import Ruler

__all__ = ["Crosshair"]


class Crosshair:
    """`update` is None while there is none."""

    def __init__(self) -> None:
        self.update: int | None = None

    def turn(self, ruler: Ruler | None) -> None:
        """Take it away, or put it on the newest update."""
        self.update = ruler.updates[-1] if self.update is None and ruler is not None and ruler.updates else None

    def point(self, ruler: Ruler, place: float) -> None:
        """Put it on the update whose end lies nearest to `place`."""
        if ruler.updates:
            nearest = min(range(len(ruler.places)), key=lambda at: abs(ruler.places[at] - place))
            self.update = ruler.updates[nearest]

    def step(self, ruler: Ruler, frame: Frame, by: int) -> None:
        """Move it by at least `by` columns, to the end of a bucket; at either end of the run it stays."""
        if self.update is None or not ruler.updates or by == 0:
            return
        at = ruler.bucket(self.update)
        at = len(ruler.updates) - 1 if at is None else at
        wanted, way = frame.column(ruler.places[at]) + by, 1 if by > 0 else -1
        while 0 <= at + way < len(ruler.updates) and (wanted - frame.column(ruler.places[at])) * way > 0:
            at += way
        self.update = ruler.updates[at]
