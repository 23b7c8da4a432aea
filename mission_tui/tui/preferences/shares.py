"""How the room of a screen is split between two parts: as a share of it, so that another terminal is split alike.

Pure arithmetic of cells; who draws says how many a part has, and takes as many as it is told.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from textual.geometry import Region

__all__ = ["Shares", "Split", "split_of"]

_STEP = 0.05
"""Of the whole; a row of a small terminal."""


class Split(Struct, frozen=True):
    """The part called `name` has `cells` of `whole`, rows or with `sideways` columns, and may have `least` to `most`.

    `edge` is its end that stays, `grip` the border that moves, in cells of the screen.
    """

    name: str
    cells: int
    whole: int
    least: int
    most: int
    edge: int
    grip: Region
    sideways: bool = False

    def reaching(self, x: int, y: int) -> int:
        """The cells of the part if its border lay at that place."""
        return abs((x if self.sideways else y) - self.edge)


def split_of(
    name: str, part: Region, grip: Region, whole: int, *, least: int, other_least: int, sideways: bool = False
) -> Split:
    """The split between `part` and what is beyond `grip`, which keeps `other_least` cells of `whole`."""
    cells, first, last = (part.width, part.x, part.right) if sideways else (part.height, part.y, part.bottom)
    after = (grip.x if sideways else grip.y) > first
    return Split(name, cells, whole, least, max(least, whole - other_least), first if after else last, grip, sideways)


class Shares:
    """The shares that were chosen, by the name of their part; of others there is none."""

    def __init__(self, found: Mapping[str, float]) -> None:
        self._of = dict(found)

    def as_table(self) -> dict[str, float]:
        """The shares that were chosen."""
        return dict(self._of)

    def cells(self, name: str, whole: int, least: int, other_least: int) -> int | None:
        """What a part was given of `whole`, which leaves `other_least`; None where nothing was chosen, or can be."""
        if name not in self._of or whole < least + other_least:
            return None
        return max(least, min(round(self._of[name] * whole), whole - other_least))

    def step(self, split: Split, by: int) -> bool:
        """One step more for the part, or with -1 less; false at the end of the way."""
        return self.give(split, split.cells + by * max(1, round(_STEP * split.whole)))

    def give(self, split: Split, cells: int) -> bool:
        """Give the part so many cells, as far as may be; false if it has them."""
        cells = max(split.least, min(cells, split.most))
        if cells == split.cells:
            return False
        self._of[split.name] = cells / split.whole
        return True

    def forget(self) -> None:
        """All as it comes."""
        self._of.clear()
