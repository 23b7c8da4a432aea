"""Every glyph the screen draws, in one place, with its one-cell ASCII stand-in for terminals that are not UTF-8; and
numbers drawn with them: one-line sparklines, area charts of several lines, and bars of progress.

Widgets always draw the Unicode form; `GlyphFilter` translates whole lines at the last moment, so Textual's own borders
and foreign letters are covered too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.events.outcome import RunState
from mission_tui.tui.drawing.strips import literal

STATE_SHAPES: Mapping[RunState, str] = {
    "queued": "◌",
    "starting": "○",
    "running": "●",
    "paused": "‖",
    "frozen": "◇",
    "stopping": "◐",
    "parked": "▣",
    "ended": "■",
}
OUTCOME_SHAPES: Mapping[str, str] = {"finished": "■", "stopped": "□", "killed": "⊘", "failed": "✗", "lost": "?"}
SEVERITY_SHAPES: Mapping[Severity, str] = {"critical": "◆", "warning": "▲", "info": "i"}

_STAND_INS = {
    **dict(zip("▁▂▃▄▅▆▇█", "__.-=+*#", strict=True)),
    **dict(zip("◌○●‖◇◐▣■□⊘✗", "o.*=&~@#%/x", strict=True)),
    **dict(zip("◆▲✓▾…→←↑↓␛", "X!+v~><^v?", strict=True)),
    **dict(zip("─━╸│▓░·×±", "-=>|#..x~", strict=True)),
    **dict.fromkeys("║┃▏▎▍▌▋▊▉▐", "|"),
    **dict.fromkeys("═╌╍", "-"),
    **dict(zip("–—‘’“”‹›", "--''\"\"<>", strict=True)),
}


_BOX_DRAWING = range(0x2500, 0x2580)
_BRAILLE = range(0x2800, 0x2900)
_UPPER_DOTS = 0b0001_1011


class _Ascii(dict[int, str]):
    """A translation table that answers for every character: itself, its stand-in, or as many `?` as it has cells."""

    def __missing__(self, code: int) -> str:
        stand_in = self[code] = _stand_in(code)
        return stand_in


def _stand_in(code: int) -> str:
    if code < 0x7F:
        return chr(code)
    if code in _BOX_DRAWING:
        return "+"
    if code in _BRAILLE:
        dots = code - _BRAILLE.start
        upper, lower = dots & _UPPER_DOTS, dots & ~_UPPER_DOTS
        return ":" if upper and lower else "'" if upper else "." if lower else " "
    return "?" * get_character_cell_size(chr(code))


ASCII: Mapping[int, str] = _Ascii({ord(glyph): plain for glyph, plain in _STAND_INS.items()})


def to_ascii(text: str) -> str:
    """`text` with only ASCII characters and, cell for cell, the same width."""
    return literal(text).translate(ASCII)


def draws_unicode(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has our glyphs: the kernel's own console speaks UTF-8, with a font of a few hundred."""
    return speaks_utf8(environ) and environ.get("TERM") != "linux"


def speaks_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the locale variables promise a UTF-8 terminal; the interpreter's UTF-8 mode says nothing about it."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        if value := environ.get(name):
            return "utf-8" in value.lower() or "utf8" in value.lower()
    return False


class GlyphFilter(LineFilter):
    """Makes text literal (a second time, for text that Textual's own widgets draw) and, if asked to, ASCII."""

    def __init__(self, *, ascii_only: bool) -> None:
        super().__init__()
        self._write = to_ascii if ascii_only else literal

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments with safe text."""
        write = self._write
        return [Segment(write(text), style, control) for text, style, control in segments]


LEVELS = "▁▂▃▄▅▆▇█"
_BROKEN = "×"
_ROUNDING = 1e-9
"""Of a value: means of equal numbers differ by less, and drawn over the whole height that looks like a storm."""


def spark(
    values: Sequence[Metric | None],
    width: int,
    low: float | None = None,
    high: float | None = None,
    *,
    last: int | None = None,
) -> str:
    """`values` in `width` cells, right-aligned; unknown is blank and a value that is no number is `×`.

    More values than cells are averaged; with `last`, the number of the last one, in buckets that stay as they are when
    further ones come. The scale is that of the values unless `low` and `high` fix it.
    """
    shares = _scale(_thinned([number(value) for value in values], width, last), low, high)
    return "".join(_BROKEN if share is not None and math.isnan(share) else _cell(share) for share in shares).rjust(
        width
    )


def _cell(height: float | None) -> str:
    return " " if height is None else LEVELS[min(7, int(height * 8))]


def _scale(values: Sequence[float | None], low: float | None, high: float | None) -> list[float | None]:
    """Values as shares of the span: None stays None, non-finite becomes nan, a flat series lies in the middle."""
    finite = [value for value in values if value is not None and math.isfinite(value)]
    bottom = min(finite, default=0.0) if low is None else low
    top = max(finite, default=0.0) if high is None else high
    span = top - bottom
    return [
        None
        if value is None
        else math.nan
        if not math.isfinite(value)
        else 0.45
        if span <= _ROUNDING * max(abs(top), abs(bottom))
        else min(1.0, max(0.0, (value - bottom) / span))
        for value in values
    ]


def area(values: Sequence[Metric | None], width: int, height: int) -> list[str]:
    """An area chart of `height` rows, top row first; fewer values than cells are joined by straight lines."""
    shares = _scale(_stretched(_thinned([number(value) for value in values], width), width), None, None)
    rows = range(height - 1, -1, -1)
    return ["".join(_area_cell(share, row, height) for share in shares).rjust(width) for row in rows]


def _area_cell(share: float | None, row: int, height: int) -> str:
    if share is None or math.isnan(share):
        return " "
    within = 1 + round(share * (height * 8 - 1)) - row * 8
    return " " if within <= 0 else LEVELS[min(8, within) - 1]


def _thinned(values: Sequence[float | None], width: int, last: int | None = None) -> list[float | None]:
    """At most `width` values; each stands for a bucket and is the mean of what is known there.

    With `last` a bucket holds the values of the same numbers always, so that what is past does not flicker: the oldest
    bucket goes when a new one begins, and only the newest changes.
    """
    if len(values) <= width or width <= 0:
        return list(values[: max(0, width)])
    if last is None:
        edges = [cell * len(values) // width for cell in range(width + 1)]
    else:
        size, first = len(values) // width, last - len(values) + 1
        # There are at least `width` of these, so what lies before the first of them has had its time.
        starts = [at for at in range(len(values)) if (first + at) % size == 0]
        edges = [*starts, len(values)][-width - 1 :]
    buckets = (values[start:end] for start, end in pairwise(edges))
    return [_mean([value for value in bucket if value is not None]) for bucket in buckets]


def _mean(known: Sequence[float]) -> float | None:
    return sum(known) / len(known) if known else None


def _stretched(values: Sequence[float | None], width: int) -> list[float | None]:
    """Exactly `width` values, interpolated between neighbours that are both known."""
    if not 2 <= len(values) < width:
        return list(values)
    stretched: list[float | None] = []
    for cell in range(width):
        at = cell * (len(values) - 1) / (width - 1)
        left = min(int(at), len(values) - 2)
        before, after = values[left], values[left + 1]
        stretched.append(None if before is None or after is None else before + (after - before) * (at - left))
    return stretched


def bar(share: float | None, width: int) -> tuple[str, str]:
    """A bar of `width` cells as its done and its open part, for two styles: `━━━╸` and `────`."""
    if width <= 0:
        return "", ""
    halves = 0 if share is None or not math.isfinite(share) else round(min(1.0, max(0.0, share)) * width * 2)
    done = "━" * (halves // 2) + "╸" * (halves % 2)
    return done, "─" * (width - len(done))
