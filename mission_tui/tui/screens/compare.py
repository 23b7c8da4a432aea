"""Several runs beside each other: their curves in one chart, and below it the results, seeds together, what differs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec
from rich.table import Table
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.strip import Strip

from mission_tui.errors import MissionError
from mission_tui.fleet.comparison import Comparison, letter
from mission_tui.fleet.comparison_sides import Axis, Row
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import ComparisonReply
from mission_tui.ipc.requests import Compare
from mission_tui.present import numbers
from mission_tui.present.comparisons import contrast_word, findings_words
from mission_tui.present.numbers import metric_title
from mission_tui.tui.actions import COMPARED, Move, key_label
from mission_tui.tui.client import LatestQuery
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import fit_name, line, rendered, words, wrap
from mission_tui.tui.screens.sheets import HintLine, keys_of, still_open
from mission_tui.tui.sections.ranking import MEAN_CI, Facts, Words, facts_table, hue_of, interval, ranking, title_line
from mission_tui.tui.state.app_context import AppContext
from mission_tui.tui.widgets.charts import ComparisonChart
from mission_tui.tui.widgets.lines import ScrollLines

_AROUND, _LEAST_CHART = 2, 8
_HINTED = ("compare axis", "compare again", "chart picture", "help", "leave compare")
_SAID = {it.name: f"{key_label(it.keys[0])} {it.label}" for it in COMPARED}
_HINT = "  ".join(_SAID[name] for name in _HINTED)
_NAME, _VALUE, _NAMED_FROM = 22, 11, 70
_SWEEP_FROM = 3
"""Settings from which on they are what one looks for, and stand above the runs, as those of several seeds do."""


class CompareScreen(Screen[None], inherit_bindings=False):
    """Asked for once, and again with F5 or for the other axis: changing numbers are hard to compare."""

    CSS_PATH = "compare.tcss"
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        *keys_of(COMPARED),
    ]
    PLACE: ClassVar = "compare"

    def __init__(self, app_context: AppContext, runs: tuple[RunView, ...]) -> None:
        super().__init__()
        self._app_context = app_context
        self._runs = runs
        self._by: Axis = "step"
        self._query = LatestQuery(app_context.start, self._compare, self._take)
        self._found: Comparison | None = None
        self._trouble = ""

    def compose(self) -> ComposeResult:
        """Title, curves, tables, hint."""
        yield ScrollLines(self._title, id="compare-title")
        yield ComparisonChart()
        yield ScrollLines(self._lines, id="compare-lines")
        yield HintLine(lambda: f" {_HINT}", id="compare-hint")

    def on_mount(self) -> None:
        """Ask."""
        self._query.request(self._by)

    @property
    def compared(self) -> tuple[RunView, ...]:
        """The runs that it is about, for keys that act on runs."""
        return self._runs

    async def _compare(self, by: Axis) -> ComparisonReply:
        ids = tuple(view.id for view in self._runs)
        return await self._app_context.ask(lambda id_: Compare(id=id_, runs=ids, by=by))

    def _take(self, _by: Axis, found: ComparisonReply | MissionError) -> None:
        if isinstance(found, MissionError):
            self._trouble = str(found)
        else:
            self._found, self._trouble = msgspec.convert(found.comparison, Comparison), ""
        if still_open(self):
            self._draw()

    def _draw(self) -> None:
        if self._found is not None:
            chart = self.query_one(ComparisonChart)
            chart.display = any(len(curve.x) > 1 for curve in (*self._found.curves, *self._found.bands))
            chart.styles.height = self._chart_rows(len(comparison(self._found, self.size.width)))
            chart.draw_comparison(self._found)
        for widget in self.query(ScrollLines):
            widget.redraw()

    def _chart_rows(self, lines: int) -> int:
        """What the tables leave of the screen, and two fifths of it where they are long."""
        rows = self.size.height - _AROUND
        return max(_LEAST_CHART, rows * 2 // 5, rows - lines)

    def on_resize(self) -> None:
        """Share the rows out again."""
        self._draw()

    def _title(self, width: int) -> list[Strip]:
        found = self._found
        said = f" compare {len(self._runs)} runs"
        if found is None:
            return [line([(said, colours.BOLD), ("" if self._trouble else ": asking…", colours.QUIET)], width)]
        over = "seconds of training" if found.by == "time" else "timesteps"
        place = self.query_one("#compare-lines", ScrollLines).place
        parts = [
            (said, colours.BOLD),
            (f"  {metric_title(found.metric)} over {over}", colours.INK),
            (_span(found), colours.QUIET),
        ]
        return [line([*parts, (f"  {place}" if place else "", colours.QUIET)], width)]

    def _lines(self, width: int) -> list[Strip]:
        if self._trouble:
            return [line([(f" {self._trouble}", colours.ALARM)], width)]
        return comparison(self._found, width) if self._found is not None else []

    def action_move(self, how: Move) -> None:
        """Scroll the tables."""
        self.query_one("#compare-lines", ScrollLines).move(how)
        self.query_one("#compare-title", ScrollLines).redraw()

    def action_turn(self) -> None:
        """Over the other axis."""
        self._by = "step" if self._by == "time" else "time"
        self._query.request(self._by)

    def action_again(self) -> None:
        """The same runs as they are now."""
        self._query.request(self._by)

    def action_back(self) -> None:
        """Back one layer."""
        self.dismiss(None)


def _span(found: Comparison) -> str:
    if found.span is None:
        return ""
    say = numbers.duration if found.by == "time" else numbers.compact
    return f"  area up to {say(found.span[1])}"


def comparison(found: Comparison, width: int) -> list[Strip]:
    """The lines for `width` cells."""
    sweep = ranking(found, width)
    on_top = len(found.cohorts) >= _SWEEP_FROM or len(found.runs) > len(found.cohorts)
    strips = [*(sweep if on_top else []), *_results(found, width)]
    for note in found.notes:
        first, *more = wrap(note, width - 4)
        strips.append(line([("  ! ", colours.WARN), (first, colours.INK)], width))
        strips += [line([(f"    {text}", colours.INK)], width) for text in more]
    if any(len(cohort.runs) > 1 for cohort in found.cohorts):
        title = "seeds of one setting together"
        title += ": the chart has their median, by the first letter" if found.bands else ""
        strips += [title_line(title, width), *_seeds(found, width)]
    if not on_top:
        strips += sweep
    if found.contrasts:
        strips += [title_line(f"difference from {found.cohorts[0].name}", width), *_contrasts(found, width)]
    for title, rows in (("settings that differ", found.settings), ("provenance that differs", found.provenance)):
        if rows:
            strips += [title_line(title, width), *_differing(found, rows, width)]
    return strips


def _results(found: Comparison, width: int) -> list[Strip]:
    heads = [("run", 0), ("seed", 3), ("best", 0), ("final", 1), ("area", 4)]
    heads += [(f"to {numbers.reading(found.threshold)}", 2), ("in", 5)] if found.threshold is not None else []
    heads += [("st/s", 3), ("memory", 6), ("findings", 2)]
    name = _NAME if width >= _NAMED_FROM else _NAME // 2
    rows: list[Facts] = []
    for place, run in enumerate(found.runs):
        result = run.result
        cells = [fit_name(run.name, name).rstrip(), numbers.DASH if run.seed is None else str(run.seed)]
        cells += [numbers.reading(value) for value in (result.best, result.final, result.area)]
        if found.threshold is not None:
            cells += [numbers.compact(result.threshold_timesteps), numbers.duration(result.threshold_s)]
        cells += [numbers.rate(result.steps_per_s), numbers.size(result.peak_rss_bytes)]
        cells += [findings_words(result)]
        rows.append(Facts(letter(place), hue_of(found, place), tuple(cells)))
    return facts_table(heads, rows, width)


def _seeds(found: Comparison, width: int) -> list[Strip]:
    rows: list[Facts] = []
    for cohort in found.cohorts:
        place = next(at for at, run in enumerate(found.runs) if run.id == cohort.runs[0])
        name = cohort.name if len(cohort.runs) > 1 else letter(place)
        for measure, spread in cohort.spreads.items():
            title, say = _measure(measure, found.threshold)
            middle, sure = (interval(ends, say) for ends in (spread.quartiles, spread.interval))
            n = numbers.seeds(spread.n, spread.of, cohort.live)
            cells = (title, say(spread.median), middle, n, say(spread.low), say(spread.high), sure)
            rows.append(Facts(name, hue_of(found, place), cells))
    heads = (("measure", 0), ("median", 0), ("IQR", 1), ("n", 1), ("least", 3), ("greatest", 3), (MEAN_CI, 2))
    return facts_table(heads, rows, width)


def _contrasts(found: Comparison, width: int) -> list[Strip]:
    rows: list[Facts] = []
    for it in found.contrasts:
        title, _ = _measure(it.measure, found.threshold)
        ends = " to ".join(numbers.reading(end) for end in it.interval)
        rows.append(Facts(it.group, colours.INK, (title, contrast_word(it), numbers.reading(it.difference), ends)))
    heads = (("measure", 0), ("verdict", 1), ("difference", 0), ("95 % interval", 2))
    return facts_table(heads, rows, width)


def _measure(name: str, threshold: float | None) -> tuple[str, Words]:
    goal = numbers.reading(threshold)
    special: dict[str, tuple[str, Words]] = {
        "threshold_timesteps": (f"steps to {goal}", numbers.compact),
        "threshold_s": (f"time to {goal}", numbers.duration),
        "steps_per_s": ("st/s", numbers.rate),
        "peak_rss_bytes": ("memory", numbers.size),
    }
    return special.get(name, (name, numbers.reading))


def _differing(found: Comparison, rows: Sequence[Row], width: int) -> Iterator[Strip]:
    """As many runs beside each other as fit; the others are named, with the command that shows them."""
    fitting = max(2, (width - _NAME - 4) // (_VALUE + 2))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", min_width=_NAME)
    shown = range(min(len(found.runs), fitting))
    for _ in shown:
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=(width - _NAME - 2) // len(shown) - 2)
    table.add_row("", *(words((letter(place), hue_of(found, place))) for place in shown))
    for row in rows:
        values = (words((value_word(row.values[place]), colours.INK)) for place in shown)
        table.add_row(words((f"  {row.name}", colours.QUIET)), *values)
    yield from rendered(table, width)
    if len(shown) < len(found.runs):
        left = f"  {letter(len(shown))} to {letter(len(found.runs) - 1)}: `mission-tui compare` shows them all"
        yield line([(left, colours.QUIET)], width)
