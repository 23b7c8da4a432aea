"""A search on the screen: how far it is, the best, what mattered, and each trial's settings beside its result."""

from __future__ import annotations

from rich.style import Style
from rich.table import Table
from textual.strip import Strip

from mission_tui.fleet.search.result import SearchResult, SearchTrial, ranked_trials
from mission_tui.present import numbers, searches
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import line, rendered, words, wrap

_STYLES: dict[str, Style] = {"finished": colours.INK, "running": colours.LIVE, "failed": colours.ALARM}


def search_table(result: SearchResult, width: int) -> list[Strip]:
    """The sentences first, then a line for each trial, best first."""
    said = [(searches.progress_words(result), colours.BOLD), (searches.importance_words(result), colours.QUIET)]
    if result.confirmation is not None:
        said.insert(1, (searches.confirmation_words(result.confirmation), colours.INK))
    if result.ended:
        said.append((searches.save_words(result), colours.QUIET))
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
        (searches.state_word(trial), style),
        (searches.value_word(trial.value), best),
        *((trial.settings.get(key, numbers.DASH), style) for key in result.keys),
    ]
