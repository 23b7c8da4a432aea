"""An error of the screen itself: shown with its trace instead of ending the session. The runs know nothing of it."""

from __future__ import annotations

import traceback

from textual.strip import Strip

from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.drawing.wrapping import wrap
from mission_tui.tui.screens.sheet import Sheet

__all__ = ["ErrorScreen"]


class ErrorScreen(Sheet[None]):
    """Also written to Textual's log, for those who run with its console."""

    def __init__(self, error: Exception) -> None:
        super().__init__("Something went wrong in the screen; all runs go on", "Esc back")
        self._said = traceback.format_exception(error)

    def on_mount(self) -> None:
        """Leave a trace."""
        self.log.error("".join(self._said))

    def lines(self, width: int) -> list[Strip]:
        """The error, then where it came from, newest first."""
        said = [text for block in reversed(self._said) for raw in block.splitlines() for text in wrap(raw, width)]
        return [line([(text, colours.ALARM if at == 0 else colours.QUIET)], width) for at, text in enumerate(said)]
