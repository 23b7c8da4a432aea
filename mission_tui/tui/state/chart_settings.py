"""How a person wants charts of runs drawn: which metrics stay, the scale, the smoothing, and what it goes over."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, get_args

from msgspec import Struct, field

from mission_tui.tui.drawing.metrics import MOST_CURVES

__all__ = ["FACTORS", "OVERS", "ChartSettings", "Over"]

Over = Literal["timesteps", "updates", "run time", "clock"]
OVERS: tuple[Over, ...] = get_args(Over)

FACTORS = (0.0, 0.5, 0.8, 0.9, 0.97, 0.99, 0.997, 0.999)
"""Weights of what was before, per update; 0 is no smoothing. One of 0.99 remembers about 100 updates."""


class ChartSettings(Struct):
    """Mutable; one for all runs of a session. `pinned` gives each metric that stays its slot, for letter and colour."""

    pinned: dict[str, int] = field(default_factory=dict)
    log: bool = False
    over: Over = OVERS[0]
    _smoothing: int = 0

    @classmethod
    def found(cls, kept: Iterable[str], over: Over, factor: float, *, log: bool) -> ChartSettings:
        """As it was left: `kept` metrics on the chart, smoothed by `factor`, if that is one of ours."""
        settings = cls(log=log, over=over, _smoothing=FACTORS.index(factor) if factor in FACTORS else 0)
        for tag in dict.fromkeys(kept):
            settings.pin(tag)
        return settings

    @property
    def kept(self) -> tuple[str, ...]:
        """The metrics that stay, in the order of their slots."""
        return tuple(sorted(self.pinned, key=self.pinned.__getitem__))

    @property
    def factor(self) -> float:
        """The weight of what was before, per update; 0 is no smoothing."""
        return FACTORS[self._smoothing]

    def smooth(self, by: int) -> None:
        """More smoothing, or less."""
        self._smoothing = max(0, min(self._smoothing + by, len(FACTORS) - 1))

    def turn_over(self) -> None:
        """Draw over the next of timesteps, updates, run time and clock."""
        self.over = OVERS[(OVERS.index(self.over) + 1) % len(OVERS)]

    def pin(self, tag: str) -> bool:
        """Keep `tag` on the chart, or no longer; false when there are as many as can be told apart.

        One slot stays free for the metric under the cursor.
        """
        if tag in self.pinned:
            del self.pinned[tag]
        elif len(self.pinned) >= MOST_CURVES - 1:
            return False
        else:
            self.pinned[tag] = self._free()
        return True

    def shown(self, chosen: str, known: Collection[str]) -> list[tuple[int, str]]:
        """Slots and tags of what is drawn of a run with the metrics `known`: those that stay, and the chosen one."""
        slots = {tag: slot for tag, slot in self.pinned.items() if tag in known}
        slots.setdefault(chosen, self._free())
        return sorted((slot, tag) for tag, slot in slots.items())

    def _free(self) -> int:
        taken = set(self.pinned.values())
        return next(slot for slot in range(MOST_CURVES) if slot not in taken)
