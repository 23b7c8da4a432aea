"""Every glyph the screen draws, in one place, with its one-cell ASCII stand-in for terminals that are not UTF-8.

Widgets always draw the Unicode form; `GlyphFilter` translates whole lines at the last moment, so Textual's own borders
and foreign letters are covered too.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import get_character_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from mission_tui.fleet.events.findings import Severity
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
