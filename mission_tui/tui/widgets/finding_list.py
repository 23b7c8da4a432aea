"""The findings of a run with a cursor; below them, where it is asked for, a line for the values beside their limits."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from mission_tui.fleet.events.findings import Finding
from mission_tui.present import numbers
from mission_tui.tui.actions import Move
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.state.run_status import finding_word, severity_shape
from mission_tui.tui.widgets.lines import Lines

_WORD = 12
_READINGS = "every value beside its limits"


class FindingList(Lines):
    """Keeps its choice by the finding's id, because findings change places when they get worse or end."""

    class Changed(Message):
        """Another finding was chosen, or none for the line of readings."""

    def __init__(self) -> None:
        super().__init__(id="finding-list")
        self._findings: Sequence[Finding] = ()
        self._chosen: str | None = None
        self._index = 0
        self._with_readings = False
        self._calm = ""
        self._over = False

    @property
    def finding(self) -> Finding | None:
        """The chosen finding; None on the line of readings and where there is none."""
        return self._findings[self._index] if self._index < len(self._findings) else None

    def update(self, findings: Sequence[Finding], *, with_readings: bool, calm: str, over: bool) -> None:
        """Show `findings`; `calm` is said where there is none; `over`: nothing of the run is now any more."""
        rows = self._rows
        self._findings, self._with_readings, self._calm, self._over = findings, with_readings, calm, over
        at = next((at for at, finding in enumerate(findings) if finding.id == self._chosen), None)
        if at is not None:
            self._index = at
        self._choose(self._index)
        if self._rows != rows:
            self.refresh(layout=True)
        self.redraw()

    def move(self, how: Move) -> None:
        """Choose another line as a key asks."""
        steps = {"up": -1, "down": 1, "first": -len(self._findings), "last": len(self._findings)}
        self._pick(self._index + steps.get(how, 0))

    def _pick(self, index: int) -> None:
        before = self._index
        self._choose(index)
        if self._index != before:
            self.redraw()
            self.post_message(self.Changed())

    def _choose(self, index: int) -> None:
        self._index = max(0, min(index, self._rows - 1))
        self._chosen = self.finding.id if self.finding else None

    @property
    def _rows(self) -> int:
        return max(1, len(self._findings) + (1 if self._findings and self._with_readings else 0))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A row for each line."""
        return self._rows

    @property
    def place(self) -> str:
        """Which lines are shown of how many; empty when all are."""
        if self._rows <= self.size.height:
            return ""
        return f"{self._top + 1}-{self._top + self.size.height}/{self._rows}"

    @property
    def _top(self) -> int:
        return max(0, min(self._index - self.size.height + 1, self._rows - self.size.height))

    def redraw(self) -> None:
        """The window around the cursor."""
        width, height = self.size
        if not self._findings:
            self.show([line([(f" {self._calm}", colours.QUIET)], width)])
            return
        strips = [self._row(finding, at == self._index, width) for at, finding in enumerate(self._findings)]
        if self._with_readings:
            at_readings = self.finding is None
            lead = (">" if at_readings else " ", colours.KEY)
            ground = colours.CHOSEN if at_readings else None
            strips.append(line([lead, (f"  {_READINGS}", colours.INK)], width, ground))
        self.show(strips[self._top : self._top + height])

    def _row(self, finding: Finding, chosen: bool, width: int) -> Strip:
        word, style = finding_word(finding)
        last = "now" if finding.state != "cleared" and not self._over else numbers.count(finding.last_update)
        span = f"{numbers.count(finding.first_update)}-{last}"
        said = max(0, width - 2 - _WORD - len(span) - 3)
        parts: list[Part] = [
            (">" if chosen else " ", colours.KEY),
            (f"{severity_shape(finding)} ", style),
            (fit(word, _WORD), style),
            (f" {fit(finding.sentence, said)}", colours.INK if finding.state == "open" else colours.QUIET),
            (f" {span}", colours.QUIET),
        ]
        return line(parts, width, colours.CHOSEN if chosen else None)

    def wheel(self, by: int) -> None:
        """The wheel moves the choice."""
        self._pick(self._index + by)

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        self._pick(self._top + event.y)
