"""The whole picture that the terminal shows, so that it is not painted a second time.

Textual (8.2.8) paints all of a screen when the one above it is left, and once more when that one has been taken down.
"""

from __future__ import annotations

from textual._compositor import LayoutUpdate

__all__ = ["Painted"]


class Painted:
    """Knows the last whole picture until something else is painted."""

    def __init__(self) -> None:
        self._whole: object = None

    def repeats(self, update: object) -> bool:
        """Whether `update` is the whole picture that stands there; it counts as painted from now on."""
        if update is None:
            return False
        whole = (update.region, [list(line) for line in update.strips]) if isinstance(update, LayoutUpdate) else None
        if whole is not None and whole == self._whole:
            return True
        self._whole = whole
        return False

    def forget(self) -> None:
        """Something else may have written on the terminal, or it may have moved what stood there."""
        self._whole = None
