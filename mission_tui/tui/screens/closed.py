"""Letting go of closed screens and toasts, which Textual would keep with their widgets and what these had drawn.

Without it each opening of every screen cost 15 MB, up to a hundred; a launch form was kept for good, and so was the
place of a toast that was taken away.
"""

from __future__ import annotations

from typing import Any

from textual._styles_cache import StylesCache
from textual.app import App
from textual.widgets._toast import ToastHolder

__all__ = ["forget_closed"]


def forget_closed(app: App[Any]) -> None:
    """To be called whenever another screen lies on top; costs microseconds."""
    # Textual 8.2 caches a method of each widget's cache of lines by that cache, so a thousand outlive their widgets.
    StylesCache.get_inner_outer.cache_clear()
    # A text area watches the program's theme. Textual ends that when the theme changes, which it never does.
    for watchers in getattr(app, "__watchers", {}).values():
        watchers[:] = [(node, callback) for node, callback in watchers if not node._closing]
    # Textual 8.2 takes away a toast that was cleared, or outlived by that of another screen, but not what holds it.
    for screen in app.screen_stack:
        for holder in screen.query(ToastHolder):
            if holder.is_mounted and not holder.children:
                holder.remove()
