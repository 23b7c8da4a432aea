"""Whether an answer that comes late still has a screen to be shown on."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen

__all__ = ["still_open"]


def still_open(screen: Screen[Any]) -> bool:
    """False as soon as it was left: for a while it is attached without its widgets, and none of them can be drawn."""
    return screen.is_attached and screen in screen.app.screen_stack
