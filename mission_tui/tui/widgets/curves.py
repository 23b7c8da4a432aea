"""The learn tab of a run: one big chart, the metrics to choose from, and a line of what keys do to the chart."""

from __future__ import annotations

from typing import Literal

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.message import Message
from textual.timer import Timer

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.actions import Move
from mission_tui.tui.drawing.metrics import MOST_CURVES
from mission_tui.tui.drawing.strips import line
from mission_tui.tui.plot.content import Content, content_of, crossed
from mission_tui.tui.plot.frame import Crosshair
from mission_tui.tui.plot.legend import controls
from mission_tui.tui.sections.health import flags, limits_on_curve, readings_of
from mission_tui.tui.state.history import metric_tags
from mission_tui.tui.state.preferences import ChartSettings, Shares, Split, split_of
from mission_tui.tui.state.run_data import EXACT, RunData
from mission_tui.tui.widgets.charts import Chart
from mission_tui.tui.widgets.lines import ScrollLines
from mission_tui.tui.widgets.metric_list import MetricList
from mission_tui.tui.widgets.split_container import SplitContainer, give_columns

_CHART_LEAST, _METRICS_LEAST = 24, 20
_PATIENCE_S = 0.3
"""So long the last picture stays while the next one is asked for."""

ChartAct = Literal["keep", "over", "scale", "smoother", "rougher", "crosshair"]


class Curves(SplitContainer):
    """Asks by a message when something else is wanted to be drawn; `tags` are the metrics whose history it needs."""

    class DataNeeded(Message):
        """What is drawn changed, and its history may not be there yet."""

    def __init__(self, settings: ChartSettings, shares: Shares) -> None:
        super().__init__(shares, id="learn")
        self._settings = settings
        self._cross = Crosshair()
        self._shown: tuple[RunView, RunData, float] | None = None
        self._content: Content | None = None
        self._drawn: object = None
        self._crossed: object = None
        self._patience: Timer | None = None
        self._overdue = False
        self._moved = False

    def compose(self) -> ComposeResult:
        """The chart at the left, metrics at the right, keys below."""
        with Horizontal(id="plot"):
            yield Chart()
            yield MetricList()
        yield ScrollLines(id="chart-keys")

    @property
    def tags(self) -> tuple[str, ...]:
        """The metrics on the chart, the chosen one first."""
        chosen = self.query_one(MetricList).tag
        return chosen, *(tag for _, tag in self._slots() if tag != chosen)

    @property
    def unread(self) -> int | None:
        """The update under the crosshair while its exact values are not known."""
        scene, update = self._content.scene if self._content else None, self._cross.update
        if update is None or scene is None or self._shown is None:
            return None
        exact, bucket = self._shown[1].history.get(EXACT), scene.ruler.bucket(update)
        if exact is not None and exact.updates == (update,) and set(self.tags) <= set(exact.low):
            return None
        alone = bucket and scene.ruler.updates[bucket] - scene.ruler.updates[bucket - 1] == 1
        return None if alone or bucket == 0 else update

    def _lay_out(self) -> None:
        whole, metrics = self.size.width, self.query_one(MetricList)
        chart = self.shares.cells("chart", whole, _CHART_LEAST, _METRICS_LEAST)
        give_columns(metrics, None if chart is None else whole - chart)

    def split(self) -> Split | None:
        """Between the chart and the metrics."""
        chart, metrics = self.query_one(Chart).region, self.query_one(MetricList)
        if not metrics.display:
            return None
        at, whole = metrics.region, self.size.width
        grip = Region(at.x - 1, at.y, 2, at.height)
        return split_of("chart", chart, grip, whole, least=_CHART_LEAST, other_least=_METRICS_LEAST, sideways=True)

    def _slots(self) -> list[tuple[int, str]]:
        known = set() if self._shown is None else set(metric_tags(self._shown[0]))
        return self._settings.shown(self.query_one(MetricList).tag, known)

    def update(self, view: RunView, data: RunData, now: float) -> None:
        """Show the metrics of `view`, and of those on the chart what `data` has of their histories."""
        self._shown = view, data, now
        self._lay_out()
        read = () if data.details is None else readings_of(view, data.details)
        slots = self._slots()
        metrics = self.query_one(MetricList)
        metrics.update(view, flags(read), {tag: slot for slot, tag in slots} if self._settings.pinned else {})
        if self._moved:
            # The cursor is painted first: curves take longer, and a key that is held passes over most of them.
            self._moved = False
            self.call_after_refresh(self._follow)
            return
        settings, chosen = self._settings, metrics.tag
        histories = [data.history.get(tag) for tag in self.tags]
        newest = [view.metrics.get(tag) for tag in self.tags]
        asked = (slots, settings.scale, settings.over, settings.factor, histories, newest, view.steps_per_s)
        drawn = (asked, data.details, view.findings, data.trouble, chosen)
        if self._drawn is not None and None in histories and data.trouble is None and not self._overdue:
            # The answer mostly comes within a frame: a chart that is taken away for so long only flickers.
            self._await()
            return
        self._settle()
        if self._content is None or self._drawn != drawn:
            limits = limits_on_curve(read, chosen) if len(slots) == 1 else ()
            self._content = content_of(view, data, settings, slots, limits)
        cross = (self._cross.update, data.history.get(EXACT))
        if (self._drawn, self._crossed) == (drawn, cross):
            return
        self._drawn, self._crossed = drawn, cross
        update = self._cross.update
        self.query_one(Chart).draw(self._content if update is None else crossed(self._content, data, update, now))
        kept, reading = chosen in settings.pinned, update is not None
        self.query_one("#chart-keys", ScrollLines).set(
            lambda width: [line(controls(settings, kept=kept, reading=reading, width=width), width)]
        )

    def _follow(self) -> None:
        """Draw the curves of the metric that the cursor has come to."""
        if self.is_mounted and not self._moved and self._shown is not None:
            self.update(*self._shown)

    def _await(self) -> None:
        if self._patience is None:
            self._patience = self.set_timer(_PATIENCE_S, self._give_up)

    def _settle(self) -> None:
        if self._patience is not None:
            self._patience.stop()
        self._patience, self._overdue = None, False

    def _give_up(self) -> None:
        self._patience, self._overdue = None, True
        if self._shown is not None:
            self.update(*self._shown)

    def move(self, how: Move) -> bool:
        """Move the crosshair, if there is one and the key is for it, else choose another metric; false for sideways."""
        chart, scene = self.query_one(Chart), self._content.scene if self._content else None
        if self._cross.update is not None and scene is not None and chart.frame is not None:
            far, whole = max(1, chart.frame.columns // 10), chart.frame.columns
            steps = {"left": -1, "right": 1, "page_up": -far, "page_down": far, "first": -whole, "last": whole}
            if how in steps:
                self._cross.step(scene.ruler, chart.frame, steps[how])
                self.post_message(self.DataNeeded())
                return True
        if how in ("left", "right"):
            return False
        self.query_one(MetricList).move(how)
        return True

    def act(self, what: ChartAct) -> str:
        """Change how the chart is drawn; returns why not, or nothing."""
        match what:
            case "keep":
                if not self._settings.pin(self.query_one(MetricList).tag):
                    return f"{MOST_CURVES} metrics are on the chart: drop one of them first"
            case "over":
                self._settings.turn_over()
            case "scale":
                self._settings.turn_scale()
            case "smoother":
                self._settings.smooth(1)
            case "rougher":
                self._settings.smooth(-1)
            case "crosshair":
                self._cross.turn(self._content.scene.ruler if self._content and self._content.scene else None)
        self.post_message(self.DataNeeded())
        return ""

    def release(self) -> bool:
        """Take the crosshair away; false when there is none."""
        held = self._cross.update is not None
        if held:
            self.act("crosshair")
        return held

    def on_metric_list_changed(self, message: MetricList.Changed) -> None:
        """Another metric needs its history."""
        message.stop()
        self._moved = True
        self.post_message(self.DataNeeded())

    def on_chart_pointed(self, message: Chart.Pointed) -> None:
        """The mouse puts the crosshair somewhere."""
        message.stop()
        if self._content is not None and self._content.scene is not None:
            self._cross.point(self._content.scene.ruler, message.place)
            self.post_message(self.DataNeeded())

    def on_chart_wheeled(self, message: Chart.Wheeled) -> None:
        """The wheel moves the crosshair that is there."""
        message.stop()
        self.move("right" if message.by > 0 else "left")
