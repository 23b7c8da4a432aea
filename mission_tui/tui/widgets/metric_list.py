"""The metrics of a run with their newest values, one of them chosen for the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual import events
from textual.message import Message
from textual.strip import Strip

from mission_tui.fleet.findings import Severity
from mission_tui.fleet.snapshot import SERIES, RunView
from mission_tui.tui import colours, numbers
from mission_tui.tui.glyphs import SEVERITY_SHAPES
from mission_tui.tui.moves import Move
from mission_tui.tui.strips import Part, fit, line
from mission_tui.tui.vitals import metric_title
from mission_tui.tui.widgets.lines import Lines

__all__ = ["MetricList", "metric_tags"]

_FIRST = (
    "rollout/ep_rew_mean",
    "rollout/ep_len_mean",
    "train/approx_kl",
    "train/clip_fraction",
    "policy/entropy_ratio",
    "policy/std",
    "train/explained_variance",
    "train/value_loss",
    "train/grad_norm",
    "train/learning_rate",
    "steps_per_s",
)


def metric_tags(view: RunView) -> list[str]:
    """Every metric this run has: what one looks at first, then the others by name."""
    known = set(view.metrics) | {tag for tag in SERIES if view.series.get(tag)}
    first = [tag for tag in _FIRST if tag in known]
    return [*first, *sorted(known.difference(first))]


class MetricList(Lines):
    """A list with a cursor; `tag` is the chosen metric."""

    class Changed(Message):
        """Another metric was chosen."""

    def __init__(self) -> None:
        super().__init__(id="metrics")
        self._view: RunView | None = None
        self._tags: Sequence[str] = ()
        self._flags: Mapping[str, Severity] = {}
        self.tag = _FIRST[0]

    def update(self, view: RunView, flags: Mapping[str, Severity]) -> None:
        """Show the metrics of `view`; `flags` says of which the newest value has passed a limit."""
        self._view, self._tags, self._flags = view, metric_tags(view), flags
        self.redraw()

    def move(self, how: Move) -> None:
        """Choose another metric as a key asks."""
        if self._tags:
            page = max(1, self.size.height - 1)
            steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "first": -99, "last": 99}
            at = self._tags.index(self.tag) if self.tag in self._tags else 0
            self._choose(max(0, min(at + steps.get(how, 0), len(self._tags) - 1)))

    def _choose(self, at: int) -> None:
        if self._tags[at] != self.tag:
            self.tag = self._tags[at]
            self.redraw()
            self.post_message(self.Changed())

    def redraw(self) -> None:
        """The window around the cursor."""
        if self._view is None:
            return
        width, height = self.size
        self.show([self._row(tag, width, self._view) for tag in self._tags[self._top() :][:height]])

    def _top(self) -> int:
        at = self._tags.index(self.tag) if self.tag in self._tags else 0
        return max(0, min(at - self.size.height // 2, len(self._tags) - self.size.height))

    def _row(self, tag: str, width: int, view: RunView) -> Strip:
        newest = view.steps_per_s if tag == "steps_per_s" else view.metrics.get(tag)
        chosen, flag = tag == self.tag, self._flags.get(tag)
        style = colours.severity_style(flag) if flag else colours.QUIET
        parts: list[Part] = [
            (">" if chosen else " ", colours.KEY),
            (fit(metric_title(tag), width - 10), colours.INK),
            (SEVERITY_SHAPES[flag] if flag else " ", style),
            (fit(numbers.reading(newest), 8, "right"), style),
        ]
        return line(parts, width, colours.CHOSEN if chosen else None)

    def on_click(self, event: events.Click) -> None:
        """A click chooses."""
        if self._top() + event.y < len(self._tags):
            self._choose(self._top() + event.y)
