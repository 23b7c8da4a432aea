"""Everything that happened while nobody looked, run by run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from textual.strip import Strip

from mission_tui.present import numbers
from mission_tui.present.run_state import state_word
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, line, wrap
from mission_tui.tui.screens.sheet import Sheet
from mission_tui.tui.state.news import Away, Happening
from mission_tui.tui.state.run_status import shape, state_style


class AwayScreen(Sheet[None]):
    """A paragraph for each run, the last to end first; `best` are best returns with their updates, by run id."""

    def __init__(self, away: Away, best: Mapping[str, tuple[float, int]]) -> None:
        super().__init__(away.title, "Esc back")
        self._away, self._best = away, best

    def lines(self, width: int) -> list[Strip]:
        """Name and standing, then what happened when, in order."""
        ordered = {view.id: place for place, view in enumerate(self._away.worth_a_look)}
        strips: list[Strip] = []
        for it in sorted(self._away.happenings, key=lambda it: ordered[it.view.id]):
            strips.append(line(self._head(it), width))
            for text in self._told(it):
                strips += [line([(f"    {part}", colours.QUIET)], width) for part in wrap(text, width - 4)]
        return strips

    def _head(self, it: Happening) -> list[Part]:
        view = it.view
        best = self._best.get(view.id)
        told = "" if best is None else f"  best return {numbers.reading(best[0])} at update {numbers.count(best[1])}"
        return [
            (f"{shape(view)} ", state_style(view)),
            (view.name, colours.BOLD),
            (f"  {state_word(view)}", state_style(view)),
            (told, colours.INK),
        ]

    def _told(self, it: Happening) -> Iterator[str]:
        now = self._away.until_t
        said = [(t, "restarted by itself after a failure") for t in it.restarts]
        said += [(t, "resumed by itself after a reboot") for t in it.reboots]
        for finding in it.findings:
            over = "" if finding.state == "open" else " (over)"
            said.append((finding.first_t, f"{finding.severity}: {finding.sentence}{over}"))
        if it.ended_t is not None:
            said.append((it.ended_t, f"{state_word(it.view)}: {it.view.cause or 'no cause is known'}"))
        for t, words in sorted(said, key=lambda pair: pair[0]):
            yield f"{numbers.clock(t, now)}  {words}" if t > 0 else words
