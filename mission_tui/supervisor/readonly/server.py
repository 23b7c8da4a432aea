"""`python -m mission_tui.supervisor.readonly.server --runs-dir ROOT --fd N` shows the runs of a runs root from its
files.

It answers one client over the socket that it inherits, and ends with it. It opens nothing for writing, takes no lock,
asks no supervisor and signals nobody; so it may show what belongs to another user, as far as that may be read.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import structs

from mission_tui.control_groups import usable_cores
from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.capacity.demand import estimated_cost
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.consistency import cautions, default_threads
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.gpu_driver import has_gpu
from mission_tui.ipc import requests
from mission_tui.ipc.local_asyncio import asyncio
from mission_tui.ipc.replies import EndedReply, NamedReply, OperatorReply, PageReply, Quoted, SnapshotReply, StripReply
from mission_tui.ipc.server import Session, serve_link
from mission_tui.ipc.start import live_roots
from mission_tui.plain_files import open_plain
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.queries.details import adoptable, details
from mission_tui.supervisor.queries.history import compare, estimate_paces, history, log, sides, strip_of
from mission_tui.supervisor.readonly.fleet import ReadonlyFleet
from mission_tui.supervisor.readonly.meters import ReadonlyMeters
from mission_tui.supervisor.runs import RunCatalog, named_views

LOOK_S = 1.0
SLICE_S = 0.015
"""How long the first reading keeps the loop before a client has its turn."""

LOOK_PATIENCE_S = 0.75
"""How long a client that asks for the fleet waits for runs that are still being read."""


class ReadonlyServer:
    """Looks once a second, and shows what changed to its client."""

    def __init__(self, root: Path) -> None:
        self._seals = _seals()
        self._runs = ReadonlyFleet(root, self._seals)
        self._instruments = ReadonlyMeters(root)
        self._root = root
        self._ready = asyncio.Event()
        self._watching: dict[Session, dict[int, int]] = {}

    async def poll_forever(self) -> None:
        """Look for ever. The first look may take long; who asks meanwhile is shown what is known."""
        rested_at = time.monotonic()
        with suppress(OSError):
            for _ in self._runs.taking_in():
                if time.monotonic() - rested_at > SLICE_S:
                    await asyncio.sleep(0)
                    rested_at = time.monotonic()
        self._runs.poll()
        gc.freeze()
        self._ready.set()
        while True:
            self._runs.store.observe_surroundings(elsewhere=await asyncio.to_thread(live_roots))
            for session, watches in self._watching.items():
                self._show(session, watches)
            await asyncio.sleep(LOOK_S)
            self._runs.poll()

    async def answer(self, request: requests.OperatorRequest, session: Session) -> None:
        """Say the answer to one request. Raises `MissionError` for what is no question, or cannot be read."""
        await self._wait_for_runs(request)
        if isinstance(request, requests.Watch):
            watches = self._watching.setdefault(session, {})
            watches[request.id] = 0
            if request.changes:
                session.send_changes(request.id)
            self._show(session, watches)
            return
        with readable(self._root):
            session.send(await self._reply(request))

    async def _wait_for_runs(self, request: requests.OperatorRequest) -> None:
        """Until every run is known, or those that the request names; a snapshot waits no longer than a moment.

        It is not refused meanwhile: this process ends with its client, and the next one would begin anew.
        """
        if isinstance(request, requests.Watch | requests.GetSnapshot | requests.GetEnded | requests.GetPage):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), LOOK_PATIENCE_S)
            return
        refs = getattr(request, "runs", None) or getattr(request, "refs", None) or (getattr(request, "run", None),)
        while not self._ready.is_set() and not all(map(self._is_known, refs)):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ready.wait(), LOOK_PATIENCE_S)

    def _is_known(self, ref: str | None) -> bool:
        try:
            return ref is not None and len(self._runs.store.resolve(ref)) == 1
        except UsageError:
            return False

    def client_left(self, session: Session) -> None:
        """The client hung up."""
        self._watching.pop(session, None)

    async def _reply(self, request: requests.OperatorRequest) -> OperatorReply:
        runs = self._runs
        match request:
            case requests.GetSnapshot():
                return self._snapshot(request.id)
            case requests.GetDetails():
                return await details(runs, request)
            case requests.GetHistory():
                return await history(runs, request)
            case requests.GetStrip():
                tracks = await asyncio.to_thread(self._instruments.tracks)
                return StripReply(re=request.id, strip=strip_of(tracks, runs.store, request, time.time()))
            case requests.GetLog():
                return await log(runs, request)
            case requests.Compare():
                return await compare(runs, request)
            case requests.GetSides():
                return await sides(runs, request)
            case requests.GetEnded():
                return ended_page(runs, request)
            case requests.GetPage():
                page, total = runs.store.page(request.offset, min(request.limit, requests.MOST_PAGE), request.states)
                for run_id in page:
                    runs.fetch(run_id)
                runs.store.observe_unread(runs.unread)
                header = runs.store.header(time.time())
                views = tuple(runs.store.view(run_id) for run_id in page)
                return PageReply(re=request.id, snapshot=structs.replace(header, runs=views), total=total)
            case requests.GetNamed():
                return NamedReply(re=request.id, runs=_legible(named_views(runs, request.refs)))
            case requests.GetAdoptable():
                return await adoptable(runs, self._seals, request)
            case requests.Quote():
                return await asyncio.to_thread(quote_from_files, runs, request)
            case _:
                raise UsageError(f"{self._root} is shown read-only, from its files: nothing can be changed there")

    def _show(self, session: Session, watches: dict[int, int]) -> None:
        for re, shown in watches.items():
            reply = self._snapshot(re)
            if reply.snapshot.revision > shown:
                watches[re] = reply.snapshot.revision
                session.send(reply)

    def _snapshot(self, re: int) -> SnapshotReply:
        self._runs.store.observe_unread(self._runs.unread)
        return SnapshotReply(re=re, snapshot=self._runs.store.snapshot(time.time()))


def _legible(views: tuple[RunView, ...]) -> tuple[RunView, ...]:
    """`views`, once each journal could be opened: a run that is closed to this user is neither waited for nor compared.

    Raises `OSError`.
    """
    for view in views:
        os.close(open_plain(RunDir(Path(view.run_dir)).events)[0])
    return views


def ended_page(runs: RunCatalog, request: requests.GetEnded) -> EndedReply:
    """A page of ended runs, each known as a whole."""
    for view in runs.store.ended(request.offset, request.limit)[0]:
        runs.fetch(view.id)
    views, total = runs.store.ended(request.offset, request.limit)
    return EndedReply(re=request.id, runs=views, total=total)


@contextmanager
def readable(root: Path) -> Iterator[None]:
    """Raise `MissionError` for what of the runs root cannot be read within, in a sentence."""
    try:
        yield
    except OSError as error:
        raise MissionError(f"{error.filename or root} cannot be read: {error.strerror or error}") from error


def _seals() -> Seals:
    """This user's secret, where there is one that can be used: a reader makes none."""
    try:
        return Seals.of(os.environ, make=False)
    except MissionError:
        return Seals(None)


async def _serve(root: Path, link: socket.socket) -> None:
    server = ReadonlyServer(root)
    looking = asyncio.create_task(server.poll_forever())
    serving = asyncio.create_task(serve_link(link, root, server.answer, server.client_left))
    await asyncio.wait({looking, serving}, return_when=asyncio.FIRST_COMPLETED)
    for task in (looking, serving):
        task.cancel()


def main() -> int:
    """Serve until the client hangs up."""
    parser = argparse.ArgumentParser(prog="mission_tui.supervisor.readonly.server")
    parser.add_argument("--runs-dir", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(_serve(given.runs_dir, socket.socket(fileno=given.fd)))
    return 0


def quote_from_files(runs: ReadonlyFleet, request: requests.Quote) -> Quoted:
    """The costs of every item; it is not `decided` whether any of them would begin, or be refused."""
    peaks, driver = Peaks(), has_gpu()
    for run in _ended(runs):
        if run.journal.peak is not None and run.spec is not None:
            peaks.add(run.spec, run.journal.peak, run.journal.ended_t or 0.0)
    cores = usable_cores()
    specs = [item.spec for item in request.items]
    costs = tuple(
        estimated_cost(spec, cores, peaks.of(spec), pace, driver=driver)
        for spec, pace in zip(specs, estimate_paces(runs, specs), strict=True)
    )
    warnings = [f"{spec.preset}: {caution}" for spec in specs for caution in cautions(spec)]
    warnings += default_threads(specs, request.environ, cores, round(os.getloadavg()[0]))
    return Quoted(re=request.id, costs=costs, decided=False, warnings=tuple(dict.fromkeys(warnings)))


def _ended(runs: ReadonlyFleet) -> Iterator[RunHistory]:
    """Those of which more than the end was read."""
    return (runs.store.run(run_id) for run_id in runs.store.run_ids() if run_id not in runs.waiting)


if __name__ == "__main__":
    sys.exit(main())
