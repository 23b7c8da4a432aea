"""What an empty list says: how to begin, in the words of the presets there, and where else runs go on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, home_relative, wrap
from mission_tui.tui.state.presets import PresetChoice, by_key

_ROOTS = 3
_KEY: Part = (" W", colours.KEY)


def _deed(preset: PresetChoice) -> str:
    return f"asks about {preset.name} of {preset.from_folder}" if preset.from_folder else f"starts {preset.name}"


def empty_state(
    presets: Sequence[PresetChoice],
    *,
    filtered: bool,
    older: int,
    readonly: bool,
    width: int,
    past: bool,
    elsewhere: Sequence[OtherRoot],
    home: str,
) -> list[list[Part]]:
    """Lines of at most `width` cells for an empty list; another text when runs exist and only the filter hides
    them, and in a replay. `older` runs are over and were not looked through.

    Runs roots `elsewhere` are named first: an empty list often means that the wrong one is open.
    """
    if filtered:
        told = (
            [f"{older:,} older runs are not listed here: `mission-tui status --limit 1000` prints them"]
            if older
            else []
        )
        below = [[(f"  {text}", colours.QUIET)] for said in told for text in wrap(said, max(1, width - 3))]
        return [[], [("  No run matches. Esc shows all again.", colours.QUIET)], *below]
    if past:
        return [[], [("  No run was there at this moment.", colours.BOLD)]]
    lines: list[list[Part]] = [[], [("  No runs yet.", colours.BOLD)]]
    busy = [other for other in elsewhere if other.live != 0]
    lines += [[("  Also live: ", colours.INK), (named(other, home), colours.LIVE)] for other in busy[:_ROOTS]]
    if busy:
        lines += [[("  W ", colours.KEY), ("goes there; everything here goes on", colours.INK)], []]
    if readonly:
        return [*lines, [("  This screen is read-only: start runs elsewhere and watch them here.", colours.QUIET)]]
    for key, preset in by_key(presets).items():
        about = f": {preset.description}" if preset.description else ""
        first, *more = wrap(f"{_deed(preset)}{about}", max(1, width - 5)) or [""]
        lines.append([(f"  {key} ", colours.KEY), (first, colours.INK)])
        lines += [[(f"    {text}", colours.INK)] for text in more]
    lines += [
        [("  n ", colours.KEY), ("opens a form for anything else", colours.INK)],
        [],
        [("  A started run goes on when you leave: ", colours.QUIET), ("q", colours.KEY), (" leaves,", colours.QUIET)],
        [
            ("  and the next mission-tui shows it again. ", colours.QUIET),
            ("?", colours.KEY),
            (" lists all keys.", colours.QUIET),
        ],
    ]
    return lines


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
