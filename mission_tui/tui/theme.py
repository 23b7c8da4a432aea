"""Textual's theme in the colours of the palette, for the few widgets that are Textual's own."""

from __future__ import annotations

from textual.theme import Theme

from mission_tui.tui import colours

__all__ = ["THEME"]

THEME = Theme(
    name="mission",
    primary="#4a6a84",
    secondary="#56b4e9",
    accent="#f0e442",
    warning="#e69f00",
    error="#ff7f50",
    success="#2fc49a",
    foreground="#d8dee6",
    background=colours.GROUND,
    surface="#161d25",
    panel="#1e2833",
    dark=True,
)
