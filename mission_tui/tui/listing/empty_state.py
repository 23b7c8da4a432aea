"""What an empty list says: how to begin, in the words of the presets that are there."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part
from mission_tui.tui.drawing.wrapping import wrap
from mission_tui.tui.launching.preset_choice import PresetChoice, by_key
from mission_tui.tui.listing.other_roots import named

__all__ = ["empty_state"]

_ROOTS = 3


def _deed(preset: PresetChoice) -> str:
    return f"asks about {preset.name} of {preset.from_folder}" if preset.from_folder else f"starts {preset.name}"


def empty_state(
    presets: Sequence[PresetChoice],
    *,
    filtered: bool,
    readonly: bool,
    width: int,
    past: bool = False,
    elsewhere: Sequence[OtherRoot] = (),
    home: str = "",
) -> list[list[Part]]:
    """Lines of at most `width` cells for an empty list; another text when runs exist and only the filter hides
    them, and in a replay.

    Where runs go on `elsewhere`, those are what somebody who finds nothing here is looking for.
    """
    if filtered:
        return [[], [("  No run matches. Esc shows all again.", colours.QUIET)]]
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
