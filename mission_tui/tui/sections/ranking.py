"""What came of settings, best first: the table of a sweep, on the screen of a comparison and below the list; and that
of a search, with how far it is, the best, and what mattered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.style import Style
from rich.table import Table
from textual.strip import Strip

from mission_tui.fleet.comparison import Comparison, letter
from mission_tui.fleet.search import SearchResult, SearchTrial, ranked_trials
from mission_tui.fleet.specs.flat_settings import value_word
from mission_tui.present import comparisons, numbers
from mission_tui.present.comparisons import has_seeds, probability, standing
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Column, line, rendered, table, words, wrap

MEAN_CI, _IQM_CI = "95 % CI of the mean", "95 % CI of the IQM"
_SETTINGS_FIRST = 3
"""Columns of settings that stay as long as any; below them stands what else differs."""
_WORDS = frozenset({"run", "measure", "findings", "verdict"})

Words = Callable[[float | None], str]


def ranking(found: Comparison, width: int) -> list[Strip]:
    """The table of the settings of `found` under a title; nothing where they are not ranked."""
    if not found.ranking:
        return []
    title = f"settings by the return of their seeds{_budget(found)}, best first"
    return [title_line(title, width), *_sweep(found, width)]


def _budget(found: Comparison) -> str:
    """Where settings are held against each other."""
    if found.budget is None:
        return ""
    return f" after {numbers.duration(found.budget)}" if found.by == "time" else f" at {numbers.compact(found.budget)}"


def _sweep(found: Comparison, width: int) -> list[Strip]:
    """Each setting against what came of it, best first: what differs between them, and the returns of its seeds."""
    by_iqm, seeded = found.ranked_by == "iqm", has_seeds(found)
    names = list(found.ranking[0].settings)
    short = {name: name.rpartition(".")[2] for name in names}
    titles = [short[name] if list(short.values()).count(short[name]) == 1 else name for name in names]
    rows: list[Facts] = []
    for it in found.ranking:
        cohort = found.cohorts[it.cohort]
        place = next(at for at, run in enumerate(found.runs) if run.id == cohort.runs[0])
        n = numbers.seeds(it.seeds, len(cohort.seeds), cohort.live)
        middle, ends = (it.iqm, it.iqm_interval) if by_iqm else (it.mean, it.interval)
        values = (value_word(it.settings[name]) for name in names)
        name = cohort.name if len(cohort.runs) > 1 else letter(place)
        # Before any seed has come to something the first one is the first alone.
        verdict = "best" if it.place == 1 and it.mean is not None else standing(it, numbers.reading)
        middles = [numbers.reading(it.median)] if seeded else []
        middles += [numbers.reading(middle), interval(ends, numbers.reading)]
        said = (*middles, n, probability(it.improvement), verdict)
        rows.append(Facts(name, hue_of(found, place), (*values, *said)))
    heads = [(title, 0 if at < _SETTINGS_FIRST else 6) for at, title in enumerate(titles)]
    heads += [("median", 2)] if seeded else []
    heads += [("IQM", 0), (_IQM_CI, 3)] if by_iqm else [("mean", 0), (MEAN_CI, 3)]
    heads += [("n", 1), ("P(best better)", 4), ("verdict", 1)]
    return facts_table(heads, rows, width)


def title_line(title: str, width: int) -> Strip:
    """Above a table."""
    return line([(f" {title}", colours.QUIET)], width)


@dataclass(frozen=True, slots=True)
class Facts:
    """A line of a table: its letter in the colour of its curve, and what stands in the columns."""

    mark: str
    hue: Style
    cells: tuple[str, ...]


def facts_table(heads: Sequence[tuple[str, int]], rows: Sequence[Facts], width: int) -> list[Strip]:
    """`heads` are titles and ranks: whole columns give way, the highest rank first."""
    letters: Column[Facts] = Column(" ", 1, lambda row: row.mark, left=True, style=lambda row: row.hue)
    columns: list[Column[Facts]] = [
        Column(title, 1, _cell(at), left=title in _WORDS, rank=rank) for at, (title, rank) in enumerate(heads)
    ]
    return table([letters, *columns], rows, width)


def _cell(at: int) -> Callable[[Facts], str]:
    return lambda row: row.cells[at]


def hue_of(found: Comparison, place: int) -> Style:
    """The colour of the curve of the run at that place."""
    return Style(color=colours.COHORT_HUES[found.runs[place].cohort % len(colours.COHORT_HUES)], bold=True)


def interval(ends: tuple[float, float] | None, say: Words) -> str:
    """`5.2 to 6.1`."""
    return numbers.DASH if ends is None else " to ".join(map(say, ends))


_STYLES: dict[str, Style] = {"finished": colours.INK, "running": colours.LIVE, "failed": colours.ALARM}


def search_table(result: SearchResult, width: int) -> list[Strip]:
    """The sentences first, then a line for each trial, best first."""
    said = [(comparisons.progress_words(result), colours.BOLD), (comparisons.importance_words(result), colours.QUIET)]
    if result.confirmation is not None:
        said.insert(1, (comparisons.confirmation_words(result.confirmation), colours.INK))
    if result.ended:
        said.append((comparisons.save_words(result), colours.QUIET))
    strips = [line([(f" {text}", style)], width) for words_, style in said for text in wrap(words_, width - 2)]
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(3 + len(result.keys)):
        table.add_column(no_wrap=True, overflow="ellipsis")
    table.add_row(
        *(words((text, colours.QUIET)) for text in (" trial", "state", result.metric.rpartition("/")[2])),
        *(words((key.rpartition(".")[2], colours.QUIET)) for key in result.keys),
    )
    for trial in ranked_trials(result):
        table.add_row(*(words(cell) for cell in _cells(result, trial)))
    return [*strips, *rendered(table, width)]


def _cells(result: SearchResult, trial: SearchTrial) -> list[tuple[str, Style]]:
    style = _STYLES.get(trial.state, colours.QUIET)
    best = colours.GOOD if trial.number == result.best else style
    return [
        (f" {trial.number}", style),
        (comparisons.state_word(trial), style),
        (comparisons.value_word(trial.value), best),
        *((trial.settings.get(key, numbers.DASH), style) for key in result.keys),
    ]
