"""What ended runs came to, asked of the supervisor when the cursor or the list shows them: their whole return, and what
came of the settings of a sweep.

Of a long run that ended before the supervisor began, a snapshot has the newest rows alone; the answer goes into the
supervisor's own view of the run, and so it comes with the next snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.history.course import MOST_STRETCHES
from mission_tui.fleet.views.snapshot import RunView, SupervisorInfo
from mission_tui.ipc.replies import ComparisonReply, HistoryReply
from mission_tui.ipc.requests import Compare, GetHistory
from mission_tui.tui.client import LatestQuery
from mission_tui.tui.state.run_data import RunDataClient

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Comparison


_SETTLE_S = 0.1
"""Lines that a held key passes over are not asked for."""


class EndedCourses:
    """What was asked for counts for one supervisor: the next one has read the ends of files again."""

    def __init__(self, client: RunDataClient) -> None:
        self._client = client
        self._query: LatestQuery[str, HistoryReply] = LatestQuery(
            client.start, self._ask, self._take, settle_s=_SETTLE_S
        )
        self._supervisor: SupervisorInfo | None = None
        self._asked: set[tuple[str, int | None]] = set()
        self._views: Sequence[RunView] = ()

    def request(self, views: Sequence[RunView], supervisor: SupervisorInfo) -> None:
        """Ask for those of `views` that have ended and are known by their end alone, from the top."""
        if supervisor != self._supervisor:
            self._supervisor = supervisor
            self._asked.clear()
        self._views = views
        self._ask_next()

    def _ask_next(self) -> None:
        for view in self._views:
            unknown = view.state in OVER and view.course is None and (view.update or 0) > 1
            if unknown and (view.id, view.attempt) not in self._asked:
                self._query.request(view.id)
                return

    async def _ask(self, run: str) -> HistoryReply:
        self._asked.update((view.id, view.attempt) for view in self._views if view.id == run)
        return await self._client.ask(lambda id_: GetHistory(id=id_, run=run, series=(RETURN,), points=MOST_STRETCHES))

    def _take(self, _run: str, _answer: HistoryReply | MissionError) -> None:
        self._ask_next()


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
