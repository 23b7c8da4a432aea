"""Where requests meet verbs: one exhaustive match, and the clients that watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import assert_never

from msgspec import structs

from mission_tui.errors import MissionError, ProtocolError, UsageError
from mission_tui.ipc import requests
from mission_tui.ipc.replies import EndedReply, NamedReply, OperatorReply, PageReply, SnapshotReply, StripReply
from mission_tui.ipc.server import Session
from mission_tui.supervisor.host.children import tasks_at_work
from mission_tui.supervisor.lifecycle.adoption import view_of_waiting
from mission_tui.supervisor.readonly.details import adoptable, details
from mission_tui.supervisor.readonly.history import Tracks, compare, history, log, sides, strip_of
from mission_tui.supervisor.runs import named_views
from mission_tui.supervisor.runs.clock_steps import unix_ahead
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import requested_by
from mission_tui.supervisor.runs.targets import check_runs_are_ours
from mission_tui.supervisor.verbs.acts import ACTS, label, mark, note, rename, shutdown
from mission_tui.supervisor.verbs.bench import bench, tune, tune_fleet
from mission_tui.supervisor.verbs.cleanup import clean, in_trash, prune, remove, restore, undo
from mission_tui.supervisor.verbs.importing import adopt, import_checkpoint, import_run
from mission_tui.supervisor.verbs.launch import check, clone, launch, quote, upgrades
from mission_tui.supervisor.verbs.playing import Players, evaluate, export, film
from mission_tui.supervisor.verbs.resume import resume
from mission_tui.supervisor.verbs.settings import apply, set_
from mission_tui.supervisor.verbs.trial import try_

PUSH_S = 0.25
PUSH_S_A_RUN, MOST_PUSH_S = 0.001, 1.0
"""Of more than 250 live runs something is always new, and nobody reads all of it four times a second."""

SLICE_S = 0.05
LOOK_PATIENCE_S = 0.75
PATIENCE_S = 1.25
"""How long a request waits at the start for runs that are still being read."""

ATTENDED_S = 10.0
Look = (
    requests.GetSnapshot
    | requests.GetEnded
    | requests.GetNamed
    | requests.GetPage
    | requests.GetDetails
    | requests.GetHistory
    | requests.GetStrip
    | requests.Compare
    | requests.GetSides
    | requests.GetLog
    | requests.GetTrash
    | requests.GetAdoptable
    | requests.GetUpgrades
    | requests.Quote
)


class LoopBreaks:
    """Gives the rest of the loop a turn now and then in work of many small steps: by time, because a turn takes as long
    as all others want it, and one after each of two hundred steps was seen to take minutes.
    """

    def __init__(self, slice_s: float = SLICE_S) -> None:
        self._slice_s = slice_s
        self._since = time.monotonic()

    async def offer(self) -> None:
        """Let others do something if this work has gone on for `slice_s`."""
        if time.monotonic() - self._since >= self._slice_s:
            await asyncio.sleep(0)
            self._since = time.monotonic()


class RequestDispatcher:
    """The operator plane's side of the supervisor."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._sessions: set[Session] = set()
        self._watching: dict[Session, dict[int, int]] = {}
        self._asked_at = float("-inf")
        self._players = Players(core)

    @property
    def attached(self) -> bool:
        """Whether any client is connected, or a short process works for one that left."""
        return bool(self._sessions) or tasks_at_work()

    @property
    def attended(self) -> bool:
        """Whether a client watches, or asked something a moment ago."""
        return bool(self._watching) or time.monotonic() - self._asked_at < ATTENDED_S

    async def answer(self, request: requests.OperatorRequest, session: Session) -> None:
        """Say the answers to one request. Raises `MissionError`, which the server says as a refusal."""
        self._sessions.add(session)
        self._asked_at = time.monotonic()
        await self._wait_for_fleet(request)
        try:
            with requested_by(session.pid):
                await self._carry_out(request, session)
        except OSError as error:
            # A pipe, a link or a hole where a run's file belongs, or a file that is closed to us.
            raise MissionError(f"{error.filename or self._core.root}: {error.strerror or error}") from error

    async def _wait_for_fleet(self, request: requests.OperatorRequest) -> None:
        """At the start: until every run is known, and no longer than a person waits without wondering.

        Whoever looks is shown then what is known, and how many directories are missing. Raises `MissionError` for who
        wants anything else of a run that is not known yet, or of the machine, of which others may have been promised.
        """
        core = self._core
        if core.reading.whole.is_set() or _names_known(core, request):
            return
        looks = isinstance(
            request,
            requests.Watch
            | requests.GetSnapshot
            | requests.GetEnded
            | requests.GetPage
            | requests.GetTrash
            | requests.Shutdown,
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(core.reading.whole.wait(), LOOK_PATIENCE_S if looks else PATIENCE_S)
        if not core.reading.whole.is_set() and not looks and not _names_known(core, request):
            unread = core.reading.unread
            directories = "directory" if unread == 1 else "directories"
            raise MissionError(f"still reading {unread} run {directories} of {core.root}; ask again in a moment")

    async def _carry_out(self, request: requests.OperatorRequest, session: Session) -> None:
        check_runs_are_ours(self._core, request)
        if isinstance(request, requests.Watch) or (isinstance(request, requests.Quote) and session in self._watching):
            self._core.prepare_launch()
        match request:
            case requests.Watch():
                self._watching.setdefault(session, {})[request.id] = 0
                if request.changes:
                    session.send_changes(request.id)
                self._show(session)
            case requests.Evaluate():
                async with aclosing(evaluate(self._core, request)) as replies:
                    async for reply in replies:
                        if request.render is not None and session not in self._sessions:
                            return
                        session.send(reply)
            case requests.Play():
                session.send(await self._players.play(request, session))
            case requests.StopPlay():
                session.send(self._players.stop(request, session))
            case requests.Check():
                async with aclosing(check(self._core, request)) as steps:
                    async for step in steps:
                        session.send(step)
            case requests.Film():
                await self._while_there(film(self._core, request), session)
            case requests.Bench():
                await self._while_there(bench(self._core, request), session)
            case requests.Tune():
                await self._while_there(tune(self._core, request), session)
            case requests.TuneFleet():
                await self._while_there(tune_fleet(self._core, request), session)
            case _:
                session.send(await self._reply(request))

    async def _while_there(self, steps: AsyncGenerator[OperatorReply], session: Session) -> None:
        """Say the answers of work that ends with its client."""
        async with aclosing(steps):
            async for step in steps:
                if session not in self._sessions:
                    return
                session.send(step)

    def client_left(self, session: Session) -> None:
        """The client hung up."""
        self._sessions.discard(session)
        self._watching.pop(session, None)
        self._players.client_left(session)

    async def push(self) -> None:
        """Send snapshots to the clients that watch, as things change, at most four times a second, for ever."""
        while True:
            await self._core.changed.wait()
            self._core.changed.clear()
            for session in self._watching:
                self._show(session)
            await asyncio.sleep(max(PUSH_S, min(MOST_PUSH_S, len(self._core.live) * PUSH_S_A_RUN)))

    def _show(self, session: Session) -> None:
        """Send the newest snapshot to the session's watches that do not have it yet."""
        watches = self._watching[session]
        for re, shown in watches.items():
            reply = self._snapshot(re)
            if reply.snapshot.revision > shown:
                watches[re] = reply.snapshot.revision
                session.send(reply)

    def _snapshot(self, re: int) -> SnapshotReply:
        self._core.store.observe_unread(self._core.reading.unread)
        return SnapshotReply(re=re, snapshot=self._core.store.snapshot(time.time()))

    async def _ended(self, request: requests.GetEnded) -> EndedReply:
        core = self._core
        page, total = core.store.ended(request.offset, request.limit)
        runs, turns = [], LoopBreaks()
        for view in page:
            runs.append(view_of_waiting(core, view.id) if view.id in core.waiting else core.store.view(view.id))
            await turns.offer()
        return EndedReply(re=request.id, runs=tuple(runs), total=total)

    async def _page(self, request: requests.GetPage) -> PageReply:
        core = self._core
        await core.machine.measure()
        core.store.observe_unread(core.reading.unread)
        header = core.store.header(time.time())
        page, total = core.store.page(request.offset, min(request.limit, requests.MOST_PAGE), request.states)
        runs, turns = [], LoopBreaks()
        for run_id in page:
            runs.append(view_of_waiting(core, run_id) if run_id in core.waiting else core.store.view(run_id))
            await turns.offer()
        return PageReply(re=request.id, snapshot=structs.replace(header, runs=tuple(runs)), total=total)

    async def _reply(self, request: requests.OperatorRequest) -> OperatorReply:
        core = self._core
        match request:
            case requests.Act():
                return await ACTS[request.verb](core, request)
            case requests.Launch():
                return await launch(core, request)
            case requests.Undo():
                return await undo(core, request)
            case requests.Resume():
                return await resume(core, request)
            case requests.Set():
                return await set_(core, request)
            case requests.Clone():
                return await clone(core, request)
            case requests.Adopt():
                return await adopt(core, request)
            case requests.Rename():
                return await rename(core, request)
            case requests.Note():
                return await note(core, request)
            case requests.Label():
                return await label(core, request)
            case requests.Mark():
                return await mark(core, request)
            case requests.Apply():
                return await apply(core, request)
            case requests.Try():
                return await try_(core, request)
            case requests.Clean():
                return await clean(core, request)
            case requests.Remove():
                return await remove(core, request)
            case requests.Restore():
                return await restore(core, request)
            case requests.Prune():
                return await prune(core, request)
            case requests.Export():
                return await export(core, request)
            case requests.ImportCheckpoint():
                return await import_checkpoint(core, request)
            case requests.ImportRun():
                return await import_run(core, request)
            case requests.Shutdown():
                return await shutdown(core, request)
            case requests.GoTo():
                raise UsageError("the supervisor shows the present; `mission-tui replay` shows the past")
            case (
                requests.Hello()
                | requests.Watch()
                | requests.Evaluate()
                | requests.Film()
                | requests.Play()
                | requests.StopPlay()
                | requests.Check()
                | requests.Bench()
                | requests.Tune()
                | requests.TuneFleet()
            ):
                raise ProtocolError(f"{type(request).__name__} has no single answer")
            case _:
                return await self._query(request)

    async def _query(self, request: Look) -> OperatorReply:
        """What changes nothing."""
        core = self._core
        match request:
            case requests.GetSnapshot():
                await core.machine.measure()
                return self._snapshot(request.id)
            case requests.GetEnded():
                return await self._ended(request)
            case requests.GetPage():
                return await self._page(request)
            case requests.GetNamed():
                return NamedReply(re=request.id, runs=named_views(core, request.refs))
            case requests.GetDetails():
                return await details(core, request)
            case requests.GetHistory():
                return await history(core, request)
            case requests.GetStrip():
                return await _strip(core, request)
            case requests.Compare():
                return await compare(core, request)
            case requests.GetSides():
                return await sides(core, request)
            case requests.GetLog():
                return await log(core, request)
            case requests.GetTrash():
                return await in_trash(core, request)
            case requests.GetAdoptable():
                return await adoptable(core, core.seals, request)
            case requests.GetUpgrades():
                return await upgrades(core, request)
            case requests.Quote():
                return await quote(core, request)
            case _:
                assert_never(request)


def _names_known(core: Core, request: requests.OperatorRequest) -> bool:
    """Whether the request names runs, each by its full id, and all of them are known."""
    named = getattr(request, "runs", None) or getattr(request, "refs", None) or (getattr(request, "run", None),)
    return all(isinstance(ref, str) and ref in core.store for ref in named)


async def _strip(core: Core, request: requests.GetStrip) -> StripReply:
    """The tracks between two moments, without runs that did nothing then. A GPU that is not here is only past."""
    gpu = core.machine.gpu

    def visible(run_id: str) -> str | None:
        live = core.live.get(run_id)
        return None if live is None else live.visible_gpus

    here = [sample.uuid for sample in gpu.gpus]
    histories = core.lanes.histories
    tracks = Tracks(gpu.names, gpu.busy, gpu.power, core.machine.host.cpu, histories, here, visible, unix_ahead())
    return StripReply(re=request.id, strip=strip_of(tracks, core.store, request, time.time()))
