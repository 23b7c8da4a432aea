"""A comparison as tables, the same on a terminal, in a pipe and in a report; as the document of `compare --json`; as
files that can be sent on: Markdown for people, CSV and JSON for programs, SVG for the curves. Runs are A, B, C.

The files appear together, each whole, and replace those that were there. The picture has bands of seeds, lines, axes
and a legend; nothing in it is loaded.
"""

from __future__ import annotations

import csv
import io
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.tables.documents import SCHEMA
from mission_tui.cli.terminal_output import Styled, Table, inert, write
from mission_tui.errors import UsageError
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.fleet.text import clean
from mission_tui.present.comparisons import best_word, contrast_word, findings_words, has_seeds, probability, standing
from mission_tui.present.numbers import DASH, count, duration, measure, seeds, size
from mission_tui.records.atomic import StorageError, write_atomic_group

if TYPE_CHECKING:
    from mission_tui.fleet.comparison import Compared, Comparison
    from mission_tui.fleet.comparison_sides import Curve, Row

_CELL = 40
_IQM = ("IQM", "95 % of the IQM")
_UNITS: Mapping[str, Callable[[float | None], str]] = {
    "threshold_timesteps": count,
    "threshold_s": duration,
    "steps_per_s": count,
    "peak_rss_bytes": size,
}


def write_comparison(found: Comparison) -> None:
    """Print each table under its title, then what to mind."""
    for title, table in comparison_tables(found):
        write(Styled(title, bold=True))
        table.write(sys.stdout)
        write()
    for note in found.notes:
        write(f"- {note}")


def comparison_tables(found: Comparison) -> Iterator[tuple[str, Table]]:
    """Title and table: results, seeds together, which setting is best, what differs in settings and provenance."""

    metric = clean(found.metric)
    yield f"{metric}, {_over(found)}", _results(found)
    if any(len(cohort.runs) > 1 for cohort in found.cohorts):
        yield "seeds of one setting together", _groups(found)
    if found.ranking:
        middle = "interquartile mean" if found.ranked_by == "iqm" else "mean"
        yield f"settings by the {middle} over seeds of {metric}{_budget(found)}, best first", _ranking(found)
    if found.contrasts:
        together = "final as settings are ranked, the other intervals hold together"
        together = together if found.ranking else "all these intervals hold together"
        yield f"difference from {found.cohorts[0].name}; {together}", _contrasts(found)
    if found.settings:
        yield "settings that differ", _differing(found, found.settings)
    if found.provenance:
        yield "provenance that differs", _differing(found, found.provenance)


def _over(found: Comparison) -> str:
    if found.span is None:
        return "without areas"
    low, high = found.span
    if found.by == "step":
        return f"areas over timesteps {count(low)} to {count(high)}"
    return f"areas over {duration(low)} to {duration(high)} of training (by the clock, without pauses)"


def _budget(found: Comparison) -> str:
    if found.budget is None:
        return ""
    return f" at {count(found.budget)} timesteps" if found.by == "step" else f" after {duration(found.budget)}"


def _results(found: Comparison) -> Table:
    goal = [f"to {measure(found.threshold)}", "in"] if found.threshold is not None else []
    heads = [
        "",
        "run",
        "seed",
        "state",
        "timesteps",
        "trained",
        best_word(found.metric),
        "at",
        "final",
        "area",
        *goal,
        "steps/s",
        "memory",
    ]
    table = Table([*heads, "findings"], numbers=frozenset(heads[4:]) | {"seed"})
    for letter, run in _lettered(found):
        result = run.result
        cells = [letter, run.name, DASH if run.seed is None else str(run.seed), run.outcome or run.state]
        cells += [count(result.timesteps), duration(result.trained_s)]
        cells += [measure(result.best), count(result.best_timesteps), measure(result.final), measure(result.area)]
        if goal:
            cells += [count(result.threshold_timesteps), duration(result.threshold_s)]
        table.add(*cells, count(result.steps_per_s), size(result.peak_rss_bytes), findings_words(result))
    return table


def _groups(found: Comparison) -> Table:
    iqm = any(spread.iqm is not None for cohort in found.cohorts for spread in cohort.spreads.values())
    numbers = ("median", "IQR", "n", "least", "greatest", "mean", "95 % interval", *(_IQM if iqm else ()))
    table = Table(("runs", "measure", *numbers), numbers=frozenset(numbers))
    words = {"threshold_timesteps": f"timesteps to {measure(found.threshold)}"}
    words["peak_rss_bytes"] = "memory"
    words["threshold_s"] = f"time to {measure(found.threshold)}"
    words["best"] = best_word(found.metric)
    for cohort in found.cohorts:
        for name, spread in cohort.spreads.items():
            say = _UNITS.get(name, measure)
            middle, interval, iqm_interval = (
                DASH if ends is None else " to ".join(map(say, ends))
                for ends in (spread.quartiles, spread.interval, spread.iqm_interval)
            )
            n = seeds(spread.n, spread.of, cohort.live)
            facts = (say(fact) for fact in (spread.low, spread.high, spread.mean))
            more = (say(spread.iqm), iqm_interval) if iqm else ()
            table.add(cohort.name, words.get(name, name), say(spread.median), middle, n, *facts, interval, *more)
    return table


def _ranking(found: Comparison) -> Table:

    names = list(found.ranking[0].settings)
    by_iqm, seeded = found.ranked_by == "iqm", has_seeds(found)
    middle = "IQM" if by_iqm else "mean"
    numbers = ("median", middle, "n", "behind", "P(best better)")
    results = (*(("median",) if seeded else ()), middle, "95 % interval", "n", "behind", "verdict", "P(best better)")
    table = Table(("", "runs", *map(clean, names), *results), frozenset({"", *numbers}))
    for it in found.ranking:
        cohort = found.cohorts[it.cohort]
        ends = it.iqm_interval if by_iqm else it.interval
        table.add(
            str(it.place),
            cohort.name,
            *(clean(value_word(it.settings[name]), _CELL) for name in names),
            *((measure(it.median),) if seeded else ()),
            measure(it.iqm if by_iqm else it.mean),
            DASH if ends is None else " to ".join(map(measure, ends)),
            seeds(it.seeds, len(cohort.seeds), cohort.live),
            measure(it.behind),
            standing(it, measure),
            probability(it.improvement),
        )
    return table


def _contrasts(found: Comparison) -> Table:
    table = Table(("runs", "measure", "difference", "95 % interval", "verdict"), frozenset({"difference"}))
    for it in found.contrasts:
        ends = " to ".join(measure(end) for end in it.interval)
        named = best_word(found.metric) if it.measure == "best" else it.measure
        table.add(it.group, named, measure(it.difference), ends, contrast_word(it))
    return table


def _differing(found: Comparison, rows: Sequence[Row]) -> Table:

    table = Table(("", *(letter for letter, _ in _lettered(found))))
    for row in rows:
        table.add(row.name, *(clean(value_word(value), _CELL) for value in row.values))
    return table


def _lettered(found: Comparison) -> Iterator[tuple[str, Compared]]:
    from mission_tui.fleet.comparison import letter

    return ((letter(place), run) for place, run in enumerate(found.runs))


def comparison_facts(found: Comparison, *, curves: bool = False) -> dict[str, Any]:
    """Results by run, groups of seeds, what differs, and sentences; `curves` adds what is drawn."""
    facts: dict[str, Any] = msgspec.to_builtins(found)
    for name in ("curves", "bands"):
        drawn = facts.pop(name)
        if curves:
            facts[name] = drawn
    facts["groups"] = facts.pop("cohorts")
    for run in facts["runs"]:
        run["group"] = run.pop("cohort")
    for place in facts["ranking"]:
        place["surely"] = place["is_behind"]  # its name in 0.1.0
        place["group"] = place.pop("cohort")
    return facts


_WIDTH, _HEIGHT = 900.0, 480.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 200.0, 30.0, 45.0
_LEGEND_TOP, _LEGEND_LINE, _LEGEND_TEXT, _CHARACTER = 40.0, 17.0, 44.0, 7.0
_MOST = 1e300
_FONT = 'font-family="sans-serif" font-size="12"'
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's, which the colour-blind tell apart."""

_DASHES = ("", "6 3", "2 3", "8 3 2 3")


def write_report(folder: Path, found: Comparison) -> None:
    """`comparison.md`, `.csv`, `.json`, `.svg` and `curves.csv` in `folder`, made if need be.

    Raises `UsageError` when there can be no such folder, `StorageError` when it cannot be written.
    """
    document = msgspec.json.encode({"schema": SCHEMA, **comparison_facts(found, curves=True)})
    contents = {
        "comparison.json": msgspec.json.format(document, indent=1),
        "comparison.csv": _csv(_result_rows(found)),
        "curves.csv": _csv(_curve_rows(found)),
        "comparison.svg": curves_svg(found).encode(),
        "comparison.md": _markdown(found).encode(),
    }
    try:
        write_atomic_group(folder, contents)
    except StorageError as error:
        if folder.is_dir():
            raise
        raise UsageError(f"--report {folder}: cannot be made a folder: {os.strerror(error.errno or 0)}") from None


def _markdown(found: Comparison) -> str:
    parts = ["# " + " | ".join(_escaped(run.name) for run in found.runs), "![curves](comparison.svg)"]
    for title, table in comparison_tables(found):
        parts += [f"## {_escaped(title)}", _markdown_table(table)]
    if found.notes:
        parts += ["## Notes", "\n".join(f"- {_escaped(note)}" for note in found.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rule = ["--:" if column in table.numbers else "---" for column in table.columns]
    rows = [[_escaped(cell) for cell in row] for row in (table.columns, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


def _escaped(text: str) -> str:
    """Names and values are anybody's: none of them is markup."""
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#!" else character for character in text)


def _result_rows(found: Comparison) -> Iterator[Sequence[object]]:
    names = [name for name in found.runs[0].result.__struct_fields__ if "findings" not in name]
    settings = [row.name for row in found.settings]
    heads = ["run", "name", "preset", "seed", *settings, "group", "state", "outcome", *names]
    yield [*heads, "warnings", "criticals", "open_findings"]
    for place, run in enumerate(found.runs):
        varied = (value_word(row.values[place]) for row in found.settings)
        own = (run.id, run.name, run.preset, run.seed, *varied, found.cohorts[run.cohort].name, run.state, run.outcome)
        found_in = run.result.findings
        counts = (found_in.get("warning", 0), found_in.get("critical", 0), run.result.open_findings)
        yield [*own, *(getattr(run.result, name) for name in names), *counts]


def _curve_rows(found: Comparison) -> Iterator[Sequence[object]]:
    axis, settings = "timesteps" if found.by == "step" else "seconds", [row.name for row in found.settings]
    yield ["curve", axis, found.metric, "least", "greatest", "seed", *settings]
    lines = [(it, run.seed, [at]) for at, (it, run) in enumerate(zip(found.curves, found.runs, strict=True))]
    of_cohort = {cohort.name: cohort.runs for cohort in found.cohorts}
    bands = [
        (it, None, [at for at, run in enumerate(found.runs) if run.id in of_cohort[it.name]]) for it in found.bands
    ]
    for curve, seed, members in (*lines, *bands):
        # Of a band what all of its runs have.
        said = [{value_word(row.values[at]) for at in members} for row in found.settings]
        varied = [next(iter(words)) if len(words) == 1 else "" for words in said]
        blank = [""] * len(curve.x)
        for point in zip(curve.x, curve.y, curve.low or blank, curve.high or blank, strict=True):
            yield [curve.name, *point, seed, *varied]


def _csv(rows: Iterator[Sequence[object]]) -> bytes:
    """Words are anybody's, also those of a run directory that somebody sent: none of them is a formula."""
    text = io.StringIO()
    said = ([inert(clean(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(said)
    return text.getvalue().encode()


@dataclass(frozen=True, slots=True)
class _Plane:
    """Where a value lies on the picture."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, value: float) -> float:
        return _LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (_WIDTH - _LEFT - _RIGHT)

    def up(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - self.y[0]) / (self.y[1] - self.y[0]) * (_HEIGHT - _TOP - _BOTTOM)

    def path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        return " ".join(f"{self.across(x):.1f},{self.up(y):.1f}" for x, y in zip(xs, ys, strict=True))


def curves_svg(found: Comparison) -> str:
    """The picture. Runs of one cohort have one colour and other dashes; a cohort's median is the thick line."""
    from mission_tui.fleet.comparison import letter

    plane = _Plane(*plot_range((*found.curves, *found.bands)))
    parts = [*_axes(plane, found), *_goal(plane, found.threshold)]
    colour_of = {cohort.name: COLOURS[at % len(COLOURS)] for at, cohort in enumerate(found.cohorts)}
    parts += [part for band in found.bands for part in _band(plane, band, colour_of[band.name])]
    legend = [(f"{band.name}  median and band", colour_of[band.name], "") for band in found.bands]
    for place, (run, curve) in enumerate(zip(found.runs, found.curves, strict=True)):
        cohort = found.cohorts[run.cohort]
        dash = _DASHES[cohort.runs.index(run.id) % len(_DASHES)]
        colour = COLOURS[run.cohort % len(COLOURS)]
        parts += _line(plane, curve.x, curve.y, colour, dash, 1.0 if len(cohort.runs) > 1 else 1.8)
        legend.append((f"{letter(place)}  {run.name}", colour, dash))
    width, height = _size(legend)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {_FONT}>',
        f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
    )
    return "\n".join([*head, *parts, *_legend(legend), "</svg>"]) + "\n"


def _size(legend: Sequence[tuple[str, str, str]]) -> tuple[float, float]:
    """Room for the curves and for every line of the legend, however many and long they are."""
    longest = max(len(name) for name, _, _ in legend)
    right = max(_RIGHT, _LEGEND_TEXT + _CHARACTER * longest)
    return _WIDTH - _RIGHT + right, max(_HEIGHT, _LEGEND_TOP + _LEGEND_LINE * len(legend))


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round places from `low` to `high`, at most about `most`: 1, 2 or 5 times a power of ten apart."""
    raw = (high - low) / most
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    return [step * place for place in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def plot_range(curves: Sequence[Curve]) -> tuple[tuple[float, float], tuple[float, float]]:
    """From 0 to the last place, and from the least to the greatest value, of all `curves` and their bands."""
    xs = [x for curve in curves for x in curve.x] or [0.0]
    ys = [y for curve in curves for y in (*curve.y, *curve.low, *curve.high)] or [0.0]
    return _widened(0.0, max(xs)), _widened(max(-_MOST, min(ys)), min(_MOST, max(ys)))


def _widened(low: float, high: float) -> tuple[float, float]:
    """A range that can be divided by, so that one point can be drawn too, of whatever size."""
    around = 0.1 * max(abs(low), abs(high)) or 0.5
    return (low, high) if high > low else (low - around, high + around)


def _axes(plane: _Plane, found: Comparison) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for value in ticks(*plane.y):
        y = plane.up(value)
        yield f'<line x1="{_LEFT:g}" y1="{y:.1f}" x2="{right:g}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield f'<text x="{_LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{value:.8g}</text>'
    for value in ticks(*plane.x):
        x, word = plane.across(value), duration(value) if found.by == "time" else f"{value:,.0f}"
        yield f'<text x="{x:.1f}" y="{bottom + 18:g}" text-anchor="middle">{word}</text>'
    yield f'<path d="M{_LEFT:g} {_TOP:g}V{bottom:g}H{right:g}" fill="none" stroke="#555555"/>'
    name = "training time" if found.by == "time" else "timesteps"
    yield f'<text x="{(_LEFT + right) / 2:g}" y="{_HEIGHT - 8:g}" text-anchor="middle">{name}</text>'
    yield f'<text x="{_LEFT:g}" y="{_TOP - 12:g}">{escape(clean(found.metric, 80))}</text>'


def _goal(plane: _Plane, threshold: float | None) -> Iterator[str]:
    if threshold is not None and plane.y[0] <= threshold <= plane.y[1]:
        y = plane.up(threshold)
        yield (
            f'<line x1="{_LEFT:g}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT:g}" y2="{y:.1f}" stroke="#999999" '
            'stroke-dasharray="4 4"/>'
        )


def _band(plane: _Plane, band: Curve, colour: str) -> Iterator[str]:
    around = f"{plane.path(band.x, band.high)} {plane.path(band.x[::-1], band.low[::-1])}"
    yield f'<polygon points="{around}" fill="{colour}" fill-opacity="0.18"/>'
    yield from _line(plane, band.x, band.y, colour, "", 3.0)


def _line(
    plane: _Plane, xs: Sequence[float], ys: Sequence[float], colour: str, dash: str, width: float
) -> Iterator[str]:
    if not xs:
        return
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    yield f'<polyline points="{plane.path(xs, ys)}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}/>'


def _legend(entries: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    left, right = _WIDTH - _RIGHT + 14, _WIDTH - _RIGHT + 38
    for row, (name, colour, dash) in enumerate(entries):
        y = _LEGEND_TOP + _LEGEND_LINE * row
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        yield f'<line x1="{left:g}" y1="{y:g}" x2="{right:g}" y2="{y:g}" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{_WIDTH - _RIGHT + _LEGEND_TEXT:g}" y="{y + 4:g}">{escape(name)}</text>'
