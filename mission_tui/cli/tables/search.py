"""What came of a search: its trials as a table, best first, and the facts of its document."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.tables.table import Table
from mission_tui.cli.terminal_output import Styled, write
from mission_tui.fleet.search.result import ranked_trials
from mission_tui.present import searches
from mission_tui.present.numbers import DASH

if TYPE_CHECKING:
    from mission_tui.fleet.search.result import SearchResult
    from mission_tui.fleet.views.snapshot import RunView


def write_search(driver: RunView, result: SearchResult) -> None:
    """The table, then a sentence each for progress, importance, the fresh seeds, and what keeps the winner."""
    shown = [key.rpartition(".")[2] for key in result.keys]
    names = shown if len(set(shown)) == len(shown) else list(result.keys)
    numbers = frozenset({"trial", result.metric, *names})
    table = Table(("trial", "state", *names, result.metric), numbers)
    for trial in ranked_trials(result):
        settings = (trial.settings.get(key, DASH) for key in result.keys)
        table.add(str(trial.number), searches.state_word(trial), *settings, searches.value_word(trial.value))
    table.write(sys.stdout)
    failed = next((trial for trial in reversed(result.trials) if trial.state == "failed"), None)
    if failed is not None:
        write(f"trial {failed.number} failed: {failed.why}")
    for sentence in (searches.progress_words(result), searches.importance_words(result)):
        if sentence:
            write(sentence)
    if result.confirmation is not None:
        write(Styled(searches.confirmation_words(result.confirmation), bold=result.ended))
    if not result.ended and driver.state == "ended":
        write(f"it is not over: `mission-tui search --continue {result.group}` goes on")
    elif result.ended and (saved := searches.save_words(result)):
        write(saved)


def search_facts(driver: RunView, result: SearchResult | None) -> dict[str, Any]:
    """Every name of it there; what is not known yet is null."""
    facts: dict[str, Any] = {"driver": {"id": driver.id, "name": driver.name, "state": driver.state}}
    if result is None:
        return facts | {"group": driver.group, "search": None}
    said = None if result.confirmation is None else searches.confirmation_words(result.confirmation)
    return facts | {
        "group": result.group,
        "search": msgspec.to_builtins(result)
        | {"sentence": searches.progress_words(result), "confirmation_sentence": said},
    }
