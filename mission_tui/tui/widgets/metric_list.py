"""The metrics of a run, one of them chosen for the chart: newest value, course, least and greatest of the whole run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES
from mission_tui.tui.drawing.metrics import hue, letter, metric_title
from mission_tui.tui.drawing.sparkline import spark
from mission_tui.tui.drawing.strips import Part, fit, fit_middle, line
from mission_tui.tui.state.history import MetricSummary, metric_tags
from mission_tui.tui.widgets.lines import Lines

_VALUE = 8
_SPANS_FROM = 48
_TITLE, _TITLE_MOST = 18, 26
_MOST_KEPT = 1000
_UNKNOWN = MetricSummary()


def _newest(view: RunView, tag: str) -> Metric | None:
    return view.steps_per_s if tag == "steps_per_s" else view.metrics.get(tag)


class MetricList(Lines):
    """A list with a cursor; `tag` is the chosen metric. A narrow one has the span of the chosen metric alone, below."""

    class Changed(Message):
        """Another metric was chosen."""

    def __init__(self) -> None:
        super().__init__(id="metrics")
        self._view: RunView | None = None
        self._tags: Sequence[str] = ()
        self._flags: Mapping[str, Severity] = {}
        self._summaries: Mapping[str, MetricSummary] = {}
        self._slots: Mapping[str, int] = {}
        self._kept: dict[object, Strip] = {}
        self.tag = metric_tags(None)[0]

    def update(self, view: RunView, flags: Mapping[str, Severity], slots: Mapping[str, int]) -> None:
        """Show the metrics of `view`; `flags` says of which the newest value has passed a limit, `slots` which of
        several are on the chart.
        """
        if view is not self._view or flags != self._flags or slots != self._slots:
            self._view, self._tags, self._flags, self._slots = view, metric_tags(view), flags, slots
            self.redraw()

    def trace(self, summaries: Mapping[str, MetricSummary]) -> None:
        """Show how each metric went, by tag; what is not known yet is blank."""
        if summaries is not self._summaries:
            self._summaries = summaries
            self.redraw()

    def move(self, how: Move) -> None:
        """Choose another metric as a key asks."""
        if self._tags:
            at = self._tags.index(self.tag) if self.tag in self._tags else 0
            at += rows_by(how, max(1, self.size.height - 1), len(self._tags))
            self._choose(max(0, min(at, len(self._tags) - 1)))

    @property
    def beside(self) -> Sequence[str]:
        """The metrics that the next key may choose: the one below the cursor, and the one above it."""
        at = self._tags.index(self.tag) if self.tag in self._tags else 0
        return [self._tags[near] for near in (at + 1, at - 1) if 0 <= near < len(self._tags)]

    def _choose(self, at: int) -> None:
        if self._tags[at] != self.tag:
            self.tag = self._tags[at]
            self.redraw()
            self.post_message(self.Changed())

    def redraw(self) -> None:
        """The window around the cursor, under titles or above the span of the chosen metric."""
        if self._view is None:
            return
        width, top = self.size.width, self._top()
        rows = [self._kept_row(tag, width) for tag in self._tags[top:][: self._rows]]
        if width >= _SPANS_FROM:
            self.show([self._titles(width), *rows])
        else:
            rows += [line([], width)] * (self._rows - len(rows))
            self.show([*rows, self._span(width)])

    def _summary(self, tag: str) -> MetricSummary:
        """The summary from the supervisor, with the newest value, which may have come since."""
        summary = self._summaries.get(tag)
        return _UNKNOWN if summary is None or self._view is None else summary.reaching(_newest(self._view, tag))

    @property
    def _rows(self) -> int:
        return max(0, self.size.height - 1)

    def _top(self) -> int:
        at = self._tags.index(self.tag) if self.tag in self._tags else 0
        return max(0, min(at - self._rows // 2, len(self._tags) - self._rows))

    def _widths(self, width: int) -> tuple[int, int]:
        """Cells of the title and of the course."""
        spare = width - 3 - _VALUE - (2 * (_VALUE + 1) if width >= _SPANS_FROM else 0)
        title = min(_TITLE_MOST, max(_TITLE, spare // 2)) if spare >= _TITLE + 4 else spare
        return title, max(0, spare - title)

    def _titles(self, width: int) -> Strip:
        title, course = self._widths(width)
        place = f"{self._top() + 1}-{self._top() + self._rows}/{len(self._tags)}"
        said = f" metric {place if len(self._tags) > self._rows else ''}"
        values = "".join(f"{word:>{_VALUE + 1}}" for word in ("least", "most"))
        parts = f"{fit(said, title + 2)}{'newest':>{_VALUE}} {fit('whole run', course)}{values}"
        return line([(parts, colours.QUIET)], width)

    def _span(self, width: int) -> Strip:
        summary = self._summary(self.tag)
        least, most = (numbers.reading_of(self.tag, value) for value in (summary.least, summary.most))
        said = f" from {least} to {most}, whole run"
        return line([(said if self.tag in self._summaries else "", colours.QUIET)], width)

    def _kept_row(self, tag: str, width: int) -> Strip:
        """A key changes two rows of many: the others are as they were drawn."""
        newest = None if self._view is None else _newest(self._view, tag)
        told = self._summaries.get(tag), self._sign(tag), self._slots.get(tag), bool(self._slots)
        known = (tag, tag == self.tag, width, newest, told)
        if known not in self._kept:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[known] = self._row(tag, width, newest)
        return self._kept[known]

    def _row(self, tag: str, width: int, newest: Metric | None) -> Strip:
        chosen, summary = tag == self.tag, self._summary(tag)
        sign, style = self._sign(tag)
        title, cells = self._widths(width)
        parts: list[Part] = [
            (">" if chosen else " ", colours.KEY),
            *self._letter(tag),
            (
                fit_middle(metric_title(tag), title - (2 if self._slots else 0)),
                colours.INK if chosen else colours.QUIET,
            ),
            (sign, style),
            (fit(numbers.reading_of(tag, newest), _VALUE, "right"), style),
            (" ", style),
            (spark(summary.points, cells), colours.LIVE),
        ]
        if width >= _SPANS_FROM:
            ends = (numbers.reading_of(tag, value) for value in (summary.least, summary.most))
            parts.append(("".join(fit(end, _VALUE + 1, "right") for end in ends), colours.QUIET))
        return line(parts, width, colours.CHOSEN if chosen else None)

    def _sign(self, tag: str) -> tuple[str, Style]:
        """That of a severity only beside a finding: one value beyond a limit is nothing yet for most rules."""
        flag = self._flags.get(tag)
        if flag is None:
            return " ", colours.INK
        findings = () if self._view is None else self._view.findings
        if any(finding.signal == tag and finding.state == "open" for finding in findings):
            return SEVERITY_SHAPES[flag], colours.severity_style(flag)
        return "!", colours.WARN

    def to_copy(self) -> list[str]:
        """A line for each metric: its tag, newest, least and greatest value."""
        lines: list[str] = []
        for tag in self._tags:
            summary = self._summary(tag)
            newest = None if self._view is None else _newest(self._view, tag)
            lines.append("  ".join([tag, *map(numbers.reading, (newest, summary.least, summary.most))]))
        return lines

    def _letter(self, tag: str) -> list[Part]:
        """What its curve is called, while there are several."""
        slot = self._slots.get(tag)
        return [(f"{letter(slot)} ", hue(slot)) if slot is not None else ("  ", colours.INK)] if self._slots else []

    def wheel(self, by: int) -> None:
        """The wheel moves the choice."""
        self.move("down" if by > 0 else "up")

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        at = self._top() + event.y - (1 if self.size.width >= _SPANS_FROM else 0)
        if 0 <= at < len(self._tags):
            self._choose(at)
