"""What each of several machines offers for a launch: how many of its runs would begin there at once, and when the last
would be through. A user who asks for the best machine gets the one on which the fewest runs wait, and of several such
the one that is through first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from mission_tui.present.numbers import duration


class Offer(Struct, frozen=True, order=True):
    """Of `runs` so many wait; the last one trains until `takes_s` (infinite where nothing like it has run there)."""

    waits: int
    takes_s: float
    runs: int = 1

    @property
    def sentence(self) -> str:
        """For people: `1 of 1 would begin at once and train for 3m20`."""
        words = f"{self.runs - self.waits} of {self.runs} would begin at once"
        return words if self.takes_s == math.inf else f"{words} and train for {duration(self.takes_s)}"


def best(offers: Mapping[str, Offer]) -> str | None:
    """The machine with the best offer, the first of equals; None without any."""
    return min(offers, key=lambda name: (offers[name].waits, offers[name].takes_s)) if offers else None
