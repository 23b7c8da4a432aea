"""What happened while nobody looked, in at most three lines below the meters, until Esc."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len
from textual import events
from textual.strip import Strip

from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.literal import literal
from mission_tui.tui.drawing.pressable import key_at
from mission_tui.tui.drawing.strips import Part, line
from mission_tui.tui.drawing.wrapping import wrap
from mission_tui.tui.news.away import Away
from mission_tui.tui.widgets.lines import Lines

__all__ = ["AwayLines"]

_HINT = "w all of it  Esc close"
_MOST_SENTENCE = 2
_LONGEST_NAME = 20


class AwayLines(Lines):
    """Hidden while there is nothing to tell."""

    def __init__(self) -> None:
        super().__init__(id="away")
        self.display = False
        self.rows = 0
        self._away: Away | None = None
        self._best: Mapping[str, tuple[float, int]] = {}

    def update(self, away: Away | None, best: Mapping[str, tuple[float, int]], width: int) -> None:
        """Show `away` in `width` cells, with the best returns that are known by now."""
        self._away, self._best = away, dict(best)
        self.rows = len(self._lines(width))
        if self.display != (self.rows > 0):
            self.display = self.rows > 0
        self.styles.height = self.rows
        self.redraw()

    def redraw(self) -> None:
        """Fold the sentence for the present width."""
        self.show(self._lines(self.size.width))

    def _lines(self, width: int) -> list[Strip]:
        if self._away is None or width < 2:
            return []
        said = wrap(self._away.sentence, width - 2)[:_MOST_SENTENCE]
        strips = [line([(f" {text}", colours.WARN)], width) for text in said]
        best = self._best_parts(width - cell_len(_HINT) - 4)
        gap = width - 2 - sum(cell_len(text) for text, _ in best) - cell_len(_HINT)
        return [
            *strips,
            line([(" ", colours.INK), *best, (" " * max(1, gap), colours.INK), (_HINT, colours.QUIET)], width),
        ]

    def on_click(self, event: events.Click) -> None:
        """A click on a hint presses its key."""
        begin = self.size.width - 1 - cell_len(_HINT)
        if event.y == self.rows - 1 and (key := key_at(_HINT, event.x - begin)) is not None:
            self.app.simulate_key(key)

    def _best_parts(self, room: int) -> list[Part]:
        """`best return cart-9a10 500  heavy-3f9a 12.4`, as many as fit."""
        assert self._away is not None
        parts: list[Part] = [("best return", colours.QUIET)]
        for view in self._away.worth_a_look:
            if view.id not in self._best:
                continue
            name = literal(view.name)
            name = name if cell_len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            more: list[Part] = [(f"  {name} ", colours.INK), (numbers.reading(self._best[view.id][0]), colours.BOLD)]
            if sum(cell_len(text) for text, _ in parts + more) > room:
                break
            parts += more
        return parts if len(parts) > 1 else []
