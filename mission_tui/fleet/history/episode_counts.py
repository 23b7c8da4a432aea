"""How many episodes ended in each row of a run, and how: kept compactly beside its columns, and summed for charts."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import pairwise

from mission_tui.fleet.events.metrics import Episodes
from mission_tui.fleet.text import clean

__all__ = ["MOST_OUTCOMES", "OTHERS", "EpisodeCounts"]

MOST_OUTCOMES = 16
"""Outcomes that are told apart; what an environment names beyond them is counted as `OTHERS`."""
OTHERS = "others"
_LARGEST = 1 << 24
_NAME_CHARS = 40


class EpisodeCounts:
    """One count a row and outcome. Rows are those of `fleet.history.series.Columns`, which keeps both in step."""

    def __init__(self) -> None:
        self._ended = array("I")
        self._outcomes: dict[str, array[int]] = {}

    def put(self, row: int, episodes: Episodes) -> None:
        """Count what ended in row `row`, which is the last."""
        _put(self._ended, row, episodes.n)
        for name, count in episodes.outcomes.items():
            word = clean(name, _NAME_CHARS)
            if word not in self._outcomes and len(self._outcomes) >= MOST_OUTCOMES:
                word = OTHERS
            _put(self._outcomes.setdefault(word, array("I")), row, count)

    def cut(self, rows: int) -> None:
        """Forget all rows from `rows` on."""
        for column in (self._ended, *self._outcomes.values()):
            del column[rows:]

    def drop_first(self, rows: int) -> None:
        """Forget the first `rows` rows."""
        for column in (self._ended, *self._outcomes.values()):
            del column[:rows]

    def sums(self, edges: Sequence[int]) -> tuple[tuple[int, ...], dict[str, tuple[int, ...]]]:
        """Of the rows between each two of `edges`: how many episodes ended, and how many of each outcome."""
        spans = list(pairwise(edges))
        outcomes = {name: _sums(self._outcomes[name], spans) for name in sorted(self._outcomes)}
        return _sums(self._ended, spans), {name: counts for name, counts in outcomes.items() if any(counts)}


def _put(column: array[int], row: int, count: int) -> None:
    column.extend([0] * (row + 1 - len(column)))
    column[row] = min(_LARGEST, column[row] + max(0, count))


def _sums(column: array[int], spans: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(sum(column[first:last]) for first, last in spans)
