"""Pictures of pixels in the terminal, by kitty's graphics protocol or as sixels: what is asked, sent and taken away.

A terminal that has either answers the question; nothing is guessed. What is sent goes through the screen's own driver,
so that its bytes count and keys go before it. https://sw.kovidgoyal.net/kitty/graphics-protocol/

Sixels are dots on the cells and nothing more: they have no name by which they could go, so that blank cells are written
over them. The answers are those of VT420 and xterm: https://invisible-island.net/xterm/ctlseqs/ctlseqs.html
"""

from __future__ import annotations

import re
from base64 import standard_b64encode
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from msgspec import Struct
from textual.message import Message

from mission_tui.tui.textual_fixes.escape_key import EscapeParser

_QUESTION = 31
QUERY = f"\x1b_Gi={_QUESTION},s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"
"""Whether a picture of one pixel could be shown; what does not know it ignores it whole."""
_BEGIN, _END = "\x1b_G", "\x1b\\"
_OF_ITSELF = re.compile(r"\x1b\[\?([0-9;]{1,60}[cS])")
_BEGUN = re.compile(r"\x1b(_|\[(\?[0-9;]{0,60})?)?$")
"""The beginning of an answer, at the end of what was read."""
_LONGEST = 200
"""An answer is shorter; what is longer is none."""
_PRESSED_S, _LOST_S = 0.05, 1.0
"""After so long an Esc is one, and an answer that was begun does not end any more."""
_IDS = (4711, 4712)
"""A new picture is placed before the old one goes, so that nothing flickers."""
_CHUNK = 4096
_SPLITTERS = ("TMUX", "STY", "ZELLIJ")
"""Set by programs that share a terminal: they would take the question for a title, and show no pictures."""


def may_ask(environ: Mapping[str, str]) -> bool:
    """Whether the question is understood or ignored: the Linux console prints it, tmux takes it for a title."""
    term = environ.get("TERM", "")
    shared = any(environ.get(name) for name in _SPLITTERS) or term.startswith(("tmux", "screen"))
    return not shared and term not in ("", "dumb", "linux")


class Placed(Struct, frozen=True):
    """A PNG file, or sixels, over so many cells, its upper left one in column `x` of line `y`, from 0; `ground` is the
    colour (`#rrggbb`) of the cells without it.
    """

    png: bytes
    x: int
    y: int
    columns: int
    lines: int
    sixels: str = ""
    ground: str = "#000000"


class KittyPicture:
    """The one picture of a screen. `wanted` is what ought to be there; `news` what has to be written for that."""

    def __init__(self) -> None:
        self.wanted: Placed | None = None
        self._there: Placed | None = None
        self._at = 0

    @property
    def news(self) -> str:
        """The sequences that make it so; whoever asks writes them."""
        before, self._there = self._there, self.wanted
        if before == self.wanted:
            return ""
        gone = "" if before is None else _removal(_IDS[self._at])
        if self.wanted is None:
            return gone
        self._at = 1 - self._at
        return "".join(_placing(self.wanted, _IDS[self._at])) + gone

    def take_away(self) -> str:
        """The sequence that leaves nothing of it in the terminal; it comes again with the next news."""
        there, self._there = self._there, None
        return "" if there is None else _removal(_IDS[self._at])


def _placing(picture: Placed, number: int) -> Iterable[str]:
    """The cursor stays where it was; nothing is answered, not even an error."""
    data = standard_b64encode(picture.png).decode("ascii")
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    yield f"\x1b7\x1b[{picture.y + 1};{picture.x + 1}H"
    keys = f"a=T,f=100,i={number},p=1,q=2,C=1,c={picture.columns},r={picture.lines},"
    for at, chunk in enumerate(chunks):
        yield f"{_BEGIN}{keys if at == 0 else ''}m={int(at < len(chunks) - 1)};{chunk}{_END}"
    yield "\x1b8"


def _removal(number: int) -> str:
    return f"{_BEGIN}a=d,d=I,i={number},q=2{_END}"


class AnswerParser(EscapeParser):
    """The parser of what a terminal sends, without the answers about pictures, which Textual's takes for keys.

    `answered` gets what those to `QUERY` say, `told` what the terminal says of itself (`ESC [ ? ... c`, or `S`). While
    one is expected an Esc at the end of what was read waits for what follows.
    """

    def __init__(
        self,
        debug: bool,
        expects: Callable[[], bool],
        answered: Callable[[str], None],
        told: Callable[[str], None] = lambda _answer: None,
    ) -> None:
        super().__init__(debug)
        self._expects, self._answered, self._told = expects, answered, told
        self._kept, self._kept_t = "", 0.0

    def feed(self, data: str) -> Iterable[Message]:
        """Events of `data`; nothing at all is the end."""
        if not data:
            return super().feed(data)
        text, self._kept = self._kept + data, ""
        said = self._without_answers(text) if "\x1b" in text else text
        return super().feed(said) if said else ()

    def tick(self) -> Iterable[Message]:
        """Called after each look for input: what looked like the beginning of an answer was a key, or is lost."""
        late_s = _LOST_S if self._kept.startswith(_BEGIN) else _PRESSED_S
        if self._kept and monotonic() - self._kept_t > late_s:
            held, self._kept = self._kept, ""
            if late_s == _PRESSED_S:
                yield from super().feed(held)
        yield from super().tick()

    def _without_answers(self, text: str) -> str:
        kept = []
        while True:
            before, begin, rest = text.partition(_BEGIN)
            kept.append(before)
            if not begin:
                break
            answer, end, text = rest.partition(_END)
            if end:
                self._answered(answer)
            elif len(rest) < _LONGEST:
                self._kept, self._kept_t = begin + rest, monotonic()
                return "".join(kept)
            else:
                text = rest
        said = "".join(kept)
        if not self._expects():
            return said
        for answer in _OF_ITSELF.findall(said):
            self._told(answer)
        said = _OF_ITSELF.sub("", said)
        start = _BEGUN.search(said)
        if start is not None:
            self._kept, self._kept_t = start[0], monotonic()
            said = said[: start.start()]
        return said


def shows_pictures(answer: str) -> bool:
    """Whether this answer to `QUERY` says so; another question's says nothing."""
    keys, _, said = answer.partition(";")
    return f"i={_QUESTION}" in keys.split(",") and said == "OK"


SIXEL_QUERY = "\x1b[c\x1b[?1;1;0S"
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
        return gone if self.wanted is None else gone + _sixels_over(self.wanted)

    def take_away(self) -> str:
        """The sequence that leaves nothing of it in the terminal; it comes again with the next news."""
        there, self._there = self._there, None
        return "" if there is None else _blanks(there)


def _cells(picture: Placed) -> tuple[int, int, int, int]:
    return picture.x, picture.y, picture.columns, picture.lines


def _sixels_over(picture: Placed) -> str:
    """Over what stood there, dot by dot, so that nothing flickers; the cursor stays where it was."""
    return f"\x1b7\x1b[{picture.y + 1};{picture.x + 1}H\x1bP7;1q{picture.sixels}\x1b\\\x1b8"


def _blanks(picture: Placed) -> str:
    red, green, blue = (int(picture.ground[at : at + 2], 16) for at in (1, 3, 5))
    lines = range(picture.y + 1, picture.y + 1 + picture.lines)
    rows = (f"\x1b[{line};{picture.x + 1}H{' ' * picture.columns}" for line in lines)
    return f"\x1b7\x1b[0;48;2;{red};{green};{blue}m{''.join(rows)}\x1b8"
