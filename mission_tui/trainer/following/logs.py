"""The logs that a command leaves, read as rows: SB3's `progress.csv` and `progress.json`, TensorBoard event files, and
`monitor.csv`. Only the command's own files count, and of those that tell of updates one at a time: rows of two would
be steps and losses of two trainings in turn. Nothing of SB3 or torch is imported.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from mission_tui.fleet.events.metrics import UpdateDone, mean_value, spoken
from mission_tui.records.logs import LogError, TableRow
from mission_tui.records.logs.event_files import event_rows
from mission_tui.records.logs.sb3_files import Ended, read_csv, read_json, read_monitors, sample_of
from mission_tui.records.logs.table import complete_rows, updates_of
from mission_tui.trainer.following.own_files import OwnFiles, made_at
from mission_tui.trainer.following.rows import MEAN_OF, Rows

KINDS = ("progress.csv", "progress.json", "tfevents")
MONITOR = "monitor.csv"


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
    known: dict[Path, int] = field(default_factory=dict)
    ended: int = 0

    def poll(self) -> None:
        """Write what is new. Raises `LogError`, `OSError` and `StorageError`."""
        found = self._found()
        monitors = [path for path in found if path.name.endswith(MONITOR)]
        self._choose([path for path in found if path not in monitors])
        episodes = read_monitors(monitors)
        if self.source is not None:
            self._updates(self.source, episodes)
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

    def _choose(self, tables: Sequence[Path]) -> None:
        """One file that tells of updates: the command writes several of a training at once, and of several trainings
        one after the other. The next is taken when it was made after the last line of the one before.
        """
        if self.source is None or self.source not in tables:
            # The first kind that is there, and of it the newest; a file that a process of the run has open goes first.
            self.source = min(tables, key=self._rank, default=None)
            return
        last_t = self.source.stat().st_mtime
        later = [path for path in tables if path not in self.known and (made_at(path) or 0.0) > last_t]
        self.source = min(filter(_has_rows, later), key=self._rank, default=self.source)

    def _rank(self, path: Path) -> tuple[bool, int | None, float]:
        return not self.own.was_held(path), _kind(path), -path.stat().st_mtime

    def _updates(self, path: Path, episodes: Sequence[Ended]) -> None:
        updates = updates_of(complete_rows(_table(path)))
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
            self._write(rows, said, update.timesteps, update.steps_per_s or rate)
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

    def _write(self, rows: Rows, update: UpdateDone, steps: int, rate: float) -> None:
        rows.update(steps, update.t or time.time(), (0.0, 0.0), rate, update.metrics, update.episodes)


def _kind(path: Path) -> int | None:
    """How much a log is preferred, 0 most; None for a file that is no log."""
    if path.name.endswith(MONITOR):
        return len(KINDS)
    return next((place for place, word in enumerate(KINDS) if word in path.name), None)


def _has_rows(path: Path) -> bool:
    try:
        return bool(updates_of(complete_rows(_table(path))))
    except (LogError, OSError):
        return False


def _table(path: Path) -> list[TableRow]:
    if "tfevents" in path.name:
        return list(event_rows(path, [path], {}))
    rows = list((read_json if path.suffix == ".json" else read_csv)(path, []))
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        # A line without its newline is still being written.
        return rows if file.read() == b"\n" else rows[:-1]
