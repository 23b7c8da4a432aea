"""The help: every action of the table with its keys, and the presets that keys start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.strip import Strip

from mission_tui.tui.actions import ACTIONS, Action, Place, key_label, offered
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, line, wrap
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.state.presets import PresetChoice, by_key
from mission_tui.tui.widgets.meters import NORMAL

_TITLES = {
    "start": "start",
    "act": "act on the chosen or marked runs",
    "look": "look",
    "move": "move",
    "screen": "this screen",
}
_KEYS_WIDTH = 14
_NOTES = (
    "A finding's advice stands below its cause; h leads there from anywhere, a applies it.",
    f"A GPU that is mostly idle is no trouble: {NORMAL}, because stepping its environments takes longer than learning.",
    "Several runs beside each other use the rest of a GPU.",
)


class HelpScreen(Sheet[None]):
    """Read from the table, so it cannot say anything else than what the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,f1", "turn_away", "back")]

    def __init__(self, place: Place, presets: Sequence[PresetChoice], *, readonly: bool) -> None:
        super().__init__("Keys", "Esc back   ↑ ↓ scroll   Shift-drag selects text")
        self._place = place
        self._presets = presets
        self._readonly = readonly

    def lines(self, width: int) -> list[Strip]:
        """Groups of actions; presets stand where launching is explained."""
        rows: list[list[Part]] = []
        for group, title in _TITLES.items():
            actions = [action for action in offered(self._place, readonly=self._readonly) if action.group == group]
            if actions:
                rows += [[], [(title, colours.LIVE)]] if rows else [[(title, colours.LIVE)]]
            for action in actions:
                rows += (
                    self._preset_rows(width) if action.name == "launch" else _rows(_keys(action), action.help, width)
                )
        rows += [[], [("good to know", colours.LIVE)]]
        rows += [[(f"  {text}", colours.INK)] for note in _NOTES for text in wrap(note, width - 2)]
        return [line(parts, width) for parts in rows]

    def _preset_rows(self, width: int) -> list[list[Part]]:
        rows: list[list[Part]] = []
        for key, preset in by_key(self._presets).items():
            about = f": {preset.description}" if preset.description else ""
            start, ask = f"start {preset.name} at once", f"ask about {preset.name} of {preset.from_folder}"
            rows += _rows(key, f"{ask if preset.from_folder else start}{about}", width)
        launch = next(action for action in ACTIONS if action.name == "launch")
        return rows or _rows("1-9 0 P", launch.help, width)


def _keys(action: Action) -> str:
    return " ".join(key_label(key) for key in action.keys)


def _rows(keys: str, said: str, width: int) -> list[list[Part]]:
    return [
        [(f"  {keys if at == 0 else '':<{_KEYS_WIDTH}}", colours.KEY), (text, colours.INK)]
        for at, text in enumerate(wrap(said, width - _KEYS_WIDTH - 2))
    ]
