"""Letting go of what Textual (8.2.8) would keep: closed screens, toasts, and strips that were cut into themselves.

Without it each opening of every screen cost 15 MB, up to a hundred; a launch form was kept for good, and so was the
place of a toast that was taken away. Textual remembers in every strip what that was cut into. What is drawn in one
piece is cut into itself: a circle that only the garbage collector undoes, 60,000 objects from one collection to the
next, and more memory for each record.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from typing import Any

from textual._styles_cache import StylesCache
from textual.app import App
from textual.strip import Strip
from textual.widgets._toast import ToastHolder

_SOON_S = 0.5
"""The picture beneath has been drawn, and a person who goes from sheet to sheet is hardly in the next."""
_divide = Strip.divide


class ClosedScreens:
    """What screens and toasts of one program leave. Widgets hold each other in circles: they are collected soon, before
    those of several screens pile up to memory that the process keeps for good.
    """

    def __init__(self, app: App[Any]) -> None:
        self._app = app
        self._due = False

    def forget(self) -> None:
        """To be called whenever another screen lies on top; costs less than a millisecond."""
        _forget(self._app)
        if not self._due:
            self._due = True
            self._app.set_timer(_SOON_S, self._collect)

    def _collect(self) -> None:
        self._due = False
        if gc.isenabled():  # a session that has just begun looks through nothing that came with the modules
            gc.collect()


def _forget(app: App[Any]) -> None:
    # Textual 8.2 caches a method of each widget's cache of lines by that cache, so a thousand outlive their widgets
    # (Textualize/textual#6665).
    StylesCache.get_inner_outer.cache_clear()
    # A text area watches the program's theme. Textual ends that when the theme changes, which it never does.
    for watchers in getattr(app, "__watchers", {}).values():
        watchers[:] = [(node, callback) for node, callback in watchers if not node._closing]
    # Textual 8.2 takes away a toast that was cleared, or outlived by that of another screen, but not what holds it.
    for screen in app.screen_stack:
        for holder in screen.query(ToastHolder):
            if holder.is_mounted and not holder.children:
                holder.remove()


def forget_whole() -> None:
    """Have no strip remember that it was cut into itself; to be called before the first picture."""
    setattr(Strip, "divide", _divide_or_leave)  # noqa: B010 - a method of Textual's


def _divide_or_leave(strip: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    cuts = [cut for cut in cuts if cut <= strip.cell_length]
    return [strip] if cuts == [strip.cell_length] else _divide(strip, cuts)
