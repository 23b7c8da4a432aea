"""Whether the screen can be drawn where this call was made."""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Mapping

from mission_tui.cli.doctor_checks.check import Check

__all__ = ["can_draw", "checks"]

COLUMNS, ROWS = 80, 24


def can_draw(environ: Mapping[str, str]) -> bool:
    """Whether stdin and stdout are a terminal that understands more than plain text."""
    return sys.stdin.isatty() and sys.stdout.isatty() and environ.get("TERM", "dumb") not in ("", "dumb")


def checks(environ: Mapping[str, str]) -> list[Check]:
    """One check: kind, size and encoding of the terminal."""
    if not can_draw(environ):
        advice = "use `mission-tui status`, `launch --wait` and the other verbs, or open the screen in a terminal"
        return [Check("terminal", "note", f"no terminal for the screen (TERM={environ.get('TERM', '')!r})", advice)]
    size = os.get_terminal_size(sys.stdout.fileno())
    encoding = locale.getencoding()
    detail = f"{environ['TERM']}, {size.columns}x{size.lines}, {encoding}"
    if size.columns < COLUMNS or size.lines < ROWS:
        return [Check("terminal", "warn", detail, f"the screen wants {COLUMNS}x{ROWS} or more: enlarge the window")]
    if encoding.lower().replace("-", "") != "utf8":
        return [Check("terminal", "warn", detail, "without UTF-8 the screen falls back to ASCII: set LANG=C.UTF-8")]
    return [Check("terminal", "ok", detail)]
