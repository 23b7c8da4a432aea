"""The other runs roots of this user where runs go on, as the header and an empty list name them, with the key. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.literal import literal
from mission_tui.tui.drawing.strips import Part

__all__ = ["also_live", "home_relative", "least_cells", "named"]

_KEY: Part = (" W", colours.KEY)


def home_relative(root: str, home: str) -> str:
    """A path as people write it: their home is `~`."""
    if home and (root == home or root.startswith(home + "/")):
        root = "~" + root.removeprefix(home)
    return literal(root)


def named(other: OtherRoot, home: str) -> str:
    """`~/proj-b/runs (3 runs)`."""
    return f"{home_relative(other.root, home)}{other.remark}"


def also_live(roots: Sequence[OtherRoot], home: str, cells: int) -> list[Part]:
    """Those of `roots` where runs go on, by name or only counted, in at most `cells` cells; nothing when there is none.

    A root with a supervisor and no run is left out: nothing happens there.
    """
    busy = [other for other in roots if other.live != 0]
    if not busy:
        return []
    names = ", ".join(named(other, home) for other in busy)
    counted = f"+{len(busy)} root{'' if len(busy) == 1 else 's'}"
    for text in (f"also live: {names}", f"also live: {counted}", counted, _least(len(busy))):
        if cell_len(text) + 2 <= cells:
            return [(text, colours.INK), _KEY]
    return []


def least_cells(roots: Sequence[OtherRoot]) -> int:
    """Cells of the shortest form of `also_live`; 0 when it says nothing."""
    busy = sum(other.live != 0 for other in roots)
    return len(_least(busy)) + 2 if busy else 0


def _least(busy: int) -> str:
    return f"+{busy}"
