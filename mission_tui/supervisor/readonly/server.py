"""`python -m mission_tui.supervisor.readonly.server --runs-dir ROOT --fd N` shows the runs of a runs root from its
files: the fleet is read again as they grow, and they are never written.

It answers one client over the socket that it inherits, and ends with it. It opens nothing for writing, takes no lock,
asks no supervisor and signals nobody; so it may show what belongs to another user, as far as that may be read.

What cannot be read is a run that says so. Where the processes of a run are gone and its end is not recorded, the
outcome is inferred by the supervisor's rules, and dropped as soon as the journal goes on.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from mission_tui import __version__
from mission_tui.control_groups import usable_cores
from mission_tui.errors import DamagedError, MissionError, UsageError
from mission_tui.fleet.capacity.demand import estimated_cost
from mission_tui.fleet.capacity.reference_runs import Peaks
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded
from mission_tui.fleet.events.processes import FlagSeen, ForeignSeen, Pids, PidsSeen, SizeSeen
from mission_tui.fleet.history.classify import classify
from mission_tui.fleet.history.run import RunHistory
from mission_tui.fleet.specs.consistency import cautions, default_threads
from mission_tui.fleet.specs.spec import LAUNCHERS
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import RunView, SupervisorInfo
from mission_tui.gpu_driver import has_gpu
from mission_tui.ipc import requests
from mission_tui.ipc.local_asyncio import asyncio
from mission_tui.ipc.replies import EndedReply, NamedReply, OperatorReply, PageReply, Quoted, SnapshotReply, StripReply
from mission_tui.ipc.server import Session, serve_link
from mission_tui.ipc.start import live_roots
from mission_tui.plain_files import open_plain
from mission_tui.procfs import boot_id, read_stat
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.attempt import ProcessIdentity, read_exit, read_handle, read_identity
from mission_tui.records.runs.layout import AttemptDir, RunDir, run_dirs
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.host.identity import holds_lease
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.readonly.details import adoptable, details
from mission_tui.supervisor.readonly.history import compare, estimate_paces, history, log, sides, strip_of
from mission_tui.supervisor.readonly.meters import ReadonlyMeters
from mission_tui.supervisor.runs import RunCatalog, named_views, run_on_disk
from mission_tui.supervisor.runs.run_on_disk import applying, finish, taking_in, taking_one

GONE_S = 5.0
"""How long a supervisor may take to write down that an attempt ended."""
ENDED_LOOKS = 5
READ_S = 20.0
"""How long one run may be read before it is given up."""
GPU_NOTE = "no GPU meters: the runs are read from their files"


class _FollowedRun(Struct):
    """A run of which every line is read. `gone_at`: when (monotonic) none of its processes was found any more."""

    dir: RunDir
    events: Tail
    metrics: Tail
    end: TrainingEnded | None = None
    gone_at: float | None = None
    inferred: bool = False


class ReadonlyFleet:
    """`store` is what is known; `poll` brings it up to date. `live` are those whose files are followed.

    Of those that are `waiting` name and end are known alone. `unread` directories are still to be read.
    """

    most_s = READ_S

    def __init__(self, root: Path, seals: Seals | None = None) -> None:
        self._root = root
        self._seals = seals
        self._host = HostSampler(root)
        info = SupervisorInfo(pid=None, version=__version__, started_t=time.time())
        self.store = Store(str(root), info, self._host.sample(GPU_NOTE))
        self.live: dict[str, _FollowedRun] = {}
        self.unread = 0
        self.waiting: dict[str, None] = {}
        self._changed_at: dict[str, int] = {}
        self._listed_at = -1
        self._own = False
        self._looks = 0
        self._boot = boot_id()
        with suppress(OSError):
            self._own = root.stat().st_uid == os.getuid()

    def run_dir(self, run_id: str) -> RunDir:
        return RunDir(self._root / run_id)

    def record_size(self, run_id: str, size_bytes: int) -> None:
        """Take in that the run's files have so many bytes now."""
        if run_id in self.store:
            self.store.apply(run_id, SizeSeen(size_bytes))

    def fetch(self, run_id: str) -> None:
        """Know the whole of an ended run of which only the end was read."""
        if run_id in self.waiting:
            del self.waiting[run_id]
            found = run_on_disk.RunOnDisk(self.run_dir(run_id), [], {}, whole=False)
            self._guard(found.dir, lambda: finish(self.loading(found, run_on_disk.LAST_BYTES)))

    def poll(self) -> None:
        """Read what is new. A runs root that cannot be listed any more stays as it was."""
        with suppress(OSError):
            listed_at = self._root.stat().st_mtime_ns
            if self._listed_at < 0:
                for _ in self.taking_in():
                    pass
            elif listed_at != self._listed_at:
                self._list()
                self._listed_at = listed_at
        for seen in list(self.live.values()):
            self._guard(seen.dir, partial(self._follow, seen))
        if self._looks % ENDED_LOOKS == 0:
            self._poll_ended()
        self._looks += 1
        self.store.observe_machine(self._host.sample(GPU_NOTE), ())

    def taking_in(self) -> Iterator[None]:
        """Know every run, in steps of some milliseconds: those of which little is to be read first. Raises `OSError`.

        A run that takes too long is a row that says so; the first reading of one that lives is one step.
        """
        listed_at = self._root.stat().st_mtime_ns
        runs = list(run_dirs(self._root))
        self.unread = len(runs)
        yield from taking_in(self, runs)
        self._listed_at = listed_at

    def _list(self) -> None:
        there = {run.id: run for run in run_dirs(self._root)}
        known = set(self.store.run_ids())
        for run_id in known - there.keys():
            self._forget(run_id)
        for run_id in sorted(there.keys() - known):
            self._take(there[run_id])

    def _forget(self, run_id: str) -> None:
        if run_id in self.store:
            self.store.remove_run(run_id)
        self.live.pop(run_id, None)
        self.waiting.pop(run_id, None)
        self._changed_at.pop(run_id, None)

    def _poll_ended(self) -> None:
        """One that ended may go on."""
        for run_id, before in list(self._changed_at.items()):
            changed = _changed_at(self.run_dir(run_id))
            if changed != before:
                self._forget(run_id)
                self._take(self.run_dir(run_id))

    def _guard(self, run: RunDir, work: Callable[[], None]) -> None:
        """Do `work` on one run; whatever it raises makes that run a damaged row, and costs no other anything."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever lies in a directory costs this one run
            self.show_damaged(run, run_on_disk.why_unreadable(error), error)

    def _take(self, run: RunDir) -> None:
        finish(taking_one(self, run))

    def directory_read(self) -> None:
        """One more of the directories is known."""
        self.unread = max(0, self.unread - 1)

    def adopting(self, found: run_on_disk.RunOnDisk) -> Iterator[None]:
        """A run that has not ended: its files are followed."""
        if found.unreadable or (not found.events and found.damage):
            self._unreadable(found.dir, found.unreadable or "; ".join(found.damage.values()))
        elif self._foreign(found):
            yield from self.loading(found, run_on_disk.SPARKLINE_BYTES)
        else:
            run = found.dir
            self.store.add_run(run.id, str(run.path), run_on_disk.read_specs(found)[1])
            seen = _FollowedRun(run, Tail(run.events, FleetEvent), Tail(run.metrics, MetricRecord))
            self.live[run.id] = seen
            self._follow(seen)

    def loading(self, found: run_on_disk.RunOnDisk, newest_bytes: int) -> Iterator[None]:
        """An ended run: its events and its last rows."""
        found = found if found.whole else (yield from run_on_disk.reading_run(found.dir))
        if found.unreadable:
            self._unreadable(found.dir, found.unreadable)
            return
        run_id = found.dir.id
        self._changed_at[run_id] = _changed_at(found.dir)
        self.store.add_run(run_id, str(found.dir.path), run_on_disk.read_specs(found)[1])
        yield from applying(self.store, run_id, found.events)
        run_on_disk.show_end(self.store, run_id, run_on_disk.last_rows(found, newest_bytes))
        if found.damage:
            self.store.apply(run_id, FlagSeen("damaged", raised=True))
        if why := self._foreign(found):
            self.store.apply(run_id, ForeignSeen(why))

    def show_damaged(self, run: RunDir, why: str, error: Exception | None = None) -> None:
        """A run that cannot be read says why. Nothing is logged: what this process prints, its client would show."""
        self._forget(run.id)
        self._unreadable(run, why)

    def _foreign(self, found: run_on_disk.RunOnDisk) -> str:
        """Why the run was not launched here; empty in another user's root, whose runs are all his."""
        if self._seals is None or not self._own:
            return ""
        return self._seals.check(found.dir, run_on_disk.newest_attempt(found)).foreign

    def _unreadable(self, run: RunDir, why: str) -> None:
        """A run of which only the name is known says why, as one that is lost."""
        self._changed_at[run.id] = _changed_at(run)
        self.store.add_run(run.id, str(run.path), None)
        for fact in run_on_disk.unreadable_facts(run, why):
            self.store.apply(run.id, fact)

    def _follow(self, seen: _FollowedRun) -> None:
        """Read on; from the start again when what was supposed of it turns out otherwise."""
        run_id = seen.dir.id
        try:
            events, records = seen.events.read(), seen.metrics.read()
        except OSError:
            self.store.apply(run_id, FlagSeen("damaged", raised=True))
            return
        if seen.inferred and events:
            self._forget(run_id)
            self._take(seen.dir)
            return
        for fact in (*events, *records):
            self.store.apply(run_id, fact)
        ends = [record for record in records if isinstance(record, TrainingEnded)]
        seen.end = ends[-1] if ends else seen.end
        if seen.events.damage or seen.metrics.damage:
            self.store.apply(run_id, FlagSeen("damaged", raised=True))
        journal = self.store.run(run_id).journal
        if any(isinstance(event, AttemptStarting) for event in events):
            seen.end, seen.gone_at = None, None
        if journal.outcome is not None and not seen.inferred:
            # Its rows are all here; from now on only its journal can have news.
            del self.live[run_id]
            self._changed_at[run_id] = _changed_at(seen.dir)
        elif journal.attempt and not seen.inferred:
            self._poll_processes(seen, journal.attempt)

    def _poll_processes(self, seen: _FollowedRun, attempt: int) -> None:
        """Which processes of the attempt live; when none has for a while, how it must have ended."""
        folder = seen.dir.attempt(attempt)
        try:
            identity = read_identity(folder.identity)
        except (DamagedError, OSError):
            return
        if identity is None:
            return
        elsewhere = identity.boot_id != self._boot
        self.store.apply(seen.dir.id, FlagSeen("unverifiable", raised=elsewhere and not _has_engine(folder)))
        if elsewhere:
            return
        keeper, trainer = _living(identity.keeper), _living(identity.trainer)
        # In a copy the files of the original name its processes, which hold another lease.
        if keeper is not None and holds_lease(keeper, seen.dir) is False:
            keeper = None
        if keeper is None and trainer is not None and holds_lease(trainer, seen.dir) is False:
            trainer = None
        self.store.apply(seen.dir.id, PidsSeen(Pids(keeper, trainer)))
        if keeper is not None or trainer is not None:
            seen.gone_at = None
        elif seen.gone_at is None:
            seen.gone_at = time.monotonic()
        elif time.monotonic() - seen.gone_at > GONE_S:
            held = _is_held(seen.dir)
            self.store.apply(seen.dir.id, FlagSeen("out-of-sight", raised=held))
            if not held:
                self._suppose(seen, attempt)

    def _suppose(self, seen: _FollowedRun, attempt: int) -> None:
        run_id, known = seen.dir.id, self.store.run(seen.dir.id)
        try:
            ended = read_exit(seen.dir.attempt(attempt).exit)
        except (DamagedError, OSError):
            ended = None
        row, spec = known.metrics.row, known.spec
        end = seen.end if seen.end is not None and seen.end.attempt == attempt else None
        by_exit = spec is not None and spec.run.command is not None
        asked = known.journal.asked_or_stopped
        outcome = classify(end, run_on_disk.exit_facts(ended), asked, known.metrics.checkpoint, by_exit=by_exit)
        last_t = ended.ended_t if ended is not None else row.t if row is not None else time.time()
        seen.inferred = True
        self.store.apply(run_id, AttemptEnded(known.journal.seq + 1, last_t, attempt, outcome))


def _has_engine(folder: AttemptDir) -> bool:
    """Whether another launcher than this machine's has the attempt: processes of another boot are then no riddle."""
    with suppress(DamagedError, OSError):
        handle = read_handle(folder.handle)
        return handle is not None and handle.launcher != LAUNCHERS[0]
    return False


def _living(recorded: ProcessIdentity) -> int | None:
    with suppress(OSError, ValueError):
        stat = read_stat(recorded.pid)
        if stat is not None and stat.start_time == recorded.start_time and stat.state not in "ZX":
            return recorded.pid
    return None


def _is_held(run: RunDir) -> bool:
    """Whether a process, perhaps in another container, holds its lease; false where that file may not be read."""
    try:
        descriptor = open_plain(run.lease)[0]
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return False


def _changed_at(run: RunDir) -> int:
    """When its journal or its rows were last written, in nanoseconds; -1 when that cannot be seen."""
    newest = -1
    for path in (run.events, run.metrics):
        with suppress(OSError):
            newest = max(newest, path.stat().st_mtime_ns)
    return newest


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
