"""The logs that a command leaves, read as rows: SB3's `progress.csv` and `progress.json`, TensorBoard event files, and
`monitor.csv`; and these rows in `metrics.jsonl`: numbered over all attempts, each whole, and none written twice.
Nothing of SB3 or torch is imported.

Only the command's own files count, and of those that tell of updates one at a time: rows of two would be steps and
losses of two trainings in turn. A run's own files are those that its processes have open for writing, or whose name
says that they write them, and those that were made since it began and that no process of somebody else writes: two
scripts may log into folders of one pattern at the same time.

Steps that begin again within an attempt are counted on; an attempt that begins behind the last one's steps voids its
later rows. Whoever follows the attempt is the file's only writer.
"""

from __future__ import annotations

import ctypes
import glob
import os
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from mission_tui.errors import DamagedError
from mission_tui.fleet.events import metrics as facts
from mission_tui.fleet.events.metrics import UpdateDone, mean_value, spoken
from mission_tui.procfs import Stat, boot_id, own_processes
from mission_tui.records.jsonl import AppendLog, read_all
from mission_tui.records.logs.event_files import event_rows, total_timesteps
from mission_tui.records.logs.log import LogError, TableRow, complete_rows, read_csv, read_json, updates_of
from mission_tui.records.logs.monitors import Ended, read_monitors, sample_of
from mission_tui.records.runs.attempt import read_identity
from mission_tui.records.runs.layout import RunDir

KINDS = ("progress.csv", "progress.json", "tfevents")
MONITOR = "monitor.csv"

_EVENTS_OF = re.compile(r"\.tfevents\.\d+\.(?P<host>.+)\.(?P<pid>\d+)\.\d+(\.v2)?")
"""TensorBoard opens an event file for each write anew, so nobody is seen to hold it; its name says who writes it."""

_AT_FDCWD, _STATX_BTIME = -100, 0x800
_STATX_BYTES, _BTIME_AT = 256, 80
_GENERATIONS = 64
_WRITTEN_S = 1.0
_ALIKE = 3
"""From this row of an event file on each has the tags of the one before."""


@dataclass
class FollowedLogs:
    """Those under the absolute `pattern` that are among the files `own`. What was read so far: how many updates of
    each, and up to which step of the monitors. `say` hears which files are read, when that changes.
    """

    pattern: str
    own: OwnFiles
    open_rows: Callable[[], Rows]
    say: Callable[[Sequence[Path]], None] = lambda _files: None
    source: Path | None = None
    said: tuple[Path, ...] = ()
    opened: bool = False
    found_at: float = 0.0
    over: bool = False
    known: dict[Path, int] = field(default_factory=dict)
    ended: int = 0

    def poll(self, *, over: bool = False) -> None:
        """Write what is new, and once the command is `over` also what it left half written. Raises `LogError`,
        `OSError` and `StorageError`.
        """
        self.over = over
        found = self._found()
        monitors = [path for path in found if path.name.endswith(MONITOR)]
        tables = [path for path in found if path not in monitors]
        episodes = read_monitors(monitors)
        if self.source is None or self.source not in tables:
            # The first kind that is there, and of it the newest; a file that a process of the run has open goes first.
            self.source = min(tables, key=self._rank, default=None)
        if self.source is not None:
            self._updates(self.source, episodes)
            self._go_on(tables, episodes)
        elif episodes:
            self._episodes(episodes)
        files = (*([self.source] if self.source is not None else ()), *monitors)
        if files and files != self.said:
            self.said = files
            self.say(files)

    def _found(self) -> list[Path]:
        """The command's own logs, also those in folders that the pattern matches."""
        paths = [Path(it) for it in glob.glob(self.pattern, recursive=True)]  # noqa: PTH207 - a pattern may be absolute
        inside = [it for path in paths if path.is_dir() for it in path.iterdir()]
        logs = {it for it in (*paths, *inside) if _kind(it) is not None and it.is_file()}
        return sorted(self.own.among(sorted(logs)))

    def _go_on(self, tables: Sequence[Path], episodes: Sequence[Ended]) -> None:
        """Read the trainings after this one. The command writes several files of a training at once, and of several
        trainings one after the other: the next one's was made after the last line of the one before.
        """
        while self.source is not None:
            last_t = self.source.stat().st_mtime
            made = {path: at for path in tables if path not in self.known and (at := made_at(path) or 0.0) > last_t}
            later = {path: at for path, at in made.items() if _has_rows(path)}
            later = {path: at for path, at in later.items() if self.own.was_held(path)} or later
            if not later:
                return
            first = min(later, key=later.__getitem__)
            # What it said since it was read, and before the next one began.
            self._updates(self.source, episodes, whole=True)
            self.source = min((it for it in later if later[it] <= first.stat().st_mtime), key=self._rank)
            self._updates(self.source, episodes)
            self.known.setdefault(self.source, 0)

    def _rank(self, path: Path) -> tuple[bool, int | None, float]:
        return not self.own.was_held(path), _kind(path), -path.stat().st_mtime

    def _updates(self, path: Path, episodes: Sequence[Ended], *, whole: bool = False) -> None:
        written, total = _table(path, whole=whole or self.over)
        updates = updates_of(complete_rows(written))
        if len(updates) <= self.known.get(path, 0):
            return
        rows = self._open()
        if not self.known:
            # Another follower of this attempt was here before.
            self.known[path] = sum(update.timesteps <= self.ended for update in updates) if self.ended else 0
        new = updates[self.known.get(path, 0) :]
        rate = self._rate(new[-1].timesteps - updates[-len(new) - 1].timesteps if len(updates) > len(new) else 0)
        for update in new:
            fresh = [it for it in episodes if it.steps > self.ended]
            said = update if not fresh else structs.replace(update, episodes=sample_of(fresh))
            self._write(rows, said, update.timesteps, update.steps_per_s or rate, total)
            self.known[path] = self.known.get(path, 0) + 1
            self.ended = fresh[-1].steps if fresh else self.ended

    def _episodes(self, episodes: Sequence[Ended]) -> None:
        rows = self._open()
        fresh = [it for it in episodes if it.steps > self.ended]
        if fresh:
            recent = episodes[-MEAN_OF:]
            means = {
                "rollout/ep_rew_mean": spoken(mean_value(it.r for it in recent)),
                "rollout/ep_len_mean": spoken(mean_value(it.length for it in recent)),
            }
            update = UpdateDone(0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, means, sample_of(fresh))
            self._write(rows, update, fresh[-1].steps, self._rate(fresh[-1].steps - self.ended))
            self.ended = fresh[-1].steps

    def _open(self) -> Rows:
        rows = self.open_rows()
        if not self.opened:
            self.opened, self.ended = True, rows.at[1] if rows.begun else 0
        return rows

    def _rate(self, steps: int) -> float:
        """Steps per second since the last look that found any; 0, which is unknown, at the first one."""
        before, self.found_at = self.found_at, time.monotonic()
        return steps / (self.found_at - before) if before else 0.0

    def _write(self, rows: Rows, update: UpdateDone, steps: int, rate: float, total: int | None = None) -> None:
        t = update.t or time.time()
        rows.update(steps, t, (0.0, 0.0), rate, update.metrics, update.episodes, total_timesteps=total)


def _kind(path: Path) -> int | None:
    """How much a log is preferred, 0 most; None for a file that is no log."""
    if path.name.endswith(MONITOR):
        return len(KINDS)
    return next((place for place, word in enumerate(KINDS) if word in path.name), None)


def _has_rows(path: Path) -> bool:
    try:
        return bool(updates_of(complete_rows(_table(path, whole=False)[0])))
    except (LogError, OSError):
        return False


def _table(path: Path, *, whole: bool) -> tuple[list[TableRow], int | None]:
    """The rows of the log at `path`, and how many steps it says there are to be; without a last row that may still be
    written, unless the log is `whole`.
    """
    if "tfevents" in path.name:
        words: dict[str, str] = {}
        rows = list(event_rows(path, [path], words, []))
        return (rows if whole or _ends_whole(rows) else rows[:-1]), total_timesteps(words)
    if not path.stat().st_size:
        return [], None  # SB3 makes it before the first rollout
    rows = list((read_json if path.suffix == ".json" else read_csv)(path, []))
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        # A line without its newline is still being written.
        return (rows if file.read() == b"\n" else rows[:-1]), None


def _ends_whole(rows: Sequence[TableRow]) -> bool:
    """Whether the last row of an event file has the tags of the one before, which are written one after the other.

    Evaluations come with some rows only, and SB3's first row has nothing of an update: the first two need to have had
    time.
    """
    if len(rows) < _ALIKE:
        return not rows or time.time() - rows[-1].t > _WRITTEN_S
    return all(tag in rows[-1].cells for tag in rows[-2].cells if not tag.startswith("eval/"))


class OwnFiles:
    """Those of the attempt whose identity is at `identity`, begun at unix time `since`, that were written since.

    Whose a file is was seen once and stays so: the writer may have closed it by the next look. Only a process of the
    run's own takes it from another.
    """

    def __init__(self, identity: Path | None, since: float) -> None:
        self._identity = identity
        self._since = since
        self._held: set[Path] = set()
        self._of_others: set[Path] = set()
        self._pids: set[int] = set()

    def among(self, paths: Iterable[Path]) -> list[Path]:
        """Those of `paths` that are the run's own, those that its processes held open first."""
        found = {path: path.resolve() for path in paths if path.stat().st_mtime >= self._since}
        ours, others = self._writers(found.values())
        for path, real in found.items():
            if str(real) in ours:
                self._held.add(path)
                self._of_others.discard(path)
            elif str(real) in others and path not in self._held:
                self._of_others.add(path)
        held = [path for path in found if path in self._held]
        free = [path for path in found if path not in self._held and path not in self._of_others]
        return [*held, *filter(self._is_new, free)]

    def was_held(self, path: Path) -> bool:
        """Whether a process of the run was seen to have `path` open."""
        return path in self._held

    def _is_new(self, path: Path) -> bool:
        made_t = made_at(path)
        return made_t is None or made_t >= self._since

    def _writers(self, found: Iterable[Path]) -> tuple[set[str], set[str]]:
        """The paths that the run's processes write, open or by the name of those `found`, and those that others of this
        user write.
        """
        stats = {stat.pid: stat for stat in own_processes()}
        own = self._processes(stats)
        self._pids |= own
        ours: set[str] = set()
        others: set[str] = set()
        for pid in stats:
            (ours if pid in own else others).update(_written_by(pid))
        for path in found:
            writer = _named_writer(path)
            if writer in self._pids:
                ours.add(str(path))
            # A script in a namespace of its own may have the number that a thread of the kernel has here.
            elif own and writer in stats and stats[writer].session:
                others.add(str(path))
        return ours, others

    def _processes(self, stats: Mapping[int, Stat]) -> set[int]:
        """The run's: those in its session, and whatever they started."""
        try:
            identity = None if self._identity is None else read_identity(self._identity)
        except (DamagedError, OSError):
            identity = None
        if identity is None or identity.boot_id != boot_id():
            return set()
        known = (identity.keeper, identity.trainer)
        roots = {it.pid for it in known if it.pid in stats and stats[it.pid].start_time == it.start_time}
        roots |= {pid for pid, stat in stats.items() if stat.session == identity.session}
        return {pid for pid in stats if not roots.isdisjoint(_line_of(pid, stats))}


def _named_writer(path: Path) -> int | None:
    """Which process of this machine writes the event file at `path`, by its name; None where that does not say."""
    found = _EVENTS_OF.search(path.name)
    return int(found["pid"]) if found and found["host"] == socket.gethostname() else None


def made_at(path: Path) -> float | None:
    """When the file at `path` was made, in unix seconds; None where the file system or the C library cannot tell."""
    answer = ctypes.create_string_buffer(_STATX_BYTES)
    try:
        failed = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, answer)
    except AttributeError:
        return None
    if failed or not int.from_bytes(answer.raw[:4], "little") & _STATX_BTIME:
        return None
    seconds, nanoseconds = (answer.raw[_BTIME_AT : _BTIME_AT + 8], answer.raw[_BTIME_AT + 8 : _BTIME_AT + 12])
    return int.from_bytes(seconds, "little", signed=True) + int.from_bytes(nanoseconds, "little") / 1e9


def _line_of(pid: int, stats: Mapping[int, Stat]) -> Iterator[int]:
    """`pid` and those above it."""
    for _ in range(_GENERATIONS):
        yield pid
        if pid not in stats:
            return
        pid = stats[pid].parent


def _written_by(pid: int) -> Iterator[str]:
    """The paths that `pid` has open for writing: who only reads a log, as TensorBoard does, is not its owner."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - half the price
    except OSError:
        return
    for descriptor in descriptors:
        try:
            path = os.readlink(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH115 - half the price
            if path.startswith("/") and not path.startswith("/dev/") and _writes(pid, descriptor):
                yield path
        except OSError:
            continue


def _writes(pid: int, descriptor: str) -> bool:
    for line in Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False


MEAN_OF = 100
"""Episodes that a mean is over, as in SB3."""

_MOST_STEPS = 2**53
_SYNC_EVERY_S = 1.0
_SHORTEST_S = 0.01
"""Steps of less time than this make no speed."""


class Rows:
    """The writing end for one attempt. `seq` is the last row's, `at` the update and the steps where the run stands."""

    def __init__(self, run_dir: RunDir, attempt: int) -> None:
        """Go on behind what is in the file; nothing is written yet. Raises `StorageError`."""
        self._attempt = attempt
        self._offset = self._passed = 0
        self._log = AppendLog(run_dir.metrics, sync_every_s=_SYNC_EVERY_S)
        records, _ = read_all(run_dir.metrics, facts.MetricRecord)
        self.begun = bool(records) and records[-1].attempt == attempt
        self._before = _standing(records)
        for row in records:
            if isinstance(row, facts.TrainingStarted):
                self._passed = row.from_timesteps
        self.written = {
            row.t for row in records if row.attempt == attempt and not isinstance(row, facts.TrainingStarted)
        }
        """When those were said that were in the file before."""

    @property
    def seq(self) -> int:
        return self._log.last_seq

    @property
    def at(self) -> tuple[int, int]:
        return self._before[-1][:2]

    def start(self, t: float) -> None:
        """The script is there, at unix time `t`: of the first attempt that is its beginning. Raises `StorageError`."""
        if len(self._before) == 1:
            self._begin(0, t)

    def update(
        self,
        timesteps: int | None,
        t: float,
        seconds: tuple[float, float],
        steps_per_s: float | None,
        metrics: Mapping[str, facts.Metric],
        episodes: facts.Episodes,
        took_s: float = 0.0,
        total_timesteps: int | None = None,
    ) -> None:
        """One update ended at unix time `t`; `seconds` of its rollout and of its learning, 0 where not known.

        `total_timesteps` are those that the script means to reach, counted as it counts `timesteps`.
        `took_s` is all that has passed since the one before, 0 where not known: the seconds of training follow from it,
        and `steps_per_s` where it is None. Raises `StorageError`, and may be called again then.
        """
        self._begin(timesteps, t)
        number, last = self.at
        if timesteps is not None and timesteps + self._offset < last:
            self._offset = last  # the script counts anew, the run goes on
        steps = last if timesteps is None else timesteps + self._offset
        if steps_per_s is None:
            steps_per_s = (steps - last) / took_s if took_s > _SHORTEST_S else 0.0
        at, said, trained_s = (number + 1, steps), dict(metrics), self._before[-1][2] + max(took_s, sum(seconds))
        total = None if total_timesteps is None else min(_MOST_STEPS, total_timesteps + self._offset)
        self._log.append(
            lambda seq: facts.UpdateDone(
                seq,
                self._attempt,
                *at,
                t,
                *seconds,
                steps_per_s,
                metrics=said,
                episodes=episodes,
                total_timesteps=total,
                trained_s=trained_s if took_s > 0.0 else None,
            )
        )
        self._before[1:] = [(*at, trained_s)]  # of the same attempt nothing is taken back

    def skip_update(self, timesteps: int | None) -> None:
        """An update of `timesteps` is in the file already: whether the script counted anew shows by those alone."""
        if timesteps is not None:
            if timesteps + self._offset < self._passed:
                self._offset = self._passed
            self._passed = timesteps + self._offset

    def checkpoint(self, path: str, t: float) -> None:
        """The script saved `path`. Raises `StorageError`, and may be called again then."""
        self._begin(None, t)
        self._log.append(lambda seq: facts.CheckpointSaved(seq, self._attempt, *self.at, t, path, "reported"))

    def close(self) -> None:
        """Make everything durable. Raises `StorageError`; closed it is all the same."""
        self._log.close()

    def _begin(self, timesteps: int | None, t: float) -> None:
        """The attempt goes on behind the last update with fewer steps: where its checkpoint was, or from nothing."""
        if self.begun:
            return
        before = list(self._before)
        while timesteps is not None and len(before) > 1 and before[-1][1] >= timesteps:
            before.pop()
        update, steps, _ = before[-1]
        self._log.append(
            lambda seq: facts.TrainingStarted(seq, self._attempt, t, from_update=update, from_timesteps=steps)
        )
        self._before, self.begun = before, True


def _standing(records: list[facts.MetricRecord]) -> list[tuple[int, int, float]]:
    """Update, steps and seconds of training of every row that no later attempt took back, behind zeros."""
    before = [(0, 0, 0.0)]
    for row in records:
        while isinstance(row, facts.TrainingStarted) and before[-1][0] > row.from_update:
            before.pop()
        if isinstance(row, facts.UpdateDone):
            phases_s = row.rollout_s + row.update_s
            trained_s = before[-1][2] + phases_s if row.trained_s is None else row.trained_s
            before.append((row.update, row.timesteps, trained_s))
    return before
