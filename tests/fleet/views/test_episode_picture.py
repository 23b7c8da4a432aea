"""A foreign picture for a terminal: characters and colours, nothing that moves or clears, within its lines."""

from __future__ import annotations

from mission_tui.fleet.views.played_frame import Canvas, picture

FOREIGN = "\x1b[2J\x1b]0;title\x07a  \x1b[41mb\x1b[0m   c\u202e\n\n  \x1b[5Ad\r\ne"


def test_colours_stay_and_all_else_that_a_terminal_obeys_goes() -> None:
    """Blanks stand where they stood, every coloured line ends uncoloured, and empty lines count."""
    assert picture(FOREIGN, Canvas(colours="256")) == "a  \x1b[41mb\x1b[0m   c\x1b[0m\n\n  d\ne"
    assert picture(FOREIGN, Canvas()) == "a  b   c\n\n  d\ne"


def test_no_more_lines_than_there_is_room_for() -> None:
    """What does not fit is left out."""
    assert picture("1\n2\n3\n4", Canvas(lines=2)) == "1\n2"
