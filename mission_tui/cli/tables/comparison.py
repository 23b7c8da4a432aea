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
from mission_tui.present.numbers import DASH, count, duration, measure, seeds, size

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Compared, Comparison, Ranked, Row


_CELL = 40
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
        yield f"settings by the last {metric} of each seed, best first", _ranking(found)
    if found.contrasts:
        yield f"difference from {found.cohorts[0].name}", _contrasts(found)
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


def _results(found: Comparison) -> Table:
    goal = [f"to {measure(found.threshold)}", "in"] if found.threshold is not None else []
    heads = [
        "",
        "run",
        "seed",
        "state",
        "timesteps",
        "trained",
        "best",
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
        counted = [f"{number} {severity}" for severity, number in sorted(result.findings.items())]
        table.add(*cells, count(result.steps_per_s), size(result.peak_rss_bytes), ", ".join(counted) or "none")
    return table


def _groups(found: Comparison) -> Table:
    numbers = ("median", "IQR", "n", "least", "greatest", "mean", "95 % interval")
    table = Table(("runs", "measure", *numbers), numbers=frozenset(numbers))
    words = {"threshold_timesteps": f"timesteps to {measure(found.threshold)}"}
    words["peak_rss_bytes"] = "memory"
    words["threshold_s"] = f"time to {measure(found.threshold)}"
    for cohort in found.cohorts:
        for name, spread in cohort.spreads.items():
            say = _UNITS.get(name, measure)
            middle, interval = (
                DASH if ends is None else " to ".join(map(say, ends)) for ends in (spread.quartiles, spread.interval)
            )
            n = seeds(spread.n, spread.of, cohort.live)
            facts = (say(fact) for fact in (spread.low, spread.high, spread.mean))
            table.add(cohort.name, words.get(name, name), say(spread.median), middle, n, *facts, interval)
    return table


def _ranking(found: Comparison) -> Table:
    from mission_tui.fleet.compare import value_word
    from mission_tui.fleet.text import clean

    names = list(found.ranking[0].settings)
    results = ("mean", "95 % interval", "median", "IQR", "n", "behind", "verdict")
    table = Table(("", "runs", *map(clean, names), *results), frozenset({"", "mean", "median", "n", "behind"}))
    for it in found.ranking:
        cohort = found.cohorts[it.cohort]
        final = cohort.spreads.get("final")
        middle = final.quartiles if final is not None else None
        table.add(
            str(it.place),
            cohort.name,
            *(clean(value_word(it.settings[name]), _CELL) for name in names),
            measure(it.mean),
            DASH if it.interval is None else " to ".join(map(measure, it.interval)),
            measure(final.median if final is not None else None),
            DASH if middle is None else " to ".join(map(measure, middle)),
            seeds(it.seeds, len(cohort.seeds), cohort.live),
            measure(it.behind),
            _standing(it),
        )
    return table


def _standing(it: Ranked) -> str:
    """How sure its place behind the first is."""
    if it.place == 1 or it.behind is None:
        return DASH
    if it.surely is None or it.behind_interval is None:
        return "no interval: that needs 3 seeds of both"
    ends = " to ".join(map(measure, it.behind_interval))
    return f"surely behind: {ends}" if it.surely else f"no verdict: {ends} contains 0"


def _contrasts(found: Comparison) -> Table:
    table = Table(("runs", "measure", "difference", "95 % interval", "verdict"), frozenset({"difference"}))
    for it in found.contrasts:
        ends = " to ".join(measure(end) for end in it.interval)
        verdict = ("higher" if it.difference > 0 else "lower") if it.sure else "no verdict: it contains 0"
        table.add(it.group, it.measure, measure(it.difference), ends, verdict)
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
        place["group"] = place.pop("cohort")
    return facts
