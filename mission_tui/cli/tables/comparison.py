"""A comparison as tables, the same on a terminal, in a pipe and in a report: runs are A, B, C after the first one;
and as the document that `compare --json` prints.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.tables.table import Table
from mission_tui.cli.terminal_output import Styled, write
from mission_tui.present.comparisons import best_word, contrast_word, findings_words, has_seeds, probability, standing
from mission_tui.present.numbers import DASH, count, duration, measure, seeds, size

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Compared, Comparison, Row


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
    from mission_tui.fleet.text import clean

    metric = clean(found.metric)
    yield f"{metric}, {_over(found)}", _results(found)
    if any(len(cohort.runs) > 1 for cohort in found.cohorts):
        yield "seeds of one setting together", _groups(found)
    if found.ranking:
        middle = "interquartile mean" if found.ranked_by == "iqm" else "mean"
        yield f"settings by the {middle} over seeds of {metric}{_budget(found)}, best first", _ranking(found)
    if found.contrasts:
        yield f"difference from {found.cohorts[0].name}; all these intervals hold together", _contrasts(found)
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
    return f"areas over {duration(low)} to {duration(high)} of training"


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
    from mission_tui.fleet.compare import value_word
    from mission_tui.fleet.text import clean

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
    from mission_tui.fleet.compare import value_word
    from mission_tui.fleet.text import clean

    table = Table(("", *(letter for letter, _ in _lettered(found))))
    for row in rows:
        table.add(row.name, *(clean(value_word(value), _CELL) for value in row.values))
    return table


def _lettered(found: Comparison) -> Iterator[tuple[str, Compared]]:
    from mission_tui.fleet.compare import letter

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
