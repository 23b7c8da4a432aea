"""A metric of several runs as a chart of a page: SVG that fills any width with letters of one size, and, for hovering,
the same values as data. It reads without a script, on paper, without colours and to a screen reader.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from mission_tui.cli.html_markup import Html, join, tag
from mission_tui.cli.tables.comparison import COLOURS, plot_range, ticks
from mission_tui.fleet.comparison import Comparison, Drawing, letter
from mission_tui.fleet.comparison_sides import Axis, Curve
from mission_tui.present.numbers import axis_name, compact, count, duration, measure

_SIDE = 10_000
"""Units of the plot from edge to edge: curves are whole numbers of them, which saves two thirds of the bytes."""

_MOST_BANDS = 4
_DASHES = 4

Kind = Literal["finding", "set", "resume"]
SIGNS: dict[Kind, str] = {"finding": "▲", "set": "◆", "resume": "↻"}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at a place of the axis, in words; `letter` is the run's."""

    place: float
    kind: Kind
    words: str
    letter: str


@dataclass(frozen=True, slots=True)
class _Plot:
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[int, int]:
        across, up = self.share(x, self.x), self.share(y, self.y)
        return round(_SIDE * across), round(_SIDE * (1 - up))

    def share(self, value: float, span: tuple[float, float]) -> float:
        # Halves, for the distance of two floats may be more than any float.
        share = (value / 2 - span[0] / 2) / (span[1] / 2 - span[0] / 2)
        return min(1.0, max(0.0, share))


def chart(found: Comparison, drawing: Drawing, at: int, marks: Sequence[Mark]) -> tuple[Html, dict[str, Any]]:
    """The figure with its legend and words, and what its crosshair needs to know."""
    across, up = plot_range((*drawing.curves, *(band for band in drawing.bands if band is not None)))
    plot = _Plot(across, _with_margin(*up))
    lines = list(_lines(found, drawing))
    title = axis_name(drawing.metric)
    goal = drawing.threshold if drawing.threshold is not None and plot.y[0] <= drawing.threshold <= plot.y[1] else None
    curves = tag(
        "svg", _curves(plot, lines), class_="curves", viewBox=f"0 0 {_SIDE} {_SIDE}", preserveAspectRatio="none"
    )
    picture = tag(
        "svg",
        (_grid(plot, found.by), curves, _goal(plot, goal), _marks(plot, marks)),
        class_="plot",
        role="img",
        aria_labelledby=f"chart-{at}-title",
        aria_describedby=f"chart-{at}-words",
    )
    hint = f"{title}: arrow keys move a crosshair"
    frame = tag("div", picture, class_="chart", data_chart=str(at), tabindex="0", role="group", aria_label=hint)
    figure = tag(
        "figure",
        tag("figcaption", tag("h3", title, id=f"chart-{at}-title"), tag("p", _words(found, drawing), class_="quiet")),
        frame,
        tag("p", f"over {'timesteps' if found.by == 'step' else 'training time'}", class_="axis"),
        tag("p", class_="readout", aria_live="polite"),
        tag("p", _last_words(found, drawing), class_="unseen", id=f"chart-{at}-words"),
        class_="metric",
    )
    facts = {
        "x": plot.x,
        "by": found.by,
        "curves": [line.facts for line in lines],
        "marks": [{"x": mark.place, "t": f"{mark.letter} {mark.words}".strip()} for mark in marks],
    }
    return figure, facts


def _with_margin(low: float, high: float) -> tuple[float, float]:
    """So that neither the least nor the greatest lies on the edge."""
    margin = (high / 2 - low / 2) * 0.08
    return low - margin, high + margin


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    curve: Curve
    classes: str
    band: bool

    @property
    def facts(self) -> dict[str, Any]:
        said: dict[str, Any] = {"n": self.name, "x": [*map(_few, self.curve.x)], "y": [*map(_few, self.curve.y)]}
        if self.curve.low and self.band:
            said |= {"l": [*map(_few, self.curve.low)], "h": [*map(_few, self.curve.high)]}
        return said


def _few(value: float) -> float:
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def line_classes(cohort: int) -> str:
    """The colour of a setting, with dashes where the colours begin again."""
    return f"c{cohort % len(COLOURS)} d{cohort // len(COLOURS) % _DASHES}"


def _lines(found: Comparison, drawing: Drawing) -> Iterator[_Line]:
    """Runs, and over them the median of each setting that has several."""
    several = len(drawing.curves) > _MOST_BANDS
    for place, (run, curve) in enumerate(zip(found.runs, drawing.curves, strict=True)):
        cohort = found.cohorts[run.cohort]
        alone = len(cohort.runs) == 1
        if curve.x:
            classes = f"{line_classes(run.cohort)} {'run' if alone else 'seed'}"
            yield _Line(letter(place), curve, classes, not several)
    for number, band in enumerate(drawing.bands):
        if band is not None and band.x:
            yield _Line(f"median {band.name}", band, f"{line_classes(number)} median", True)


def _curves(plot: _Plot, lines: Sequence[_Line]) -> Iterator[Html]:
    for line in lines:
        if line.band and line.curve.low:
            there = _path(plot, line.curve.x, line.curve.high)
            back = _path(plot, line.curve.x[::-1], line.curve.low[::-1]).replace("M", "L", 1)
            yield tag("path", d=f"{there}{back}Z", class_=f"band {line.classes}")
    for line in lines:
        yield tag(
            "path", tag("title", line.name), d=_path(plot, line.curve.x, line.curve.y), class_=f"line {line.classes}"
        )


def _path(plot: _Plot, xs: Sequence[float], ys: Sequence[float]) -> str:
    """Relative, for few bytes; a single point is a short stroke."""
    points = [plot.at(x, y) for x, y in zip(xs, ys, strict=True)]
    steps = [f"l{x - a} {y - b}" for (a, b), (x, y) in pairwise(points) if (x, y) != (a, b)]
    return f"M{points[0][0]} {points[0][1]}{''.join(steps) or 'h1'}".replace(" -", "-")


def _grid(plot: _Plot, by: Axis) -> Iterator[Html]:
    for value in ticks(*plot.y, 5):
        up = f"{100 * (1 - plot.share(value, plot.y)):.2f}%"
        yield tag("line", x1="0", x2="100%", y1=up, y2=up, class_="grid")
        yield tag("text", f"{value:.6g}", x="-8", y=up, dy="4", class_="tick y")
    for value in ticks(*plot.x, 4):
        across = f"{100 * plot.share(value, plot.x):.2f}%"
        yield tag("line", x1=across, x2=across, y1="100%", y2="100%", class_="notch")
        yield tag(
            "text", duration(value) if by == "time" else compact(value), x=across, y="100%", dy="18", class_="tick x"
        )
    yield tag("line", x1="0", x2="100%", y1="100%", y2="100%", class_="axis-line")


def _goal(plot: _Plot, goal: float | None) -> Html | None:
    if goal is None:
        return None
    up = f"{100 * (1 - plot.share(goal, plot.y)):.2f}%"
    return join(
        tag("line", x1="0", x2="100%", y1=up, y2=up, class_="goal"),
        tag("text", f"solved at {measure(goal)}", x="100%", y=up, dy="-5", class_="tick goal-word"),
    )


def _marks(plot: _Plot, marks: Sequence[Mark]) -> Iterator[Html]:
    for mark in marks:
        across = f"{100 * plot.share(mark.place, plot.x):.2f}%"
        yield tag(
            "g",
            tag("title", f"{mark.letter} {mark.words}".strip()),
            tag("line", x1=across, x2=across, y1="0", y2="100%"),
            tag("text", SIGNS[mark.kind], x=across, y="0", dy="-4"),
            class_=f"mark {mark.kind}",
        )


def _words(found: Comparison, drawing: Drawing) -> str:
    runs = len(drawing.curves)
    if any(band is not None for band in drawing.bands):
        return "thick: the median over seeds, with the interquartile range; thin: each run"
    if runs <= _MOST_BANDS and any(curve.low != curve.high for curve in drawing.curves):
        return "mean, with the least and greatest of the updates that are drawn as one point"
    return "" if runs == 1 else "a line for each run"


def _last_words(found: Comparison, drawing: Drawing) -> str:
    """What a screen reader says instead of the picture: the ends of every curve."""
    said = []
    for place, (run, curve) in enumerate(zip(found.runs, drawing.curves, strict=True)):
        if curve.x:
            reach = count(curve.x[-1]) + " timesteps" if found.by == "step" else duration(curve.x[-1])
            best = max(curve.high or curve.y)
            said.append(
                f"{letter(place)} {run.name}: from {measure(curve.y[0])} to {measure(curve.y[-1])} at {reach}, "
                f"least {measure(min(curve.low or curve.y))}, greatest {measure(best)}."
            )
        else:
            said.append(f"{letter(place)} {run.name}: no value.")
    return " ".join(said)


def swatch(classes: str) -> Html:
    """The stroke of a curve, for a legend."""
    return tag(
        "svg",
        tag("line", x1="0", x2="26", y1="6", y2="6", class_=f"line {classes}"),
        class_="swatch",
        aria_hidden="true",
    )
