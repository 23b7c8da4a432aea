"""The learn tab of a run: one big chart and the list of metrics to choose it from. The plotting library comes late."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message

from mission_tui.fleet.snapshot import RunView
from mission_tui.tui import colours
from mission_tui.tui.inquiry import Dossier
from mission_tui.tui.moves import Move
from mission_tui.tui.sections.readings import flags, limits_on_curve, readings_of
from mission_tui.tui.strips import line
from mission_tui.tui.vitals import metric_title
from mission_tui.tui.widgets.metric_list import MetricList
from mission_tui.tui.widgets.scroll_lines import ScrollLines

if TYPE_CHECKING:
    from mission_tui.tui.widgets.chart import Chart

__all__ = ["Curves"]


class Curves(Horizontal):
    """Draws the chosen metric's history; asks for it by a message when another one is chosen."""

    class Wanted(Message):
        """The history of the chosen metric is wanted."""

    def __init__(self) -> None:
        super().__init__(id="learn")
        self._chart: Chart | None = None
        self._drawn: object = None
        self._points = 0

    def compose(self) -> ComposeResult:
        """Title and chart at the left, metrics at the right."""
        with Vertical(id="plot"):
            yield ScrollLines(id="plot-title")
        yield MetricList()

    def on_mount(self) -> None:
        """The chart follows the first picture: importing its library takes a tenth of a second."""
        self.call_after_refresh(self._mount_chart)

    async def _mount_chart(self) -> None:
        from mission_tui.tui.widgets.chart import Chart

        self._chart = Chart()
        await self.query_one("#plot").mount(self._chart)
        self.post_message(self.Wanted())

    @property
    def tag(self) -> str:
        """The chosen metric."""
        return self.query_one(MetricList).tag

    def update(self, view: RunView, dossier: Dossier) -> None:
        """Show the metrics of `view` and what `dossier` has of the chosen one's history."""
        read = () if dossier.details is None else readings_of(view, dossier.details)
        self.query_one(MetricList).update(view, flags(read))
        tag = self.tag
        history = dossier.history.get(tag)
        if self._chart is not None and self._chart.is_mounted and self._drawn != (tag, history):
            self._drawn = (tag, history)
            self._points = self._chart.draw(history, tag)
        if history is None:
            said = f": {dossier.trouble or 'asking…'}"
        else:
            said = " over timesteps" if self._points > 1 else ": fewer than two points so far"
        marked = [("  │ set", colours.KEY)] if self._points > 1 and history is not None and history.changes else []
        parts = [(f" {metric_title(tag)}", colours.BOLD), (said, colours.QUIET), *marked, *limits_on_curve(read, tag)]
        self.query_one("#plot-title", ScrollLines).set(lambda width: [line(parts, width)])

    def move(self, how: Move) -> None:
        """Choose another metric as a key asks."""
        self.query_one(MetricList).move(how)

    def on_metric_list_changed(self, message: MetricList.Changed) -> None:
        """Another metric needs its history."""
        message.stop()
        self.post_message(self.Wanted())
