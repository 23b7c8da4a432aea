"""A run's output: follows its end until the person scrolls up; searched, folded or cut, and copied as whole lines.

Its first row says what is in sight and which keys go further. Foreign text throughout: nothing in it is interpreted. A
line further back is looked for page after page, up to a bound for each key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import compress

from rich.cells import cell_len
from rich.style import Style
from textual.message import Message
from textual.strip import Strip

from mission_tui.present import numbers
from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, fold, line
from mission_tui.tui.state.filter_pattern import FilterPattern
from mission_tui.tui.state.run_data import LogTail, RunDataLoader, Stretch, Where
from mission_tui.tui.widgets.lines import Lines

_ERROR = r"\b(\w*error|\w*exception|traceback|fatal|panic|segmentation fault|core dumped|out of memory|killed)\b"
"""What programs write when they break: where one jumps to while nothing is searched."""

WHOLE = Stretch()
"""Of lines that are no part of an output: what is asked, or why there is none."""
_MOST_FOLDS = 24
_FOUND = Style(color=colours.GROUND, bgcolor=colours.PALETTE.key, bold=True)
_PAGE_BYTES = 1 << 18
"""What the supervisor gives at most."""
_MOST_BYTES = 4 << 20


class LogLines(Lines):
    """With a search, matching lines alone; `jump` shows them among the others. `following`: the end stays in sight."""

    @dataclass
    class PageNeeded(Message):
        """The person goes further than the known lines: there may be more there."""

        where: Where

    def __init__(self, *, folds: bool = True) -> None:
        super().__init__(id="log")
        self._lines: Sequence[str] = ()
        self._detached = self._end_wanted = False
        self._pattern: FilterPattern | None = None
        self._errors = FilterPattern(_ERROR)
        self._rows: list[tuple[int, str]] = []
        self._laid_for: object = None
        self._top = 0
        self._stretch = Stretch()
        self._at: int | None = None
        self._apart = False
        self._folds = folds
        self.following = True

    def update(
        self, lines: Sequence[str], pattern: FilterPattern | None, stretch: Stretch = WHOLE, *, detached: bool = False
    ) -> None:
        """Show `lines`, which are those of `stretch`, or of them those in which `pattern` is found."""
        moved = self._stretch.first - stretch.first
        if moved:
            # Earlier output was put before what was known, or the oldest was dropped.
            self._rows = [(at + moved, text) for at, text in self._rows if at + moved >= 0]
            self._at = None if self._at is None or self._at + moved < 0 else self._at + moved
        self._stretch, self._detached = stretch, detached
        self.following = not detached and (self.following or self._end_wanted)
        self._end_wanted = self._end_wanted and detached
        if pattern is not self._pattern:
            self.following, self._apart, self._at = True, pattern is not None, None
        self._lines, self._pattern = list(lines), pattern
        self.redraw()

    def redraw(self) -> None:
        """Lay out anew if text, width or search changed; then show the window."""
        width, height = self.size
        if width <= 0:
            self.show([])
            return
        newest = self._lines[-1] if self._lines else ""
        wanted = (width, len(self._lines), newest, self._stretch, self._pattern, self._apart, self._folds)
        if wanted != self._laid_for:
            self._laid_for = wanted
            self._lay_out(width)
        last = max(0, len(self._rows) - (height - 1))
        self._top = last if self.following else max(0, min(self._top, last))
        window = self._rows[self._top : self._top + height - 1]
        found = self._pattern.spans(text for _, text in window) if self._pattern else [[]] * len(window)
        rows = zip(window, found, strict=True)
        self.show([self._status(width), *(self._row(at, text, spans, width) for (at, text), spans in rows)])

    def _lay_out(self, width: int) -> None:
        """Rows of the lines that are shown; the one at the top stays there."""
        anchor = self._rows[self._top][0] if self._top < len(self._rows) else 0
        within = self._top - bisect_left(self._rows, (anchor, ""))
        most = _MOST_FOLDS if self._folds else 1
        lines = list(enumerate(self._lines))
        if self._apart and self._pattern is not None:
            lines = list(compress(lines, self._pattern.among(self._lines)))
        self._rows = [
            (at, row)
            for at, text in lines
            for row in (fold(text, width - 1, most) if self._folds else [fit(text, width - 1).rstrip()])
        ]
        self._top = bisect_left(self._rows, (anchor, "")) + max(0, within)

    def _status(self, width: int) -> Strip:
        if not self._lines:
            return line([(" nothing was printed", colours.QUIET)], width)
        if self._apart:
            found = len({at for at, _ in self._rows})
            said = f"{_lines(found)} found{self._part(' in the')}"
        else:
            said = f"{_lines(len(self._lines))}{self._part(',')}"
        said += ", following" if self.following else ", End follows"
        among = "< > in context" if self._apart else "< > found lines" if self._pattern else "< > errors"
        back = ["Home looks further back"] if self._apart and self._stretch.start else []
        keys = [*back, among, "v cuts long lines" if self._folds else "v folds long lines", "O copies these"]
        room = width - cell_len(said) - 1
        fitting = [hint for hint in keys if (room := room - cell_len(hint) - 3) >= 0]
        return line([(f" {said}", colours.INK), *((f"   {hint}", colours.QUIET) for hint in fitting)], width)

    def _part(self, joint: str) -> str:
        """Which part of the output is looked at: nothing where it is all of it."""
        it = self._stretch
        if it.start == 0 and not self._detached:
            return ""
        which = "" if it.start and self._detached else " first" if self._detached else " last"
        return f"{joint}{which} {numbers.size(it.end - it.start)} of {numbers.size(it.size)}"

    def _row(self, at: int, text: str, found: Sequence[tuple[int, int]], width: int) -> Strip:
        lit = at == self._at
        parts: list[Part] = [(">" if lit else " ", colours.KEY)]
        end = 0
        for begin, stop in found:
            parts += [(text[end:begin], colours.INK), (text[begin:stop], _FOUND)]
            end = stop
        return line([*parts, (text[end:], colours.INK)], width, colours.CHOSEN if lit else None)

    def move(self, how: Move) -> None:
        """Scroll as a key asks; reaching the end follows it again."""
        if how == "first" and not self._apart and self._stretch.start:
            # From elsewhere: the beginning itself, and not the first line that happens to be known.
            self.following, self._top, self._at = False, 0, None
            self.post_message(self.PageNeeded("beginning"))
        elif how == "last" and self._detached:
            self._end_wanted, self._at = True, None
            self.post_message(self.PageNeeded("newest"))
        else:
            self._scroll(rows_by(how, max(1, self.size.height - 2), len(self._rows)))

    def _scroll(self, by: int) -> None:
        last = len(self._rows) - (self.size.height - 1)
        if by < 0 and (self._top == 0 or (self._apart and self._top + by <= 0)):
            self.post_message(self.PageNeeded("earlier"))
        elif by > 0 and self._top >= last:
            self.post_message(self.PageNeeded("later"))
        self._top += by
        self._at = None
        self.following = self._top >= last and by > 0 and not self._detached
        self.redraw()

    def jump(self, by: int) -> str:
        """To the found line, or without a search the error, before (-1) or after (1); why not, if there is none."""
        filter_pattern, sought = self.search_pattern, "found line" if self._pattern else "error"
        window = self._rows[self._top : self._top + self.size.height - 1]
        begin = self._at
        if begin is None:
            begin = (window[-1][0] + 1 if by < 0 else window[0][0] - 1) if window else 0
        begin = min(begin, len(self._lines))
        ahead = range(begin - 1, -1, -1) if by < 0 else range(begin + 1, len(self._lines))
        found = next(compress(ahead, filter_pattern.among(self._lines[at] for at in ahead)), None)
        if found is None:
            return f"no {sought} {'above' if by < 0 else 'below'} this one" if self._at is not None else f"no {sought}"
        self._at, self._apart, self.following = found, False, False
        self.redraw()
        self._top = bisect_left(self._rows, (found, "")) - (self.size.height - 1) // 3
        self.redraw()
        return ""

    @property
    def search_pattern(self) -> FilterPattern:
        """What `jump` looks for."""
        return self._pattern or self._errors

    def turn_folding(self) -> bool:
        """Long lines folded, or cut at the edge; returns whether they are folded now."""
        self._folds = not self._folds
        self.redraw()
        return self._folds

    def to_copy(self) -> tuple[str, list[str]]:
        """What it is and whole lines: those that are found, else those in sight."""
        rows = self._rows if self._apart else self._rows[self._top : self._top + self.size.height - 1]
        lines = [self._lines[at] for at in dict.fromkeys(at for at, _ in rows)]
        return f"{numbers.count(len(lines))} lines of the log", lines

    def wheel(self, by: int) -> None:
        """The wheel scrolls."""
        self._scroll(3 * by)


class LogSearch:
    """`busy` while pages are asked for; meanwhile the log stays as it is, and `draw` then shows what there is."""

    def __init__(self, loader: RunDataLoader, tell: Callable[[str], None], draw: Callable[[], None]) -> None:
        self._loader, self._tell, self._draw = loader, tell, draw
        self._from = 0
        self._line = 0
        self.busy = False

    def jump(self, log: LogLines, tail: LogTail, by: int) -> None:
        """To the line before or after; one before that is not among the known ones is looked for in earlier pages."""
        why_not = log.jump(by)
        self.busy = bool(why_not) and by < 0 and tail.start > 0
        if self.busy:
            self._from, self._line = tail.start, tail.stretch.first
            self._loader.request_log("earlier", _PAGE_BYTES)
        elif why_not:
            self._tell(why_not)

    def answered(self, log: LogLines) -> None:
        """Go on unless a new line has what is wanted, or nothing is left to look at."""
        data = self._loader.data
        if not self.busy or data is None:
            return
        tail, first = data.log, data.log.stretch.first
        # The page before ended within the line that was the first one.
        new = tail.lines[: max(0, self._line - first) + 1]
        self._line = first
        far = self._from - tail.start >= _MOST_BYTES
        self.busy = not (any(log.search_pattern.among(new)) or data.trouble or far or tail.start == 0)
        if self.busy:
            self._loader.request_log("earlier", _PAGE_BYTES)
            return
        self._draw()
        if why_not := log.jump(-1):
            looked = f"in the {numbers.size(self._from - tail.start)} before"
            self._tell(f"{why_not} {looked}; < looks further back" if tail.start else why_not)

    def give_up(self) -> None:
        """The person does something else."""
        self.busy = False


def _lines(many: int) -> str:
    return "1 line" if many == 1 else f"{many} lines"
