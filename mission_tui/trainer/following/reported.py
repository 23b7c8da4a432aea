"""What a script says by `mission_tui.report`: read from `attempts/N/reported.jsonl`, written as rows, told to whoever
watches.

Each line counts once, also after another reader was here. A line that is none is passed over.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from mission_tui.fleet.events.metrics import Episodes, Metric, mean_value, spoken
from mission_tui.fleet.events.outcome import PHASES, Phase
from mission_tui.ipc.telemetry_messages import PhaseEntered, RowsWritten, TelemetryMessage
from mission_tui.plain_files import open_plain
from mission_tui.procfs import read_stat
from mission_tui.trainer.following.rows import MEAN_OF, Rows

READ_BYTES = 1 << 20
FAMILY = "train/"
DIVIDED: tuple[Phase, Phase] = ("rollout", "update")


class ProcessReported(Struct, tag="process", tag_field="say"):
    """A process of the run begins to report."""

    t: float
    pid: int


class PhaseReported(Struct, tag="phase", tag_field="say"):
    """What begins now, in the script's word."""

    t: float
    phase: str


class UpdateReported(Struct, tag="update", tag_field="say"):
    """One update: the newest of the episodes that ended in it as pairs of return and steps, and where its time went."""

    t: float
    timesteps: int | None = None
    total_timesteps: int | None = None
    metrics: dict[str, Metric] = {}
    n: int = 0
    ended: tuple[tuple[Metric, int], ...] = ()
    outcomes: dict[str, int] = {}
    spent_s: dict[str, float] = {}
    took_s: float = 0.0
    phase: str = ""


class CheckpointReported(Struct, tag="checkpoint", tag_field="say"):
    """The script saved `path`."""

    t: float
    path: str


LINE: msgspec.json.Decoder[Any] = msgspec.json.Decoder(
    ProcessReported | PhaseReported | UpdateReported | CheckpointReported
)


class Reported:
    """Reads the file at `path` and writes through `rows`. `pid` is who reports, None before anybody did."""

    def __init__(self, path: Path, rows: Rows, say: Callable[[TelemetryMessage], None]) -> None:
        self.pid: int | None = None
        self._path = path
        self._rows = rows
        self._say = say
        self._phase: Phase | None = None
        self._stopped = dict.fromkeys(DIVIDED, 0.0)
        self._recent: deque[tuple[float, int]] = deque(maxlen=MEAN_OF)
        self._offset = 0
        self._looked_at = time.monotonic()

    def poll(self) -> None:
        """Take in the lines that are new. Raises `OSError` when they cannot be read, and `StorageError` when a row does
        not fit: it is tried again next time.
        """
        phase, seq = self._phase, self._rows.seq
        self._see_stopped()
        try:
            while self._read():
                pass
        finally:
            if self._phase is not None and self._phase != phase:
                self._say(PhaseEntered(self._phase, *self._rows.at, time.time()))
            if self._rows.seq != seq:
                self._say(RowsWritten(self._rows.seq))

    def _read(self) -> bool:
        """Take in what is whole of the next bytes; false when that is nothing."""
        with os.fdopen(open_plain(self._path)[0], "rb") as file:
            file.seek(self._offset)
            news = file.read(READ_BYTES)
        begun = self._offset
        for line in news.splitlines(keepends=True):
            whole = line.endswith(b"\n")
            if not whole and len(line) < READ_BYTES:
                break
            said = _said(line) if whole else None
            if said is not None and said.t not in self._rows.written:
                self._take(said)
            elif isinstance(said, UpdateReported):
                self._rows.skip_update(said.timesteps)
                self._episodes(said)
            self._offset += len(line)
        return self._offset > begun

    def _take(self, said: ProcessReported | PhaseReported | UpdateReported | CheckpointReported) -> None:
        match said:
            case ProcessReported():
                self.pid = said.pid
                self._rows.start(said.t)
            case PhaseReported():
                self._enter(said.phase)
            case UpdateReported():
                self._update(said)
            case CheckpointReported():
                self._rows.checkpoint(said.path, said.t)

    def _enter(self, name: str) -> None:
        self._phase = next((phase for phase in PHASES if phase == name), self._phase)

    def _update(self, said: UpdateReported) -> None:
        recent = self._recent.copy()
        self._episodes(said)
        metrics = {tag if "/" in tag else FAMILY + tag: value for tag, value in said.metrics.items()}
        if self._recent:
            metrics.setdefault("rollout/ep_rew_mean", spoken(mean_value(r for r, _ in self._recent)))
            metrics.setdefault("rollout/ep_len_mean", spoken(mean_value(length for _, length in self._recent)))
        episodes = Episodes(
            said.n, tuple(r for r, _ in said.ended), tuple(length for _, length in said.ended), said.outcomes
        )
        rollout_s, update_s = (max(0.0, said.spent_s.get(it, 0.0) - self._stopped[it]) for it in DIVIDED)
        took_s = max(0.0, said.took_s - sum(self._stopped.values()))
        try:
            self._rows.update(
                said.timesteps,
                said.t,
                (rollout_s, update_s),
                None,
                metrics,
                episodes,
                took_s,
                total_timesteps=said.total_timesteps,
            )
        except BaseException:
            self._recent = recent
            raise
        self._stopped = dict.fromkeys(DIVIDED, 0.0)
        self._enter(said.phase)

    def _episodes(self, said: UpdateReported) -> None:
        self._recent.extend((float(r), length) for r, length in said.ended)

    def _see_stopped(self) -> None:
        """Seconds for which SIGSTOP holds the script are no slow update."""
        then, self._looked_at = self._looked_at, time.monotonic()
        if self.pid is not None and _is_stopped(self.pid):
            self._stopped["update" if self._phase == "update" else "rollout"] += self._looked_at - then


def _said(line: bytes) -> Any:
    try:
        return LINE.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return None


def _is_stopped(pid: int) -> bool:
    try:
        stat = read_stat(pid)
    except OSError:
        return False
    return stat is not None and stat.state in "Tt"
