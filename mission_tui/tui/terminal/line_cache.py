"""What stands on the terminal already, and need not be written again.

Textual paints a screen that comes up three times over, because its widgets refresh when they learn their sizes, and
all of it for a layout that moved nothing. What is kept is true of the terminal; what is not sure is not kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.segment import Segment
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.strip import Strip

__all__ = ["LineCache", "Piece"]

Piece = tuple[int, int, int, Iterable[Segment]]
"""Column and line, how many cells it takes, and what is to stand there."""


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
