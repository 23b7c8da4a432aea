"""The fleet read from its files, for read-only clients: files are read again as they grow, and never written.

What cannot be read is a run that says so. Where the processes of a run are gone and its end
is not recorded, the outcome is inferred by the supervisor's rules, and dropped as soon as the journal goes on.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import Struct

from mission_tui import __version__
from mission_tui.errors import DamagedError
from mission_tui.fleet.events.journal import AttemptEnded, AttemptStarting, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded
from mission_tui.fleet.events.processes import FlagSeen, ForeignSeen, Pids, PidsSeen, SizeSeen
from mission_tui.fleet.history.classify import classify
from mission_tui.fleet.specs.spec import LAUNCHERS
from mission_tui.fleet.store import Store
from mission_tui.fleet.views.snapshot import SupervisorInfo
from mission_tui.plain_files import open_plain
from mission_tui.procfs import boot_id, read_stat
from mission_tui.records.files.jsonl import Tail
from mission_tui.records.runs.attempt import ProcessIdentity, read_exit, read_handle, read_identity
from mission_tui.records.runs.layout import AttemptDir, RunDir, run_dirs
from mission_tui.records.runs.seal import Seals
from mission_tui.supervisor.host.identity import holds_lease
from mission_tui.supervisor.host.machine import HostSampler
from mission_tui.supervisor.runs import run_on_disk
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
