"""The bottom line: live hints, the most important ones first to stay when the line is short. A hint can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style

from mission_tui.fleet.commands import is_applicable
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import BY_NAME, Action, Place, key_label, offered
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, line, literal
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.widgets.lines import Lines

_ON_FINDINGS = frozenset({"apply", "acknowledge", "silence"})
_STANDS = frozenset({"paused", "frozen", "parked"})


class Hint(Struct, frozen=True):
    """A smaller `rank` stays longer; hints of one group stand closer together."""

    key: str
    label: str
    call: str
    rank: int
    group: str

    @property
    def cells(self) -> int:
        """Width with the blank between key and label and the one after."""
        return cell_len(self.key) + cell_len(self.label) + 2


def hints(
    place: Place,
    presets: Sequence[PresetChoice],
    chosen: RunView | None,
    finding: Finding | None = None,
    *,
    readonly: bool,
    undoable: bool,
) -> list[Hint]:
    """The hints of a place: undo while it works, then starting, then what fits the chosen run, then looking.

    A run that stands still goes on with one key, which comes before all of them: a toast covers what is at the right.
    `finding` is the one that keys for findings would apply to; on a run's own screen they then stay longest.
    """
    shown: list[Hint] = []
    if undoable and not readonly:
        shown.append(Hint("u", "undo", "app.do('undo')", -1, "undo"))
    if chosen is not None and not readonly and (chosen.state in _STANDS or chosen.pausing):
        going_on = BY_NAME["resume"]
        shown.append(Hint(key_label(going_on.keys[0]), going_on.label, going_on.call, -1, "going on"))
    if place == "fleet" and not readonly:
        for key, preset in by_key(presets).items():
            shown.append(Hint(key, literal(preset.label), f"app.launch({key!r})", 0, "presets"))
    return shown + [
        Hint(key_label(action.keys[0]), action.label, action.call, _rank(action, place), action.group)
        for action in offered(place, readonly=readonly)
        if action.hint is not None
        and all(action.call != hint.call for hint in shown)
        and (action.needs == "none" or (chosen and is_applicable(action.name, chosen, finding)))
    ]


def _rank(action: Action, place: Place) -> int:
    return -1 if place == "run" and action.name in _ON_FINDINGS else action.hint or 0


def fitting(shown: Sequence[Hint], width: int) -> list[Hint]:
    """The hints that fit `width` cells, in their own order; the highest ranks go first, of presets the last ones."""
    kept = list(shown)
    while kept and sum(hint.cells for hint in kept) + _gaps(kept) > width - 1:
        # Their order is that of the keys, and who has just come begins with the first; `x` leads to all else.
        kept.remove(max(kept, key=lambda hint: (hint.rank, kept.index(hint) if hint.group == "presets" else 0)))
    return kept


def _gaps(shown: Sequence[Hint]) -> int:
    return sum(one.group != other.group for one, other in pairwise(shown))


class Footer(Lines):
    """One line of hints."""

    def __init__(self) -> None:
        super().__init__(id="footer")
        self._hints: Sequence[Hint] = ()

    def update(self, shown: Sequence[Hint]) -> None:
        """Show those of `shown` that fit."""
        if self._size_drawn != self.size or self._hints != shown:
            self._hints = shown
            self.redraw()

    def redraw(self) -> None:
        """Write keys bright and labels quiet."""
        parts: list[Part] = [(" ", colours.QUIET)]
        group = ""
        for hint in fitting(self._hints, self.size.width):
            if group and hint.group != group:
                parts.append((" ", colours.QUIET))
            group = hint.group
            click = Style(meta={"@click": hint.call})
            parts += [(hint.key, colours.KEY + click), (f" {hint.label}", colours.INK + click), (" ", colours.QUIET)]
        self.show([line(parts, self.size.width)])
