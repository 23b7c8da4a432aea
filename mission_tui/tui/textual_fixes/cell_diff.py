"""What is written to the terminal for a change of the picture: the changed cells and, of their styles, what differs.

Textual (8.2.8) writes a line from its widget's left edge up to the change, and ends the style after every piece of text
to begin nearly the same one again: of a picture of 16 runs those were six of seven bytes. It paints a screen that comes
up three times over, because its widgets refresh when they learn their sizes, and all of it for a layout that moved
nothing. What is kept is true of the terminal; what is not sure is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from msgspec import Struct
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, LayoutUpdate
from textual.strip import Strip

_RESET = "\x1b[0m"
_MARK = "x"
Piece = tuple[int, int, int, Iterable[Segment]]
"""Column and line, how many cells it takes, and what is to stand there."""


class SgrStyle(Struct, frozen=True):
    """A style as the parameters of a terminal's SGR sequence; no colour is the terminal's own."""

    attributes: frozenset[str] = frozenset()
    ink: str = ""
    ground: str = ""


_PLAIN = SgrStyle()


class Pen:
    """Writes text with the fewest SGR parameters; styles are asked of Textual once and remembered.

    `cache` is what it has written that still stands.
    """

    def __init__(self, console: Console) -> None:
        self.cache = LineCache()
        self._console = console
        self._looks: dict[Style, SgrStyle | None] = {}
        self._now = _PLAIN

    def write(self, text: str, style: Style | None) -> str:
        """`text` with what has to be said before it; a style that is more than SGR is said in full."""
        look = _PLAIN if style is None else self._sgr_style(style)
        if look is None:
            return self.lift() + Strip([Segment(text, style)]).render(self._console)
        now = self._now
        if not (look.attributes or now.attributes or text.strip(" ")):
            look = SgrStyle(ink=now.ink, ground=look.ground)  # a blank has no ink
        self._now = look
        return _change(now, look) + text

    def lift(self) -> str:
        """Back to the terminal's own style."""
        now, self._now = self._now, _PLAIN
        return _RESET if now != _PLAIN else ""

    def _sgr_style(self, style: Style) -> SgrStyle | None:
        if style not in self._looks:
            if len(self._looks) > 4096:
                self._looks.clear()
            self._looks[style] = _parsed(Strip([Segment(_MARK, style)]).render(self._console))
        return self._looks[style]


def _parsed(rendered: str) -> SgrStyle | None:
    """The look of a mark as Textual writes it; None when it is not simply one SGR sequence."""
    if rendered == _MARK:
        return _PLAIN
    start, _, rest = rendered.partition("m")
    if not start.startswith("\x1b[") or rest != _MARK + _RESET:
        return None
    attributes, ink, ground = set[str](), "", ""
    codes = iter(start.removeprefix("\x1b[").split(";"))
    for code in codes:
        if code in ("38", "48"):
            kind = next(codes)
            colour = ";".join((code, kind, *(next(codes) for _ in range(3 if kind == "2" else 1))))
        else:
            colour = code
        if code[0] in "39" and len(code) == 2:
            ink = colour
        elif (code[0] == "4" and len(code) == 2) or code.startswith("10"):
            ground = colour
        else:
            attributes.add(code)
    return SgrStyle(frozenset(attributes), ink, ground)


def _change(now: SgrStyle, then: SgrStyle) -> str:
    """The sequence that turns one look into the other."""
    if now == then:
        return ""
    if now.attributes - then.attributes:
        codes = ["0", *sorted(then.attributes), then.ink, then.ground]
    else:
        codes = sorted(then.attributes - now.attributes)
        codes += [then.ink or "39"] if then.ink != now.ink else []
        codes += [then.ground or "49"] if then.ground != now.ground else []
    return f"\x1b[{';'.join(code for code in codes if code)}m"


class CellDiff(CompositorUpdate):
    """An update of Textual's compositor, written briefly."""

    def __init__(self, update: ChopsUpdate | LayoutUpdate, pen: Pen) -> None:
        self._update = update
        self._pen = pen

    def render_segments(self, console: Console) -> str:
        """The bytes for the terminal, as text."""
        pen, said = self._pen, list[str]()
        at = None
        for x, y, cells, segments in pen.cache.news_of(self._update):
            if at != (x, y):
                said.append(f"\x1b[{y + 1};{x + 1}H")
            said += [pen.write(text, style) for text, style, _ in segments if text]
            at = (x + cells, y)
        return "".join(said) + pen.lift()


def brief(renderable: RenderableType | None, pen: Pen) -> RenderableType | None:
    """A compositor's update as one that `pen` writes; anything else as it is."""
    if not isinstance(renderable, (ChopsUpdate, LayoutUpdate)):
        return renderable
    # Textual takes any update of its compositor, but does not say so.
    return cast("RenderableType", CellDiff(renderable, pen))


class LineCache:
    """The pieces of lines that were written last, by line and column."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[int, Strip]] = {}

    def forget(self) -> None:
        """Another size, or another program has written: nothing is known of the terminal any more."""
        self._lines.clear()

    def news_of(self, update: ChopsUpdate | LayoutUpdate) -> list[Piece]:
        """The pieces of `update` that do not stand there yet. Whoever asks writes them."""
        return self._of_spans(update) if isinstance(update, ChopsUpdate) else self._of_whole_lines(update)

    def _of_whole_lines(self, update: LayoutUpdate) -> list[Piece]:
        news: list[Piece] = []
        for y, line in enumerate(update.strips, update.region.y):
            x, kept, now = update.region.x, self._lines.get(y, {}), dict[int, Strip]()
            for strip in line:
                if kept.get(x) != strip:
                    news.append((x, y, strip.cell_length, strip))
                now[x] = strip
                x += strip.cell_length
            self._lines[y] = now
        return news

    def _of_spans(self, update: ChopsUpdate) -> list[Piece]:
        """What lies within the spans. A chop with wide characters is taken from its left edge, lest one be cut in half.

        Of a chop of which only a part is written the rest may be older: it is no longer kept.
        """
        news: list[Piece] = []
        for y, first, last in update.spans:
            kept = self._lines.setdefault(y, {})
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is None or x >= last or end <= first or kept.get(x) == strip:
                    continue
                stop = min(end, last)
                if sum(len(text) for text, _, _ in strip) == strip.cell_length:
                    start, cells, segments = max(x, first), stop - max(x, first), _cut(strip, first - x, stop - x)
                else:
                    part = strip.crop(0, stop - x)
                    start, cells, segments = x, part.cell_length, iter(part)
                for at in [at for at, old in kept.items() if at < stop and at + old.cell_length > start]:
                    del kept[at]
                if (start, stop) == (x, end):
                    kept[x] = strip
                news.append((start, y, cells, segments))
        return news


def _cut(strip: Strip, first: int, last: int) -> Iterator[Segment]:
    """The cells from `first` up to `last` of a strip with one cell a character."""
    at = 0
    for segment in strip:
        text, style, _ = segment
        end = at + len(text)
        if end > first:
            if at < first or end > last:
                yield Segment(text[max(0, first - at) : last - at], style)
            else:
                yield segment
        at = end
        if at >= last:
            return
