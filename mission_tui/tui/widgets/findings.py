"""The findings of a run: the list, the chosen one on its curve and in words, and every value beside its limits.

On the curve are the threshold, what the rule looked at, and the incident as a shaded band.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip

from mission_tui.fleet.events.findings import Finding, stories, symptoms_of
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.numbers import metric_title
from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.sections.health import calm, finding_lines, reading_lines
from mission_tui.tui.state.filter_pattern import FilterPattern as Sought
from mission_tui.tui.state.history import evidence_points, points_of, rewritten
from mission_tui.tui.state.preferences import Shares, Split, split_of
from mission_tui.tui.state.run_data import RunData
from mission_tui.tui.state.run_status import finding_word, severity_shape, short_rule
from mission_tui.tui.widgets.charts import EvidenceChart
from mission_tui.tui.widgets.lines import Lines, ScrollLines, SplitContainer, give_columns

_BESIDE_FROM = 140
_CHART_FROM = 17
"""Rows of the tab: with fewer a chart would take the place of cause and advice; `z` makes room for it."""
_CHART_LEAST, _CHART_MOST = 8, 16
_WORDS = 8
_EITHER_LEAST = 40
"""Cells of the list and of the finding beside each other."""
_WORD = 12
_READINGS = "every value beside its limits"


class Findings(SplitContainer):
    """Side by side where there is room, else one above the other; `finding` is what a key applies to."""

    class EvidenceNeeded(Message):
        """The evidence of the chosen finding is wanted."""

    class RoomChanged(Message):
        """There is more room or less than when the findings were drawn."""

    def __init__(self, shares: Shares) -> None:
        super().__init__(shares, id="findings")
        self._drawn: object = None
        self._shown: tuple[RunView, RunData, float, str] | None = None
        self._drawn_in = Size(0, 0)

    def compose(self) -> ComposeResult:
        """List and readings at the left, the chosen finding at the right."""
        with Vertical(id="findings-left"):
            yield FindingList()
            yield ScrollLines(id="readings")
        with Vertical(id="finding"):
            with Vertical(id="evidence"):
                yield ScrollLines(id="evidence-title")
                yield EvidenceChart()
            yield ScrollLines(id="finding-text")

    def split(self) -> Split | None:
        """Between the list and the chosen finding, where they stand beside each other."""
        if not self.has_class("-beside"):
            return None
        at, whole = self.query_one("#finding").region, self.size.width
        grip = Region(at.x, at.y, 1, at.height)
        return split_of("finding", at, grip, whole, least=_EITHER_LEAST, other_least=_EITHER_LEAST, sideways=True)

    @property
    def finding(self) -> Finding | None:
        """The chosen finding."""
        return self.query_one(FindingList).finding

    @property
    def laid_out(self) -> object:
        """What the window shows depends on beside what it is of: while that is equal it has not to be drawn again."""
        listed, words = self.query_one(FindingList), self.query_one("#finding-text", ScrollLines)
        return listed.place, listed.size, words.place, words.size

    def update(self, view: RunView, data: RunData, now: float, pattern: Sought | None, note: str = "") -> str:
        """Show what `view` and `data` know; returns how many findings the filter found, or which are in sight."""
        self._shown = (view, data, now, note)
        found = view.findings
        if pattern is not None:
            found = tuple(compress(found, pattern.among(map(_words, found))))
        beside = self.size.width >= _BESIDE_FROM
        said = calm(view) if not view.findings else "no finding matches; Esc shows all again"
        self.query_one(FindingList).update(found, with_readings=not beside, calm=said, over=view.state in OVER)
        self._draw()
        if pattern:
            return f"{len(found)}/{len(view.findings)} found"
        more = self.finding is not None and self.query_one("#finding-text", ScrollLines).place
        return "  ".join(filter(None, (self.query_one(FindingList).place, "PgDn rows" if more else "")))

    def _draw(self) -> None:
        if self._shown is None:
            return
        self._drawn_in = self.size
        view, data, now, note = self._shown
        finding, beside = self.finding, self.size.width >= _BESIDE_FROM
        self.set_class(beside and finding is not None, "-beside")
        self.set_class(finding is None, "-readings")
        whole = self.size.width
        chosen = (
            self.shares.cells("finding", whole, _EITHER_LEAST, _EITHER_LEAST) if self.has_class("-beside") else None
        )
        give_columns(self.query_one("#findings-left"), None if chosen is None else whole - chosen)
        details = data.details
        asking = [line([(f" {data.trouble or 'asking…'}", colours.QUIET)], self.size.width)]
        self.query_one("#readings", ScrollLines).set(
            lambda width: asking if details is None else [line([], width), *reading_lines(view, details, width, note)]
        )
        if finding is not None:
            over, since = view.state in OVER, symptoms_of(finding, view.findings)
            self.query_one("#finding-text", ScrollLines).set(
                lambda width: finding_lines(finding, width, now, over=over, details=details, symptoms=since)
            )
            self._draw_evidence(view, finding, data)

    def _draw_evidence(self, view: RunView, finding: Finding, data: RunData) -> None:
        evidence = self.query_one("#evidence")
        evidence.display = bool(finding.signal) and self.size.height >= _CHART_FROM
        if not evidence.display:
            return
        spare = self.size.height - self.query_one(FindingList).size.height - _WORDS
        evidence.styles.height = "55%" if self.has_class("-beside") else max(_CHART_LEAST, min(spare, _CHART_MOST))
        history, own = data.history.get(finding.id), not rewritten(finding, data.details)
        known = [] if history is None else points_of(history, finding.signal, history.updates)
        points = known if own else evidence_points(finding)
        drawn = (finding, points, view.changes, view.moments)
        if self._drawn != drawn:
            self._drawn = drawn
            self.query_one(EvidenceChart).draw_finding(finding, points, view)
        parts = _legend(finding, "asking…" if own and history is None else None, len(points), own=own)
        self.query_one("#evidence-title", ScrollLines).set(lambda width: [line(parts, width)])

    def move(self, how: Move) -> None:
        """Pages scroll the words, or the readings where they stand alone; everything else chooses."""
        if how in ("page_up", "page_down"):
            self.query_one("#readings" if self.finding is None else "#finding-text", ScrollLines).move(how)
        else:
            self.query_one(FindingList).move(how)

    def on_resize(self) -> None:
        """A key that makes room is answered by a redraw, which may come before the layout."""
        if self._shown is not None and self._drawn_in != self.size:
            self.post_message(self.RoomChanged())

    def on_finding_list_changed(self, message: FindingList.Changed) -> None:
        """Another finding needs its evidence, and its words are read from the top."""
        message.stop()
        self.query_one("#finding-text", ScrollLines).move("first")
        self._draw()
        self.post_message(self.EvidenceNeeded())


def _legend(finding: Finding, pending: str | None, points: int, *, own: bool) -> list[Part]:
    """The name of the curve and what the marks on it mean; `own` says that it is the run's history as it stands."""
    style = colours.severity_style(finding.severity)
    parts: list[Part] = [(f" {metric_title(finding.signal)}", colours.BOLD)]
    if pending is not None or points < 2:
        return [*parts, (f": {pending or 'fewer than two values to draw'}", colours.QUIET)]
    parts.append((" over updates" if own else f" as seen in attempt {finding.attempt}", colours.QUIET))
    if finding.threshold is not None:
        parts += [("   ⠒⠒ ", style), (f"limit {numbers.reading(finding.threshold)}", colours.INK)]
    parts += [("   ░ ", colours.QUIET), ("incident", colours.INK)]
    if finding.window > 1:
        parts += [("   │ ", colours.LINE), (f"{finding.window} updates looked at", colours.INK)]
    return parts


def _words(finding: Finding) -> str:
    """What a filter looks at: rule, severity, state and all that is said of `finding`."""
    return " ".join(
        (finding.rule, finding.severity, finding.state, finding.sentence, finding.cause, finding.proposal, finding.id)
    )


class FindingList(Lines):
    """Keeps its choice by the finding's id, because findings change places when they get worse or end. What came of
    another finding is folded into one line below it, which unfolds when it is chosen.
    """

    class Changed(Message):
        """Another finding was chosen, or none for the line of readings."""

    def __init__(self) -> None:
        super().__init__(id="finding-list")
        self._all: Sequence[Finding] = ()
        self._findings: list[Finding] = []
        self._folded: dict[str, tuple[Finding, ...]] = {}
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
        self._all, self._with_readings, self._calm, self._over = findings, with_readings, calm, over
        self._fold()
        self._choose(self._index)
        if self._rows != rows:
            self.refresh(layout=True)
        self.redraw()

    def _fold(self) -> None:
        """Lay out the lines: those of the cause that is chosen, or one of whose symptoms is, are unfolded."""
        self._findings, self._folded = [], {}
        for cause in stories(self._all):
            symptoms = symptoms_of(cause, self._all)
            unfolded = self._chosen in [it.id for it in symptoms]
            self._findings += [cause, *(symptoms if unfolded else symptoms[:1])]
            if symptoms and not unfolded:
                self._folded[symptoms[0].id] = symptoms
        at = next((at for at, finding in enumerate(self._findings) if finding.id == self._chosen), None)
        self._index = self._index if at is None else at

    def move(self, how: Move) -> None:
        """Choose another line as a key asks."""
        self._pick(self._index + rows_by(how, 0, len(self._findings)))

    def _pick(self, index: int) -> None:
        before, rows = self._index, self._rows
        chosen = self._chosen
        self._choose(index)
        self._fold()
        if self._rows != rows:
            self.refresh(layout=True)
        if (self._index, self._chosen) != (before, chosen):
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
        if finding.id in self._folded:
            symptoms = self._folded[finding.id]
            names = ", ".join(short_rule(it) for it in symptoms)
            return line([(fit(f"     + {len(symptoms)} since: {names}", width), colours.QUIET)], width)
        word, style = finding_word(finding)
        last = "now" if finding.state != "cleared" and not self._over else numbers.count(finding.last_update)
        span = f"{numbers.count(finding.first_update)}-{last}"
        said = max(0, width - 2 - _WORD - len(span) - 3)
        parts: list[Part] = [
            (">" if chosen else " ", colours.KEY),
            (f"{severity_shape(finding)} ", style),
            (fit(f"  {word}" if finding.part_of else word, _WORD), style),
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
