"""What is known of one run beyond its view, its log among it, and the requests for it.

Only what the screen shows is requested, never twice at once, and again only when it may have changed. Of an attempt's
output that is a stretch as lines: its end, which grows while followed, or pages elsewhere; bounded.

Of a long run that ended before the supervisor began, a snapshot has the newest rows alone; what `EndedCourses` requests
goes into the supervisor's own view of the run, and so comes with the next snapshot. How the runs of a sweep compare is
what `SweepResults` requests.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import RETURN
from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.history.course import MOST_STRETCHES
from mission_tui.fleet.history.series import EPISODES
from mission_tui.fleet.specs.spec import is_driver
from mission_tui.fleet.text import as_left
from mission_tui.fleet.views.snapshot import RunView, SupervisorInfo
from mission_tui.ipc.replies import ComparisonReply, DetailsReply, HistoryReply, LogReply
from mission_tui.ipc.requests import AnsweredBy, Compare, GetDetails, GetHistory, GetLog
from mission_tui.tui.client import LatestQuery
from mission_tui.tui.state.history import (
    MOST_SUMMARIES,
    PHASE_SERIES,
    POINTS,
    MetricSummary,
    metric_summaries,
    metric_tags,
    stretch,
)

if TYPE_CHECKING:
    from mission_tui.fleet.comparison import Comparison

Where = Literal["earlier", "later", "beginning", "newest"]
"""Which page is wanted beside the known ones, or instead of them."""

_KEPT_CHARACTERS = 1 << 20
LOG_PAGE_BYTES = 1 << 16
_CUT_BYTES = 3
"""A page ends before a character that would not be whole: that may leave so much between it and the next one."""


class Stretch(Struct, frozen=True):
    """Bytes `start` to `end` of an output of `size` bytes. Its lines are numbered from `first`: a line keeps its number
    while others come before it.
    """

    start: int = 0
    end: int = 0
    size: int = 0
    first: int = 0


class _Page(Struct):
    text: str
    start: int
    end: int


class LogTail:
    """Pages of one attempt's output that follow each other. `lines` are as a terminal would leave them.

    `detached`: what is printed now is not among them, and not asked for.
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._pages: list[_Page] = []
        self._size = 0
        self._first = 0
        self.attempt: int | None = None
        self.detached = False
        self.lines: list[str] = []

    @property
    def start(self) -> int:
        """The first byte that is known."""
        return self._pages[0].start if self._pages else 0

    @property
    def end(self) -> int:
        """The byte after the last one that is known."""
        return self._pages[-1].end if self._pages else 0

    @property
    def stretch(self) -> Stretch:
        """Which part of the output the lines are."""
        return Stretch(self.start, self.end, max(self._size, self.end), self._first)

    def later(self) -> Callable[[int], AnsweredBy[LogReply]]:
        """The request for what was written since, or for the last page at first."""
        known = self.attempt is not None
        offset = self.end if known else None
        return lambda id_: GetLog(id=id_, run=self._run, offset=offset, limit=LOG_PAGE_BYTES)

    def page(self, where: Where, limit: int = LOG_PAGE_BYTES) -> Callable[[int], AnsweredBy[LogReply]] | None:
        """The request for another page, of `limit` bytes at most; None where there is none to ask for."""
        offset: int | None
        match where:
            case "earlier":
                offset = max(0, self.start - limit)
                limit = self.start - offset
            case "later":
                offset = self.end
            case "beginning":
                offset = 0
            case "newest":
                offset = None
        wanted = self.start > 0 if where in ("earlier", "beginning") else self.detached
        if self.attempt is None or not wanted:
            return None
        return lambda id_: GetLog(id=id_, run=self._run, offset=offset, limit=limit, attempt=self.attempt)

    def take(self, reply: LogReply) -> bool:
        """Join a page to the others; one of another attempt, of a cut file or from elsewhere starts anew.

        True if lines changed.
        """
        page = _Page(reply.text, reply.start, reply.end)
        self._size = reply.size
        known = bool(self._pages) and reply.attempt == self.attempt
        if known and reply.start == self.end and reply.size >= self.end:
            self.detached = self.detached and reply.end < reply.size
            if not reply.text:
                return False
            self._append(page)
        elif known and reply.start < self.start and 0 <= self.start - reply.end <= _CUT_BYTES:
            self._prepend(page)
        else:
            self._pages, self.attempt, self._first = [page], reply.attempt, 0
            self.detached = reply.end < reply.size
        self.lines = [as_left(line) for line in "".join(page.text for page in self._pages).split("\n")]
        if self.lines and not self.lines[-1]:
            self.lines.pop()
        return True

    def _append(self, page: _Page) -> None:
        """The oldest pages give way."""
        last = self._pages[-1]
        if len(last.text) < LOG_PAGE_BYTES:
            last.text, last.end = last.text + page.text, page.end
        else:
            self._pages.append(page)
        while self._too_much:
            self._first += self._pages.pop(0).text.count("\n")

    def _prepend(self, page: _Page) -> None:
        """The newest pages give way, and then the end is elsewhere."""
        self._first -= page.text.count("\n")
        self._pages.insert(0, page)
        while self._too_much:
            self._pages.pop()
            self.detached = True

    @property
    def _too_much(self) -> bool:
        return len(self._pages) > 1 and sum(len(page.text) for page in self._pages) > _KEPT_CHARACTERS


_PACE_S = 1.0
_DETAILS_PACE_S = 5.0
_SUMMARIES_PACE_S = 5.0
"""The supervisor goes through all that it has of the run."""
_WALL, _WALL_PACE_S = "wall", 2.0
_BESIDE_PACE_S, _OUTGROWN_PACE_S = 10.0, 2.0
_OUTGROWN = 1 / 8
"""Of its updates: a chart below a list that lacks more than this is drawn again sooner, so that no young run stands
beside a return that its curve has never seen.
"""
_MARKS_PACE_S = 30.0
"""Evaluations come without a word in the view."""

_GHOST, _AHEAD = "ghost", "ahead"
EXACT = "exact"
"""The history that holds the values of one update alone."""

Answer = TypeVar("Answer")


class RunData(Struct):
    """Answers about one run so far, histories by tag or finding; `trouble` is why the newest question failed.

    `ghosts` are histories, by tag, of the run `ghost` that it is held against, the best one or as `ghost_word` says.
    """

    run: str
    log: LogTail
    details: DetailsReply | None = None
    history: dict[str, HistoryReply] = field(default_factory=dict)
    summaries: Mapping[str, MetricSummary] = field(default_factory=dict)
    trouble: str | None = None
    ghost: RunView | None = None
    ghost_word: str = ""
    ghosts: dict[str, HistoryReply] = field(default_factory=dict)


Keep = Callable[[RunData, Answer], bool]
"""Puts an answer into the run data; True when that changed them."""

_Take = Callable[[], bool]
_Work = Callable[[], Coroutine[Any, Any, "_Take | None"]]


class RunDataClient(Protocol):
    """What a loader needs of the context."""

    @property
    def clock(self) -> Callable[[], float]: ...

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer: ...

    def start(self, work: Coroutine[Any, Any, None]) -> None: ...


class RunDataLoader:
    """Asks about the run a screen shows. `changed` is called when the run data has something new."""

    def __init__(self, client: RunDataClient, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._asked: dict[str, tuple[object, float]] = {}
        self._queries: dict[str, LatestQuery[_Work, _Take | None]] = {}
        self.data: RunData | None = None

    def data_of(self, view: RunView) -> RunData:
        """The run data of `view`'s run; a new, empty one when another run was shown before."""
        if self.data is None or self.data.run != view.id:
            self.data = RunData(view.id, LogTail(view.id))
            self._asked.clear()
            for query in self._queries.values():
                query.drop()
            self._queries.clear()
        return self.data

    def request(self, view: RunView, tab: str, series: tuple[str, ...] = (), points: int = 500) -> None:
        """Ask for what `tab` shows of `view`, if it may have changed and the last asking is long enough ago. Several
        `series` are one question, asked less often: all of them are drawn again.
        """
        data = self.data_of(view)
        run = data.run
        drives = is_driver(view.preset)
        if series or drives or tab in ("config", "checkpoints", "health", "journal", "machine"):
            rows = view.update if drives else None
            stamp = (view.state, view.attempt, view.last_checkpoint, view.changes, view.note, view.labels, rows)
            again_s = {"checkpoints": _DETAILS_PACE_S, "journal": _DETAILS_PACE_S, "learn": _MARKS_PACE_S}.get(tab)
            if self._due("details", stamp, _DETAILS_PACE_S if drives else again_s):
                self._ask("details", lambda id_: GetDetails(id=id_, run=run), _keep_details)
        if tab == "episodes" and self._due(EPISODES, (view.update, view.attempt, points), None, _SUMMARIES_PACE_S):
            self._ask(
                EPISODES,
                lambda id_: GetHistory(id=id_, run=run, series=(EPISODES,), points=points),
                lambda kept, reply: _keep_history(kept, (EPISODES,), reply),
            )
        if tab == "log":
            if not data.log.detached and self._due(
                "log", (view.attempt, view.state), _PACE_S if view.state in ALIVE else None
            ):
                self._ask("log", data.log.later(), lambda kept, page: kept.log.take(page))
        elif series:
            kind, pace_s = (series[0], _PACE_S) if len(series) == 1 else (_WALL, _WALL_PACE_S)
            drawn = (view.update, view.attempt, points, series)
            # What is not known yet does not wait for its turn.
            if self._due(kind, drawn, None, pace_s if set(series) <= set(data.history) else 0.0):
                self._ask(
                    kind,
                    lambda id_: GetHistory(id=id_, run=run, series=series, points=points),
                    lambda kept, reply: _keep_history(kept, series, reply),
                )

    def request_history(self, view: RunView, tag: str, points: int) -> None:
        """Ask for the curve of `tag` alone, if it may have changed."""
        pace_s = beside_pace_s(self.data_of(view).history.get(tag), view)
        if self._due(tag, (view.update, view.attempt, points, (tag,)), None, pace_s):
            self._ask(
                tag,
                lambda id_: GetHistory(id=id_, run=view.id, series=(tag,), points=points),
                lambda kept, reply: _keep_history(kept, (tag,), reply),
            )

    def request_ahead(self, view: RunView, tags: Sequence[str], points: int) -> None:
        """Ask for those of `tags` that the next key may want and that are not known: once, after what is seen now."""
        data = self.data_of(view)
        missing = tuple(tag for tag in tags if tag not in data.history)
        if missing and self._due(_AHEAD, (missing, points), None, 0.0):
            self._ask(
                _AHEAD,
                lambda id_: GetHistory(id=id_, run=view.id, series=missing, points=points),
                lambda kept, reply: _keep_ahead(kept, missing, reply),
            )

    def request_summaries(self, view: RunView) -> None:
        """Ask how all metrics of `view` went, over the whole run."""
        self.data_of(view)
        tags = (*metric_tags(view)[:MOST_SUMMARIES], *PHASE_SERIES) if view.update else ()
        if tags and self._due("summaries", (view.update, view.attempt), None, _SUMMARIES_PACE_S):
            self._ask(
                "summaries",
                lambda id_: GetHistory(id=id_, run=view.id, series=tags, points=POINTS),
                _keep_summaries,
            )

    def request_ghost(
        self, view: RunView, ghost: RunView | None, word: str, tags: tuple[str, ...], points: int
    ) -> None:
        """Ask once for the curves of `ghost`, which has ended and is the one that `word` says; None is none."""
        data = self.data_of(view)
        data.ghost_word = word
        if (None if data.ghost is None else data.ghost.id) != (None if ghost is None else ghost.id):
            data.ghost = ghost
            data.ghosts.clear()
        missing = tuple(tag for tag in tags if tag not in data.ghosts)
        if ghost is not None and missing and self._due(_GHOST, (ghost.id, missing), None, 0.0):
            self._ask(
                _GHOST,
                lambda id_: GetHistory(id=id_, run=ghost.id, series=missing, points=points),
                lambda kept, reply: _keep_ghost(kept, ghost.id, missing, reply),
            )

    def request_evidence(self, view: RunView, finding: Finding, points: int) -> None:
        """Ask for the stretch of the curve that shows `finding`, which is in the run data under the finding's id."""
        if not finding.signal:
            return
        self.data_of(view)
        first, last = stretch(finding)
        if self._due(finding.id, (finding.last_update, last or view.update, points), None):
            signals = (finding.signal,)
            self._ask(
                finding.id,
                lambda id_: GetHistory(
                    id=id_, run=view.id, series=signals, from_update=first, to_update=last, points=points
                ),
                lambda kept, reply: _keep_history(kept, (finding.id,), reply),
            )

    def request_exact(self, view: RunView, update: int, tags: tuple[str, ...]) -> None:
        """Ask once for what `tags` were at `update`, which is in the run data as `EXACT`; at once, unless it was just
        refused.
        """
        self.data_of(view)
        stamp, now = (update, tags), self._client.clock()
        if self._is_open(EXACT):
            return
        if EXACT in self._asked:
            before, asked_t = self._asked[EXACT]
            if before == stamp or (not isinstance(before, tuple) and now - asked_t < _PACE_S):
                return
        self._asked[EXACT] = (stamp, now)
        self._ask(
            EXACT,
            lambda id_: GetHistory(id=id_, run=view.id, series=tags, from_update=update, to_update=update, points=1),
            lambda kept, reply: _keep_history(kept, (EXACT,), reply),
        )

    def request_log(self, where: Where, limit: int = LOG_PAGE_BYTES) -> None:
        """Ask for another page of the log, up to `limit` bytes: at once, or after the answer that is awaited."""
        data = self.data
        if data is None:
            return

        async def turn() -> _Take | None:
            # Which bytes those are depends on the answer that was awaited.
            if (make := data.log.page(where, limit)) is None:
                return None
            page = await self._client.ask(make)
            return lambda: data.log.take(page)

        self._query("log").request(turn)

    def _due(self, kind: str, stamp: object, again_s: float | None, pace_s: float = _PACE_S) -> bool:
        """At first, when `stamp` changed, and after `again_s` whatever happened; not while an answer is open."""
        if self._is_open(kind):
            return False
        now = self._client.clock()
        if kind in self._asked:
            asked_stamp, asked_t = self._asked[kind]
            changed = asked_stamp != stamp and now - asked_t >= pace_s
            if not changed and (again_s is None or now - asked_t < again_s):
                return False
        self._asked[kind] = (stamp, now)
        return True

    def _ask(self, kind: str, make: Callable[[int], AnsweredBy[Answer]], keep: Keep[Answer]) -> None:
        data = self.data
        assert data is not None

        async def work() -> _Take:
            answer = await self._client.ask(make)
            return lambda: keep(data, answer)

        self._query(kind).request(work)

    def _query(self, kind: str) -> LatestQuery[_Work, _Take | None]:
        if kind not in self._queries:
            # Pages of a log join one another, so that each of them counts.
            self._queries[kind] = LatestQuery(
                self._client.start, lambda work: work(), partial(self._take, kind), takes_all=True
            )
        return self._queries[kind]

    def _is_open(self, kind: str) -> bool:
        return kind in self._queries and self._queries[kind].is_open

    def _take(self, kind: str, _work: _Work, found: _Take | MissionError | None) -> None:
        data = self.data
        if data is None or found is None:
            return
        if isinstance(found, MissionError):
            data.trouble, changed = str(found), True
            self._asked[kind] = (object(), self._client.clock())
        else:
            changed = found() or data.trouble is not None
            data.trouble = None
        if changed:
            self._changed()


def beside_pace_s(drawn: HistoryReply | None, view: RunView) -> float:
    """Seconds between two drawings of a chart below a list, where few wait for its newest point, and a whole chart of
    cells goes over the line each time. A young run outgrows its chart, and then it is two.
    """
    if drawn is None or not drawn.updates:
        return 0.0
    missing = abs((view.update or 0) - drawn.updates[-1])
    return _OUTGROWN_PACE_S if missing > _OUTGROWN * drawn.updates[-1] else _BESIDE_PACE_S


def _keep_details(data: RunData, reply: DetailsReply) -> bool:
    changed = data.details != reply
    data.details = reply
    return changed


def _keep_summaries(data: RunData, reply: HistoryReply) -> bool:
    data.summaries = metric_summaries(reply)
    return True


def _keep_history(data: RunData, names: tuple[str, ...], reply: HistoryReply) -> bool:
    data.history.update(dict.fromkeys(names, reply))
    return True


def _keep_ahead(data: RunData, names: tuple[str, ...], reply: HistoryReply) -> bool:
    """Nothing of it is shown before a key asks for it, and by then the answer to that may be there."""
    for name in names:
        data.history.setdefault(name, reply)
    return False


def _keep_ghost(data: RunData, ghost: str, tags: tuple[str, ...], reply: HistoryReply) -> bool:
    if data.ghost is None or data.ghost.id != ghost:
        return False
    data.ghosts.update(dict.fromkeys(tags, reply))
    return True


_SETTLE_S = 0.1
"""A debounce: of lines that a held key passes over nothing is requested."""


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
        from mission_tui.fleet.comparison import MOST  # loads statistics, and most lists have no sweep

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
        from mission_tui.fleet.comparison import Comparison

        # Runs that cannot be compared yet have no table; c says why.
        known = None if isinstance(answer, MissionError) else msgspec.convert(answer.comparison, Comparison)
        self._runs, self._found = runs, known
        self._changed()


def _ids(runs: tuple[RunView, ...]) -> _Runs:
    return tuple(view.id for view in sorted(runs, key=lambda view: (view.created_t, view.id)))
