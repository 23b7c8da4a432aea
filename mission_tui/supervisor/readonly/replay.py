"""`python -m mission_tui.supervisor.readonly.replay --runs-dir ROOT --fd N --at T` shows a runs root as it was.

It answers one client over the socket that it inherits, goes back and forth to the moments that this client names, and
ends with it. Nothing is looked at but files, taken as they were when the replay was opened: what no file holds, such as
who was alive, is not known. It opens nothing for writing, takes no lock, asks no supervisor and signals nobody.
"""

from __future__ import annotations

import argparse
import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from msgspec import Struct, field, structs

from mission_tui import __version__
from mission_tui.errors import DamagedError, MissionError, UsageError
from mission_tui.fleet.events.journal import (
    AttemptEnded,
    AttemptStarting,
    FleetEvent,
    RunCreated,
    SettingsAsked,
    final_end,
)
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.processes import PhaseSeen, Pids, PidsSeen
from mission_tui.fleet.history.run import POINTS, phase_before
from mission_tui.fleet.store import SNAPSHOT_ENDED, Store
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, HostMeters, Replay, SupervisorInfo
from mission_tui.ipc import requests
from mission_tui.ipc.local_asyncio import asyncio
from mission_tui.ipc.replies import AttemptView, DetailsReply, LogReply, OperatorReply, SnapshotReply, StripReply
from mission_tui.ipc.server import Session, serve_link
from mission_tui.records.jsonl import RecordsUntil, read_newest
from mission_tui.records.runs.attempt import read_exit, read_identity
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.trash import trashed
from mission_tui.supervisor.readonly.details import details
from mission_tui.supervisor.readonly.history import history, log
from mission_tui.supervisor.readonly.meters import PastMeters
from mission_tui.supervisor.readonly.server import ended_page, readable
from mission_tui.supervisor.runs import resolve_run, run_on_disk

ROWS = 2 * POINTS
"""So many rows of a run that was over are taken in: a step that meets two hundred more of them must stay quick."""

MetersAt = Callable[[float], tuple[HostMeters, tuple[GpuMeters, ...]] | None]
"""What the meters showed at a unix time; None where it was not written down."""
WhyNone = Callable[[float], str]
"""Why nothing is known of the meters at a unix time, as a sentence."""


class _PastRun(Struct):
    """A run. It was over from `over_t` on and in the trash from `gone_t` on; `shown` says how much of it the store
    holds now, `events` how many lines.
    """

    id: str
    dir: RunDir
    made: RunCreated
    over: AttemptEnded | None
    over_t: float
    gone_t: float = float("inf")
    shown: str = ""
    events: list[FleetEvent] = field(default_factory=list)
    rows: int = 0
    journal: RecordsUntil | None = None
    metrics: RecordsUntil | None = None


class PastFleet:
    """`store` holds the fleet at the moment that was gone to. `replay` is between which moments there is something."""

    def __init__(
        self, root: Path, meters_at: MetersAt = lambda _t: None, why_none: WhyNone = lambda _t: "no meters"
    ) -> None:
        self._meters_at, self._why_none = meters_at, why_none
        self._nothing = HostMeters(socket.gethostname(), len(os.sched_getaffinity(0)))
        now = time.time()
        self.store = Store(str(root), SupervisorInfo(None, __version__, now), self._nothing)
        self.live: frozenset[str] = frozenset()
        self._runs = {past.id: past for past in (*_in_trash(root), *_in_root(root))}
        self.replay = Replay(min((past.made.t for past in self._runs.values()), default=now), now)
        self.moment = now
        self._revision = 0

    def seek(self, moment: float) -> None:
        """Know what was known at `moment`, or at the end that is nearer to it."""
        self.moment = moment = min(max(moment, self.replay.since), self.replay.until)
        runs = [past for past in self._runs.values() if past.made.t <= moment < past.gone_t]
        for past in self._runs.values():
            if not past.made.t <= moment < past.gone_t:
                self._hide(past)
        over = sorted((past for past in runs if past.over_t <= moment), key=lambda past: past.over_t, reverse=True)
        for place, past in enumerate(over):
            if place < SNAPSHOT_ENDED:
                self._guard(past, partial(self._show_end, past, run_on_disk.SPARKLINE_BYTES))
            elif past.shown != "unloaded":
                self._unload(past)
        for past in runs:
            if past.over_t > moment:
                self._guard(past, partial(self._show_life, past))
        known = self._meters_at(moment)
        host, gpus = known or (structs.replace(self._nothing, gpu_note=self._why_none(moment)), ())
        self.store.observe_machine(host, gpus)
        self._revision += 1

    def snapshot(self) -> FleetSnapshot:
        """The fleet as it was; its revision rises with every going."""
        known = self.store.snapshot(self.moment)
        return structs.replace(known, t=self.moment, revision=self._revision, replay=self.replay)

    def run_dir(self, run_id: str) -> RunDir:
        return self._runs[run_id].dir

    def rows(self, run_id: str) -> list[MetricRecord]:
        """The rows that had been written by the moment. Raises `OSError`."""
        metrics = self._metrics(self._runs[run_id])
        return metrics.read(0, metrics.count_until(self.moment))

    def record_size(self, run_id: str, size_bytes: int) -> None:
        """The bytes of a run are those of now: how many it once had was not written down."""

    def fetch(self, run_id: str) -> None:
        """Know the end of a run that had long been over."""
        past = self._runs.get(run_id)
        if past is not None and past.shown == "unloaded":
            self._guard(past, partial(self._show_end, past, run_on_disk.LAST_BYTES))

    def _guard(self, past: _PastRun, work: Callable[[], None]) -> None:
        """Do `work` on one run; whatever it raises makes that run a damaged row, and costs no other anything."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever lies in a directory costs this one run
            self._begin(past, "damaged")
            for fact in run_on_disk.unreadable_facts(past.dir, run_on_disk.why_unreadable(error)):
                self.store.apply(past.id, fact)

    def _hide(self, past: _PastRun) -> None:
        if past.shown and past.id in self.store:
            self.store.remove_run(past.id)
        past.shown, past.events, past.rows = "", [], 0

    def _unload(self, past: _PastRun) -> None:
        assert past.over is not None
        self._hide(past)
        self.store.add_ended(past.id, str(past.dir.path), past.made, past.over)
        past.shown = "unloaded"

    def _show_end(self, past: _PastRun, newest_bytes: int) -> None:
        """A run that was over: its events and its last rows."""
        journal = self._journal(past)
        if past.shown == "end" and len(past.events) == journal.count_until(self.moment):
            return
        self._begin(past, "end")
        self._apply_events(past)
        if past.over is not None and self.store.run(past.id).journal.outcome is None:
            self.store.apply(past.id, structs.replace(past.over, t=past.over_t))
        with suppress(OSError):
            newest = _newest(read_newest(past.dir.metrics, MetricRecord, newest_bytes))
            self.store.apply_all(past.id, run_on_disk.shown_rows(newest))

    def _show_life(self, past: _PastRun) -> None:
        """A run that was not over: everything up to the moment; from the start again when it was later before."""
        run_id = past.id
        journal, metrics = self._journal(past), self._metrics(past)
        events, rows = journal.count_until(self.moment), metrics.count_until(self.moment)
        if past.shown != "life" or events < len(past.events) or rows < past.rows:
            self._begin(past, "life")
        self._apply_events(past)
        with suppress(OSError):
            for record in metrics.read(past.rows, rows):
                self.store.apply(run_id, record)
            past.rows = rows
            self._infer_phase(past, metrics)
        self._infer_processes(past)

    def _begin(self, past: _PastRun, shown: str) -> None:
        self._hide(past)
        self.store.add_run(past.id, str(past.dir.path), None)
        past.shown = shown

    def _apply_events(self, past: _PastRun) -> None:
        """The lines of its journal that are new at the moment, and the settings that they stand for."""
        journal = self._journal(past)
        with suppress(OSError):
            news = journal.read(len(past.events), journal.count_until(self.moment))
            known = len(past.events)
            past.events += news
            if not known or any(isinstance(event, AttemptStarting | SettingsAsked) for event in news):
                spec = run_on_disk.read_specs(run_on_disk.RunOnDisk(past.dir, past.events, {}))[1]
                if spec is not None:
                    self.store.replace_spec(past.id, spec)
            for event in news:
                self.store.apply(past.id, event)

    def _infer_phase(self, past: _PastRun, metrics: RecordsUntil) -> None:
        """In which phase it was, from the row that this phase led to."""
        following = metrics.read(past.rows, past.rows + 1)
        row = following[0] if following else None
        run = self.store.run(past.id)
        seen = PhaseSeen(None, self.moment)
        if isinstance(row, UpdateDone) and run.metrics.attempt == run.journal.attempt == row.attempt:
            seen = phase_before(row, self.moment)
        self.store.apply(past.id, seen)

    def _infer_processes(self, past: _PastRun) -> None:
        """The processes that its attempt had: a command begins when they are there."""
        run = self.store.run(past.id)
        if run.observed.pids.trainer is not None or run.journal.outcome is not None or not run.journal.attempt:
            return
        with suppress(OSError, DamagedError):
            identity = read_identity(past.dir.attempt(run.journal.attempt).identity)
            if identity is not None:
                self.store.apply(past.id, PidsSeen(Pids(identity.keeper.pid, identity.trainer.pid)))

    def _journal(self, past: _PastRun) -> RecordsUntil:
        if past.journal is None:
            past.journal = RecordsUntil(past.dir.events, FleetEvent)
        return past.journal

    def _metrics(self, past: _PastRun) -> RecordsUntil:
        """Looked through only where a run was not over: of all that ever ended it would take long."""
        if past.metrics is None:
            past.metrics = RecordsUntil(past.dir.metrics, MetricRecord)
        return past.metrics


def _newest(records: list[MetricRecord]) -> list[MetricRecord]:
    """The rows that a list shows of a run, with some that a later attempt may have taken back; and what is no row."""
    updates = sum(isinstance(record, UpdateDone) for record in records)
    behind = count(ROWS - updates)
    return [record for record in records if not isinstance(record, UpdateDone) or next(behind) >= 0]


def _in_root(root: Path) -> Iterator[_PastRun]:
    live, ended = run_on_disk.read_fleet(root)
    for found in (*live, *ended):
        past = _past_of(found.dir.id, found)
        if past is not None and not found.unreadable:
            yield past


def _in_trash(root: Path) -> Iterator[_PastRun]:
    """Runs that were removed since, as long as they are kept: then they were there."""
    with suppress(MissionError):
        for item in trashed(root):
            past = _past_of(item.run, run_on_disk.read_summary(RunDir(item.path))) if item.checkpoint is None else None
            if past is not None:
                past.gone_t = item.t
                yield past


def _past_of(run_id: str, found: run_on_disk.RunOnDisk) -> _PastRun | None:
    """The run, if its journal says when it was made."""
    made = next((event for event in found.events if isinstance(event, RunCreated)), None)
    if made is None:
        return None
    over = final_end(found.events)
    return _PastRun(run_id, found.dir, made, over, _over_t(found.dir, made, over))


def _over_t(run: RunDir, made: RunCreated, over: AttemptEnded | None) -> float:
    """When its last attempt was over: without a supervisor that was long before it was written to the journal."""
    if over is None:
        return float("inf")
    with suppress(OSError, DamagedError):
        ended = read_exit(run.attempt(over.attempt).exit)
        if ended is not None and ended.attempt == over.attempt and made.t <= ended.ended_t:
            return min(over.t, ended.ended_t)
    return over.t


class ReplayServer:
    """Shows one moment at a time; who watches is shown each that is gone to."""

    def __init__(self, root: Path, moment: float) -> None:
        self._root = root
        self._moment = moment
        self._instruments: PastMeters | None = None
        self._runs: PastFleet | None = None
        self._turn = asyncio.Lock()
        self._watching: dict[Session, set[int]] = {}

    async def answer(self, request: requests.OperatorRequest, session: Session) -> None:
        """Say the answer to one request, one after the other. Raises `MissionError` for what is no question here."""
        async with self._turn:
            with readable(self._root):
                runs = await self._opened()
                if isinstance(request, requests.Watch):
                    self._watching.setdefault(session, set()).add(request.id)
                    session.send(SnapshotReply(re=request.id, snapshot=runs.snapshot()))
                    return
                session.send(await self._reply(runs, request))
        if isinstance(request, requests.GoTo):
            for watcher, watches in self._watching.items():
                for re in watches:
                    watcher.send(SnapshotReply(re=re, snapshot=runs.snapshot()))

    def client_left(self, session: Session) -> None:
        """The client hung up."""
        self._watching.pop(session, None)

    async def _opened(self) -> PastFleet:
        """The runs; the first who asks waits until they are read."""
        if self._runs is None:
            instruments = self._instruments = await asyncio.to_thread(PastMeters, self._root)
            runs = await asyncio.to_thread(PastFleet, self._root, instruments.meters_at, instruments.why_none)
            await asyncio.to_thread(runs.seek, self._moment)
            gc.freeze()
            self._runs = runs
        return self._runs

    async def _reply(self, runs: PastFleet, request: requests.OperatorRequest) -> OperatorReply:
        match request:
            case requests.GoTo():
                await asyncio.to_thread(runs.seek, request.t)
                return SnapshotReply(re=request.id, snapshot=runs.snapshot())
            case requests.GetSnapshot():
                return SnapshotReply(re=request.id, snapshot=runs.snapshot())
            case requests.GetDetails():
                return details_at(await details(runs, request), runs.moment)
            case requests.GetHistory():
                return await history(runs, request, runs.rows)
            case requests.GetStrip():
                assert self._instruments is not None
                return StripReply(re=request.id, strip=self._instruments.strip(runs.store, request, runs.moment))
            case requests.GetEnded():
                return ended_page(runs, request)
            case requests.GetLog():
                return await log_at(runs, request)
            case requests.Compare() | requests.GetSides():
                raise UsageError("runs cannot be compared in a replay; H goes back to now, where they can")
            case _:
                raise UsageError("this is a replay: nothing can be changed in it; q leaves it")


async def log_at(runs: PastFleet, request: requests.GetLog) -> LogReply:
    """The log of an attempt that was over by the moment. Raises `UsageError` for another."""
    journal = runs.store.run(resolve_run(runs, request.run)).journal
    attempt = journal.attempt if request.attempt is None else request.attempt
    if attempt > journal.attempt or not journal.attempt:
        raise UsageError(f"{journal.name} had no attempt {max(1, attempt)} yet")
    if attempt == journal.attempt and journal.outcome is None:
        raise UsageError(
            "a replay shows only logs of attempts that had ended, because lines do not say when they were written; "
            "H goes back to now"
        )
    return await log(runs, structs.replace(request, attempt=attempt))


def details_at(reply: DetailsReply, moment: float) -> DetailsReply:
    """What of the details there was at unix time `moment`."""
    return structs.replace(
        reply,
        attempts=tuple(_attempt_at(it, moment) for it in reply.attempts if (it.started_t or 0.0) <= moment),
        checkpoints=tuple(it for it in reply.checkpoints if it.t <= moment),
        evaluations=tuple(it for it in reply.evaluations if float(it.get("t") or 0.0) <= moment),
        audit_log=tuple(it for it in reply.audit_log if it.t <= moment),
    )


def _attempt_at(attempt: AttemptView, moment: float) -> AttemptView:
    if attempt.ended_t is None or attempt.ended_t <= moment:
        return attempt
    return structs.replace(attempt, ended_t=None, outcome=None, cause=None)


async def _serve(root: Path, link: socket.socket, moment: float) -> None:
    server = ReplayServer(root, moment)
    await serve_link(link, root, server.answer, server.client_left)


def main() -> int:
    """Serve until the client hangs up."""
    parser = argparse.ArgumentParser(prog="mission_tui.supervisor.readonly.replay")
    parser.add_argument("--runs-dir", type=Path, required=True)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--at", type=float, required=True)
    given = parser.parse_args()
    asyncio.run(_serve(given.runs_dir, socket.socket(fileno=given.fd), given.at))
    return 0


if __name__ == "__main__":
    sys.exit(main())
