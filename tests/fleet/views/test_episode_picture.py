"""A foreign picture for a terminal: characters and colours, nothing that moves or clears, within its lines."""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.views.played_frame import MOST_PNG_BYTES, Canvas, PixelPicture, is_sound, picture

FOREIGN = "\x1b[2J\x1b]0;title\x07a  \x1b[41mb\x1b[0m   c\u202e\n\n  \x1b[5Ad\r\ne"


def test_colours_stay_and_all_else_that_a_terminal_obeys_goes() -> None:
    """Blanks stand where they stood, every coloured line ends uncoloured, and empty lines count."""
    assert picture(FOREIGN, Canvas(colours="256")) == "a  \x1b[41mb\x1b[0m   c\x1b[0m\n\n  d\ne"
    assert picture(FOREIGN, Canvas()) == "a  b   c\n\n  d\ne"


def test_no_more_lines_than_there_is_room_for() -> None:
    """What does not fit is left out."""
    assert picture("1\n2\n3\n4", Canvas(lines=2)) == "1\n2"


def test_only_what_is_a_png_of_the_size_that_it_says_is_handed_on() -> None:
    """A terminal is given nothing else, and nothing larger than it can be asked to draw."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    png = head + (60).to_bytes(4, "big") + (40).to_bytes(4, "big") + b"\x08\x02\0\0\0"
    sound = PixelPicture(width=60, height=40, png=png)
    assert is_sound(sound)
    for other in (
        structs.replace(sound, width=61),
        structs.replace(sound, width=-1),
        structs.replace(sound, height=1 << 70),
        structs.replace(sound, png=b"GIF89a"),
        structs.replace(sound, png=png + bytes(MOST_PNG_BYTES)),
        PixelPicture(width=9999, height=1, png=head + (9999).to_bytes(4, "big") + (1).to_bytes(4, "big")),
    ):
        assert not is_sound(other)


def test_sixels_end_no_picture_by_themselves() -> None:
    """Nothing but their own characters goes to a terminal."""
    sound = PixelPicture(width=2, height=2, sixels='"1;1;2;2#0;2;0;50;100#0!2~-')
    assert is_sound(sound)
    for said in ("#0~\x1b\\\x1b]0;title\x07", "#0\x9c", "#0~\n", "#0~é"):
        assert not is_sound(structs.replace(sound, sixels=said))
    assert not is_sound(structs.replace(sound, sixels="~" * (MOST_PNG_BYTES + 1)))


def test_a_picture_takes_as_many_cells_as_fit_in_its_proportions() -> None:
    """By the pixels of a cell; without them a cell is twice as high as wide."""
    assert Canvas(columns=60, lines=30, cell=(10, 20)).fitting(600, 400) == (60, 20)
    assert Canvas(columns=60, lines=10, cell=(10, 20)).fitting(600, 400) == (30, 10)
    assert Canvas(columns=60, lines=30).fitting(600, 400) == (60, 20)
