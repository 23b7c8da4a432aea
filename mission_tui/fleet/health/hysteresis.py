"""A condition that is entered when it held often enough lately, and left only after a whole window of calm."""

from __future__ import annotations

from collections import deque

__all__ = ["Hysteresis"]


class Hysteresis:
    """On after `needed` of the last `window` looks were over the entry level, off after `window` calm ones in a row."""

    def __init__(self, needed: int, window: int) -> None:
        self._needed = needed
        self._window = window
        self._over: deque[bool] = deque(maxlen=window)
        self._calm = 0
        self.on = False

    @property
    def count(self) -> int:
        """Looks of the window that were over the entry level."""
        return sum(self._over)

    @property
    def looks(self) -> int:
        """Looks in the window; fewer than `window` only at the beginning."""
        return len(self._over)

    def look(self, *, over: bool, calm: bool) -> bool:
        """Take in one look; `calm` means below the level for leaving, which lies under that for entering."""
        self._over.append(over)
        self._calm = self._calm + 1 if calm else 0
        if self.count >= self._needed:
            self.on = True
        elif self._calm >= self._window:
            self.on = False
        return self.on
