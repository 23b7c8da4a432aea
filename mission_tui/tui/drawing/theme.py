"""Textual's theme in the colours of the palette, for the few widgets that are Textual's own."""

from __future__ import annotations

from textual.theme import Theme

from mission_tui.tui.drawing.colours import DARK, PALETTE

__all__ = ["THEME"]

THEME = Theme(
    name="mission",
    primary=PALETTE.primary,
    secondary=PALETTE.live,
    accent=PALETTE.key,
    warning=PALETTE.warn,
    error=PALETTE.alarm,
    success=PALETTE.good,
    foreground=PALETTE.ink,
    background=PALETTE.ground,
    surface=PALETTE.surface,
    panel=PALETTE.panel,
    dark=PALETTE is DARK,
    variables={"line": PALETTE.line, "quiet": PALETTE.quiet},
)
