"""The chart of a run: its legend, the picture and the meaning of its signs. The mouse moves the crosshair on it."""

from __future__ import annotations

from textual import events
from textual.message import Message

from mission_tui.tui.plot.canvas import Canvas
from mission_tui.tui.plot.content import Content
from mission_tui.tui.plot.frame import Frame, frame_for
from mission_tui.tui.plot.legend import legend, signs
from mission_tui.tui.plot.picture import Scene, painted, picture
from mission_tui.tui.widgets.lines import Lines


class Chart(Lines):
    """Draws what it is given, and says where it was clicked or dragged."""

    class Pointed(Message):
        """The mouse is at `place` of the axis."""

        def __init__(self, place: float) -> None:
            super().__init__()
            self.place = place

    class Wheeled(Message):
        """The wheel was turned by `by` columns."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self) -> None:
        super().__init__(id="chart")
        self._content: Content | None = None
        self._painted: tuple[Scene, Frame, Canvas] | None = None
        self.frame: Frame | None = None

    def draw(self, content: Content) -> None:
        """Show `content`."""
        self._content = content
        self.redraw()

    def redraw(self) -> None:
        """Legend above, signs below, and the picture in what is left."""
        content, (width, height) = self._content, self.size
        self.frame = None
        if content is None or width <= 0:
            return
        above = legend(content, width)
        scene = content.scene
        if scene is None or scene.reach is None:
            self.show(above)
            return
        below = signs(scene.marks, width)
        sides = [it.side for it in scene.sided]
        frame = frame_for(width, height - len(above) - len(below), scene.reach, sides)
        if not frame.roomy:
            self.show(above)
            return
        # The crosshair moves as often as a key repeats, and painting curves is work.
        if self._painted is None or self._painted[0] is not scene or self._painted[1] != frame:
            self._painted = scene, frame, painted(scene, frame)
        self.frame = frame
        self.show([*above, *picture(scene, frame, self._painted[2], content.at), *below])

    def _point(self, event: events.MouseEvent) -> None:
        frame = self.frame
        if frame is not None and frame.left <= event.x < frame.left + frame.columns:
            event.stop()
            self.post_message(self.Pointed(frame.place(event.x - frame.left)))

    def on_click(self, event: events.Click) -> None:
        """A click puts the crosshair there."""
        self._point(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """The crosshair follows the pressed button."""
        if event.button:
            self._point(event)

    def wheel(self, by: int) -> None:
        """The wheel moves the crosshair."""
        self.post_message(self.Wheeled(by))
