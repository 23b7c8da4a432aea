"""Tells a person's key from a paste or a held one: more than two launch keys in a moment start nothing."""

from __future__ import annotations

__all__ = ["WINDOW_S", "LaunchGate"]

WINDOW_S = 0.15
_MOST = 2


class LaunchGate:
    """Collects launch keys that follow each other within `WINDOW_S`. Times are the caller's monotonic seconds."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._last = float("-inf")

    def press(self, key: str, now: float) -> None:
        """Take a key; it is held until the window after it has passed."""
        self._held.append(key)
        self._last = now

    def release(self, now: float) -> tuple[tuple[str, ...], int]:
        """The keys to act on and the number ignored; both empty while the window of the newest key is still open."""
        if not self._held or now - self._last < WINDOW_S:
            return (), 0
        held, self._held = tuple(self._held), []
        return (held, 0) if len(held) <= _MOST else ((), len(held))
