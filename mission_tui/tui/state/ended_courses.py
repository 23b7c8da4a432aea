"""The whole return of ended runs that are in sight: asked for one run at a time, and each once.

Of a long run that ended before the supervisor began, a snapshot has the newest rows alone; the answer goes into the
supervisor's own view of the run, and so it comes with the next snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import OVER
from mission_tui.fleet.history.course import MOST_STRETCHES
from mission_tui.fleet.views.snapshot import RunView, SupervisorInfo
from mission_tui.ipc.replies import HistoryReply
from mission_tui.ipc.requests import GetHistory
from mission_tui.tui.client import LatestQuery
from mission_tui.tui.state.run_data import RunDataClient

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
