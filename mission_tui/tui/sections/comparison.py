"""A comparison as lines: results with each run's letter, what to mind, seeds together, and what differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.style import Style
from rich.table import Table
from textual.strip import Strip

from mission_tui.fleet.compare import Comparison, Result, Row, letter, value_word
from mission_tui.fleet.views.findings import Severity
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import line, rendered, words
from mission_tui.tui.drawing.wrapping import wrap

__all__ = ["HUES", "comparison"]

_P = colours.PALETTE
HUES = (_P.live, _P.warn, _P.good, _P.paused, _P.key, _P.alarm, _P.bold)
"""A colour per setting, in order; a curve's letter says what it is without them."""

_NAME, _VALUE, _WIDE = 22, 11, 100
_FINDINGS: Mapping[Severity, str] = {"critical": "crit", "warning": "warn", "info": "info"}

Words = Callable[[float | None], str]


def comparison(found: Comparison, width: int) -> list[Strip]:
    """The lines for `width` cells."""
    strips = rendered(_results(found, memory=width >= _WIDE), width)
    for note in found.notes:
        first, *more = wrap(note, width - 4)
        strips.append(line([("  ! ", colours.WARN), (first, colours.INK)], width))
        strips += [line([(f"    {text}", colours.INK)], width) for text in more]
    if any(len(cohort.runs) > 1 for cohort in found.cohorts):
        title = "seeds of one setting together"
        title += ": in the chart their median, with the first letter" if found.bands else ""
        strips += [_title(title, width), *rendered(_seeds(found), width)]
    if found.contrasts:
        strips += [_title(f"less {found.cohorts[0].name}", width), *rendered(_contrasts(found), width)]
    for title, rows in (("settings that differ", found.settings), ("provenance that differs", found.provenance)):
        if rows:
            strips += [_title(title, width), *_differing(found, rows, width)]
    return strips


def _title(title: str, width: int) -> Strip:
    return line([(f" {title}", colours.QUIET)], width)


def _grid(heads: Sequence[str], left: Sequence[int]) -> Table:
    """A table whose `left` columns are text and all others numbers."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for at, _ in enumerate(heads):
        table.add_column(no_wrap=True, overflow="ellipsis", justify="left" if at in left else "right")
    table.add_row(*(words((head, colours.QUIET)) for head in heads))
    return table


def _hue(found: Comparison, place: int) -> Style:
    return Style(color=HUES[found.runs[place].cohort % len(HUES)], bold=True)


def _results(found: Comparison, *, memory: bool) -> Table:
    goal = [f"to {numbers.reading(found.threshold)}", "in"] if found.threshold is not None else []
    heads = ["", "run", "seed", "best", "final", "area", *goal, "st/s", *(["memory"] if memory else []), "findings"]
    table = _grid(heads, (0, 1, len(heads) - 1))
    for place, run in enumerate(found.runs):
        result = run.result
        cells = [run.name if len(run.name) <= _NAME else f"{run.name[: _NAME - 1]}…"]
        cells += [numbers.DASH if run.seed is None else str(run.seed)]
        cells += [numbers.reading(value) for value in (result.best, result.final, result.area)]
        cells += [numbers.compact(result.threshold_timesteps), numbers.duration(result.threshold_s)] if goal else []
        cells += [numbers.rate(result.steps_per_s)] + ([numbers.size(result.peak_rss_bytes)] if memory else [])
        cells.append(_findings(result))
        row = (words((cell, colours.INK)) for cell in cells)
        table.add_row(words((f" {letter(place)}", _hue(found, place))), *row)
    return table


def _findings(result: Result) -> str:
    said = [f"{result.findings[kind]} {word}" for kind, word in _FINDINGS.items() if result.findings.get(kind)]
    return " ".join(said) or "none"


def _seeds(found: Comparison) -> Table:
    table = _grid(("", "measure", "seeds", "median", "least", "greatest", "95 % of the mean"), (0, 1))
    for cohort in found.cohorts:
        place = next(at for at, run in enumerate(found.runs) if run.id == cohort.runs[0])
        name = cohort.name if len(cohort.runs) > 1 else letter(place)
        for measure, spread in cohort.spreads.items():
            title, say = _measure(measure, found.threshold)
            seeds = str(spread.n) if spread.n == spread.of else f"{spread.n} of {spread.of}"
            interval = numbers.DASH if spread.interval is None else " to ".join(say(end) for end in spread.interval)
            cells = (title, seeds, say(spread.median), say(spread.low), say(spread.high), interval)
            row = (words((cell, colours.INK)) for cell in cells)
            table.add_row(words((f" {name}", _hue(found, place))), *row)
    return table


def _contrasts(found: Comparison) -> Table:
    table = _grid(("", "measure", "difference", "95 % interval", ""), (0, 1, 4))
    for it in found.contrasts:
        title, _ = _measure(it.measure, found.threshold)
        verdict = ("higher" if it.difference > 0 else "lower") if it.sure else "no verdict: it contains 0"
        ends = " to ".join(numbers.reading(end) for end in it.interval)
        cells = (f" {it.group}", title, numbers.reading(it.difference), ends, verdict)
        table.add_row(*(words((cell, colours.INK)) for cell in cells))
    return table


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
    """As many runs beside each other as there is room for; the others are named, and where they are to be had."""
    fitting = max(2, (width - _NAME - 4) // (_VALUE + 2))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, overflow="ellipsis", min_width=_NAME)
    shown = range(min(len(found.runs), fitting))
    for _ in shown:
        table.add_column(no_wrap=True, overflow="ellipsis", max_width=(width - _NAME - 2) // len(shown) - 2)
    table.add_row("", *(words((letter(place), _hue(found, place))) for place in shown))
    for row in rows:
        values = (words((value_word(row.values[place]), colours.INK)) for place in shown)
        table.add_row(words((f"  {row.name}", colours.QUIET)), *values)
    yield from rendered(table, width)
    if len(shown) < len(found.runs):
        left = f"  {letter(len(shown))} to {letter(len(found.runs) - 1)}: `mission-tui compare` shows them all"
        yield line([(left, colours.QUIET)], width)
