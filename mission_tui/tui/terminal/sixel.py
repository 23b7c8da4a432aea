"""Pictures of pixels as sixels, in terminals that say that they show them: what is asked, sent and taken away.

Sixels are dots on the cells and nothing more: they have no name by which they could go, so that blank cells are written
over them. The answers are those of VT420 and xterm: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html
"""

from __future__ import annotations

from mission_tui.tui.terminal.kitty import Placed

QUERY = "\x1b[c\x1b[?1;1;0S"
"""What the terminal is, and how many colours a picture may have."""
_SHOWS_SIXELS = "4"
LEAST_COLOURS = 256
"""A terminal with fewer, as an xterm that is a VT340 with its 16, draws parts of a picture in wrong colours."""


class SixelAnswers:
    """What a terminal has said of itself."""

    def __init__(self) -> None:
        self._shows = False
        self._colours = 0

    def take(self, answer: str) -> None:
        """Note an answer to `QUERY`, without its beginning `ESC [ ?`."""
        words = answer[:-1].split(";")
        if answer.endswith("c"):
            self._shows = _SHOWS_SIXELS in words[1:]
        elif words[:2] == ["1", "0"] and len(words) > 2 and words[2].isdigit():
            self._colours = int(words[2])

    @property
    def yes(self) -> bool:
        """Whether it shows sixels in as many colours as pictures have."""
        return self._shows and self._colours >= LEAST_COLOURS


class SixelPicture:
    """The one picture of a screen, used as `KittyPicture` is."""

    def __init__(self) -> None:
        self.wanted: Placed | None = None
        self._there: Placed | None = None

    @property
    def news(self) -> str:
        """The sequences that make it so; whoever asks writes them."""
        before, self._there = self._there, self.wanted
        if before == self.wanted:
            return ""
        moved = before is not None and (self.wanted is None or _cells(before) != _cells(self.wanted))
        gone = _blanks(before) if before is not None and moved else ""
        return gone if self.wanted is None else gone + _placing(self.wanted)

    def take_away(self) -> str:
        """The sequence that leaves nothing of it in the terminal; it comes again with the next news."""
        there, self._there = self._there, None
        return "" if there is None else _blanks(there)


def _cells(picture: Placed) -> tuple[int, int, int, int]:
    return picture.x, picture.y, picture.columns, picture.lines


def _placing(picture: Placed) -> str:
    """Over what stood there, dot by dot, so that nothing flickers; the cursor stays where it was."""
    return f"\x1b7\x1b[{picture.y + 1};{picture.x + 1}H\x1bP7;1q{picture.sixels}\x1b\\\x1b8"


def _blanks(picture: Placed) -> str:
    red, green, blue = (int(picture.ground[at : at + 2], 16) for at in (1, 3, 5))
    lines = range(picture.y + 1, picture.y + 1 + picture.lines)
    rows = (f"\x1b[{line};{picture.x + 1}H{' ' * picture.columns}" for line in lines)
    return f"\x1b7\x1b[0;48;2;{red};{green};{blue}m{''.join(rows)}\x1b8"
