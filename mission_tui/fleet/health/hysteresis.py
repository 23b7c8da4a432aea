"""A condition that is entered when it held often enough lately, and left only after a whole window of calm."""

from __future__ import annotations

__all__ = ["Hysteresis"]


class Hysteresis:
    """On after `needed` of the last `window` looks were over the entry level, off after `window` calm ones in a row.

    `looks` counts those of the window; they are fewer than `window` only at the beginning.
    """

    def __init__(self, needed: int, window: int) -> None:
        self._needed = needed
        self._window = window
        self._over = 0
        self._mask = (1 << window) - 1
        self._calm = 0
        self.looks = 0
        self.on = False

    @property
    def count(self) -> int:
        """Looks of the window that were over the entry level."""
        return self._over.bit_count()

    def update(self, *, over: bool, calm: bool) -> bool:
        """Take in one look; `calm` means below the level for leaving, which lies under that for entering."""
        # One bit a look, the newest the lowest: every rule looks at every update, and a row of flags costs more to sum.
        self._over = ((self._over << 1) | over) & self._mask
        self._calm = self._calm + 1 if calm else 0
        if self.looks < self._window:
            self.looks += 1
        if self._over.bit_count() >= self._needed:
            self.on = True
        elif self._calm >= self._window:
            self.on = False
        return self.on
