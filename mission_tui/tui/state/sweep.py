"""What came of the settings of the sweep that the chosen run is of: asked for once the cursor rests there, and again
when one of its runs has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mission_tui.errors import MissionError
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import ComparisonReply
from mission_tui.ipc.requests import Compare
from mission_tui.tui.client import LatestQuery
from mission_tui.tui.state.run_data import RunDataClient

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Comparison

_AGAIN_S = 30.0
"""While runs of it train: a comparison reads the files of all of them."""

_Runs = tuple[str, ...]


class SweepResults:
    """`changed` is called when `found` is another comparison."""

    def __init__(self, client: RunDataClient, changed: Callable[[], None]) -> None:
        self._client, self._changed = client, changed
        self._query: LatestQuery[_Runs, ComparisonReply] = LatestQuery(client.start, self._ask, self._take)
        self._asked: tuple[object, float] | None = None
        self._runs: _Runs = ()
        self._found: Comparison | None = None

    def of(self, runs: tuple[RunView, ...]) -> Comparison | None:
        """What is known of `runs` so far."""
        return self._found if runs and self._runs == _ids(runs) else None

    def request(self, runs: tuple[RunView, ...]) -> None:
        """Ask how `runs` compare, if that may have changed."""
        from mission_tui.fleet.compare import MOST  # loads statistics, and most lists have no sweep

        if not 2 <= len(runs) <= MOST:
            return
        now, over = self._client.clock(), tuple(view.state in OVER for view in runs)
        stamp = _ids(runs), over
        if self._asked is not None and self._asked[0] == stamp and (all(over) or now - self._asked[1] < _AGAIN_S):
            return
        self._asked = stamp, now
        self._query.request(_ids(runs))

    async def _ask(self, runs: _Runs) -> ComparisonReply:
        return await self._client.ask(lambda id_: Compare(id=id_, runs=runs))

    def _take(self, runs: _Runs, answer: ComparisonReply | MissionError) -> None:
        from mission_tui.fleet.compare import Comparison

        # Runs that cannot be compared yet have no table; c says why.
        known = None if isinstance(answer, MissionError) else msgspec.convert(answer.comparison, Comparison)
        self._runs, self._found = runs, known
        self._changed()


def _ids(runs: tuple[RunView, ...]) -> _Runs:
    return tuple(view.id for view in sorted(runs, key=lambda view: (view.created_t, view.id)))
