"""How often the screen is redrawn: at most a chosen number of times a second, and the newest never later."""

from __future__ import annotations

__all__ = ["Pace"]

_RATES_HZ = (0.25, 0.5, 1.0, 2.0, 4.0)


class Pace:
    """`due` is how long to wait before drawing; times are the caller's monotonic seconds.

    It begins at `rate_hz`, if that is one of the rates, else at the fastest.
    """

    def __init__(self, rate_hz: float = _RATES_HZ[-1]) -> None:
        self._at = _RATES_HZ.index(rate_hz) if rate_hz in _RATES_HZ else len(_RATES_HZ) - 1
        self._drawn = float("-inf")

    @property
    def rate_hz(self) -> float:
        """Redraws a second at most."""
        return _RATES_HZ[self._at]

    def turn(self, by: int) -> float:
        """One step faster or slower; returns the new rate."""
        self._at = max(0, min(self._at + by, len(_RATES_HZ) - 1))
        return self.rate_hz

    def due(self, now: float) -> float:
        """Seconds until the next picture may be drawn; 0 when it may be now."""
        return max(0.0, self._drawn + 1 / self.rate_hz - now)

    def drawn(self, now: float) -> None:
        """A picture was drawn."""
        self._drawn = now
