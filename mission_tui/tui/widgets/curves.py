"""The learn tab of a run: one big chart or on a wide screen a wall of them, the metrics to choose from with newest
value, course, least and greatest of the whole run, and a line of what keys do to the charts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.health.readings import Reading
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply
from mission_tui.present import numbers
from mission_tui.present.numbers import metric_title
from mission_tui.tui.actions import Move, rows_by
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.glyphs import SEVERITY_SHAPES, spark
from mission_tui.tui.drawing.strips import Part, fit, fit_middle, line
from mission_tui.tui.plot.content import Content, besides, content_of, crossed
from mission_tui.tui.plot.legend import Stacking, controls, grid_for
from mission_tui.tui.plot.picture import Crosshair
from mission_tui.tui.sections.health import flags, limits_on_curve, readings_of
from mission_tui.tui.state.history import MetricSummary, metric_tags
from mission_tui.tui.state.preferences import ChartSettings, Shares, Split, split_of
from mission_tui.tui.state.run_data import EXACT, RunData
from mission_tui.tui.widgets.charts import Chart
from mission_tui.tui.widgets.lines import Lines, ScrollLines, SplitContainer, give_columns

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
        return (
            [(f"{colours.letter(slot)} ", colours.hue(slot)) if slot is not None else ("  ", colours.INK)]
            if self._slots
            else []
        )

    def wheel(self, by: int) -> None:
        """The wheel moves the choice."""
        self.move("down" if by > 0 else "up")

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        at = self._top() + event.y - (1 if self.size.width >= _SPANS_FROM else 0)
        if 0 <= at < len(self._tags):
            self._choose(at)


_CHART_LEAST, _METRICS_LEAST, _METRICS = 24, 20, 35
_WALL_FROM = 160
"""Columns of the screen."""
_WALL_METRICS = 58
"""Columns of the list beside a wall: as few as have room for the course, the least and the greatest."""
_WALL, _MULTIPLES = Stacking(least=10, columns=2), Stacking(least=3, columns=1)
"""Rows of a panel are fewer where the few metrics were put together on purpose."""
_BESIDE_FROM, _BESIDE_PANELS = 80, 24
"""Columns of the tab below which the list beside such panels is so narrow: a chart of fifteen columns tells nothing."""
_MOST_PANELS = 24
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
        self._contents: tuple[Content, ...] = ()
        self._panels: dict[str, tuple[object, Content]] = {}
        self._read: tuple[RunView, DetailsReply | None, Sequence[Reading]] | None = None
        self._stacking: Stacking | None = None
        self._drawn: object = None
        self._crossed: object = None
        self._patience: Timer | None = None
        self._overdue = False
        self._moved = False
        self._moves = 0

    def compose(self) -> ComposeResult:
        """The chart at the left, metrics at the right, keys below."""
        with Horizontal(id="plot"):
            yield Chart()
            yield MetricList()
        yield ScrollLines(id="chart-keys")

    @property
    def tags(self) -> tuple[str, ...]:
        """The metrics that are drawn, the chosen one first."""
        chosen = self.query_one(MetricList).tag
        return chosen, *(tag for _, tag in self._on_wall() or self._slots() if tag != chosen)

    @property
    def ahead(self) -> Sequence[str]:
        """The metrics that the next key may want; none before those that are drawn are known."""
        if self._shown is None or any(tag not in self._shown[1].history for tag in self.tags):
            return ()
        return self.query_one(MetricList).beside

    @property
    def contents(self) -> Sequence[Content]:
        """What is drawn: one chart, or each of a wall."""
        return self._contents

    @property
    def walled(self) -> bool:
        """Whether many metrics are drawn at once, which are then asked for together."""
        return bool(self._on_wall())

    @property
    def _content(self) -> Content | None:
        """That which has the most to draw, for the crosshair."""
        drawn = [it for it in self._contents if it.scene is not None and it.scene.reach is not None]
        return max(drawn, key=lambda it: len(it.scene.ruler.updates) if it.scene else 0, default=None)

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

    @property
    def points(self) -> int:
        """As many values of a history as a chart has columns of dots for."""
        width = self.query_one(Chart).size.width or self.size.width
        return max(40, min(2000, 2 * width))

    def _lay_out(self) -> None:
        whole, metrics = self.size.width, self.query_one(MetricList)
        chart = self.shares.cells("chart", whole, _CHART_LEAST, _METRICS_LEAST)
        if chart is None and self.app.size.width >= _WALL_FROM:
            chart = whole - _WALL_METRICS
        elif chart is None and self._stacking is _MULTIPLES and whole < _BESIDE_FROM:
            chart = whole - _BESIDE_PANELS
        elif chart is None and whole < _CHART_LEAST + _METRICS:
            chart = min(_CHART_LEAST, whole - _METRICS_LEAST)
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

    def _on_wall(self) -> list[tuple[int, str]]:
        """Slots and tags of the wall: what was kept, then as many of the others as have room. None on a small screen,
        nor where the chart has the screen for itself.
        """
        metrics = self.query_one(MetricList)
        if self._shown is None or not metrics.display or self.app.size.width < _WALL_FROM:
            return []
        known, kept = metric_tags(self._shown[0]), self._settings.pinned
        tags = [*(tag for tag in self._settings.kept if tag in known), *(tag for tag in known if tag not in kept)]
        most = grid_for(*self.query_one(Chart).size, len(tags), _WALL).panels
        if most < 2 or len(tags) < 2:
            return []
        if metrics.tag in tags[most:]:
            # In the last place: the others stay where they are while the cursor moves.
            tags = [*tags[: most - 1], metrics.tag]
        return [(kept.get(tag, 0), tag) for tag in tags[:most]]

    def take(self, view: RunView, data: RunData, now: float) -> None:
        """Know what is to be drawn, and so what has to be asked for."""
        self._shown = view, data, now
        self._lay_out()

    def update(self, view: RunView, data: RunData, now: float) -> None:
        """Show the metrics of `view`, and of those on the chart what `data` has of their histories."""
        self.take(view, data, now)
        read = self._readings(view, data.details)
        slots = self._slots()
        metrics = self.query_one(MetricList)
        metrics.update(view, flags(read), {tag: slot for slot, tag in slots} if self._settings.pinned else {})
        on_wall = self._on_wall()
        if self._moved and not on_wall:
            # The cursor is painted first: curves take longer, and a key that is held passes over most of them.
            self.call_after_refresh(partial(self._follow, self._moves))
            return
        # Of a wall a key changes one panel, which is painted with the cursor: a second frame would cost more.
        self._moved = False
        settings, chosen = self._settings, metrics.tag
        tags = self.tags
        histories = [data.history.get(tag) for tag in tags]
        newest = [view.metrics.get(tag) for tag in tags]
        asked = (slots, settings.scale, settings.over, settings.factor, histories, newest, view.steps_per_s)
        marked = (view.findings, *(besides(view, data, tag) for tag in tags))
        drawn = (asked, data.details, marked, data.trouble, chosen, on_wall, self.query_one(Chart).size)
        if self._drawn is not None and None in histories and data.trouble is None and not self._overdue:
            # The answer mostly comes within a frame: a chart that is taken away for so long only flickers.
            self._await()
            return
        self._settle()
        if not self._contents or self._drawn != drawn:
            self._stacking = _WALL if on_wall else None
            if on_wall:
                self._contents = self._panels_of(view, data, on_wall, read)
            else:
                limits = limits_on_curve(read, chosen) if len(slots) == 1 else ()
                self._contents = (content_of(view, data, settings, slots, limits),)
                self._part(view, data, slots)
            self._lay_out()
        cross = (self._cross.update, data.history.get(EXACT))
        if (self._drawn, self._crossed) == (drawn, cross):
            return
        self._drawn, self._crossed = drawn, cross
        update = self._cross.update
        contents = self._contents
        if update is not None and (held := self._content) is not None and held.scene is not None:
            contents = tuple(crossed(it, data, update, now, held.scene.ruler) for it in contents)
        self.query_one(Chart).draw(contents, self._stacking, chosen)
        kept, reading = chosen in settings.pinned, update is not None
        self.query_one("#chart-keys", ScrollLines).set(
            lambda width: [line(controls(settings, kept=kept, reading=reading, width=width), width)]
        )

    def _readings(self, view: RunView, details: DetailsReply | None) -> Sequence[Reading]:
        """Those of `view`, which most keys leave as they were."""
        if self._read is None or self._read[0] is not view or self._read[1] is not details:
            self._read = view, details, () if details is None else readings_of(view, details)
        return self._read[2]

    def _panels_of(
        self, view: RunView, data: RunData, slots: Sequence[tuple[int, str]], read: Sequence[Reading]
    ) -> tuple[Content, ...]:
        """A chart for each metric; what did not change is what was drawn before, and stays painted."""
        settings, panels, known = self._settings, dict[str, tuple[object, Content]](), self._panels
        for slot, tag in slots:
            looks = (slot, settings.scale, settings.over, settings.factor, data.details, view.findings, data.trouble)
            key = (
                looks,
                besides(view, data, tag),
                data.history.get(tag),
                view.metrics.get(tag),
                view.steps_per_s,
                read,
            )
            kept = known.pop(tag, None)
            if kept is None or kept[0] != key:
                limits = limits_on_curve(read, tag)
                kept = key, content_of(view, data, settings, [(slot, tag)], limits)
            panels[tag] = kept
        # Also those that the cursor has left: it comes back to them.
        self._panels = dict([*known.items(), *panels.items()][-_MOST_PANELS:])
        return tuple(content for _, content in panels.values())

    def _part(self, view: RunView, data: RunData, slots: Sequence[tuple[int, str]]) -> None:
        """Below each other what has no common axis, where there are more than the two at the sides and room for it: of
        too many the first ones and the chosen one.
        """
        scene = self._contents[0].scene
        if scene is None or all(it.side != "own" for it in scene.sided):
            return
        most = grid_for(*self.query_one(Chart).size, len(slots), _MULTIPLES).panels
        if most < 2:
            return
        chosen = self.query_one(MetricList).tag
        last = next((it for it in slots[most:] if it[1] == chosen), slots[most - 1])
        shown = [*slots[: most - 1], last]
        self._stacking = _MULTIPLES
        self._contents = self._panels_of(view, data, [*shown, *(it for it in slots if it not in shown)], ())

    def _follow(self, moves: int) -> None:
        """Draw the curves of the metric that the cursor has come to, unless it has gone on since."""
        if self.is_mounted and self._moved and moves == self._moves and self._shown is not None:
            self._moved = False
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
                    return f"{colours.MOST_CURVES} metrics are on the chart: drop one of them first"
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
        self._moved, self._moves = True, self._moves + 1
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
