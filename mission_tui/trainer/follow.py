"""``python -m mission_tui.trainer.follow RUN_DIR ATTEMPT [PATTERN]``: a command's rows, written for it.

What the script says by `mission_tui.report` counts, read from `attempts/N/reported.jsonl`: each line once, also after
another reader was here; a line that is none is passed over. One that says nothing has the logs under the absolute
`PATTERN`. It lives as long as the attempt, with or without a supervisor. Nothing of SB3 or torch is imported.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import tomli_w
from msgspec import Struct

from mission_tui.errors import EX_RESUMABLE, DamagedError, MissionError
from mission_tui.fleet.events.findings import METRICS
from mission_tui.fleet.events.metrics import Episodes, Metric, mean_value, spoken
from mission_tui.fleet.events.outcome import PHASES, Phase
from mission_tui.fleet.history.classify import FOLLOWING
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry import Telemetry
from mission_tui.ipc.telemetry_messages import (
    PhaseEntered,
    RowsWritten,
    TelemetryMessage,
    TrainerDutyFailed,
    TrainerHello,
)
from mission_tui.plain_files import open_folder, open_plain, open_to_append
from mission_tui.procfs import read_stat
from mission_tui.records.atomic import StorageError, write_atomic
from mission_tui.records.runs.attempt import lease_is_held, read_launch
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.followed_logs import MEAN_OF, FollowedLogs, OwnFiles, Rows

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
        self._paused_s, self._paused_t = 0.0, float("inf")
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
                self._paused_s = 0.0
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
                self._paused_s += max(0.0, said.t - self._paused_t)
                self._paused_t = said.t if said.phase == "paused" else float("inf")
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
        took_s = max(0.0, said.took_s - sum(self._stopped.values()) - self._paused_s)
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
        self._stopped, self._paused_s = dict.fromkeys(DIVIDED, 0.0), 0.0
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


LOGS_S, REPORT_S = 1.0, 0.25
SLICE_S = 0.125
_SHOWN = 8
_WHY_CHARACTERS = 200
SHARE = 0.05
"""Of a core that reading may take: a log that takes long to read is read less often."""

FULL_S = 5.0
"""So long without a row on a full disk, where a script keeps what it would report, is no pause of its own."""

PREDECESSOR_S = 30
"""How long an earlier follower may take to read the last lines."""


class Follower:
    """One attempt's. `is_reported`: its script reports rows itself; the rows once there are any."""

    def __init__(self, run_dir: RunDir, attempt: int, pattern: str | None = None, since: float = 0.0) -> None:
        self._run_dir = run_dir
        self._attempt = attempt
        self._files = run_dir.attempt(attempt)
        own = OwnFiles(self._files.identity, since)
        self._logs = None if pattern is None else FollowedLogs(pattern, own, self._open, self._say_files)
        self._reported: Reported | None = None
        self._rows: Rows | None = None
        self._telemetry: Telemetry | None = None
        self._complaint = ""
        self._wrote_at = time.monotonic()
        self._waits = False

    @property
    def is_reported(self) -> bool:
        return self._reported is not None

    def poll(self, *, over: bool = False) -> None:
        """Write what is new and pass on what was ordered; `over`: the attempt has ended. What cannot be read or written
        is said once.
        """
        try:
            if self._reported is None and self._files.reported.exists():
                self._telemetry = self._telemetry or self._connected()
                self._reported = Reported(self._files.reported, self._open(), self._say)
            if self._reported is not None:
                self._reported.poll()
            elif self._logs is not None:
                self._logs.poll(over=over)
        except (MissionError, OSError) as error:
            self._complain(str(error))
            if isinstance(error, StorageError):
                self._say_waiting(str(error))
        if (
            self.is_reported
            and time.monotonic() - self._wrote_at > FULL_S
            and not os.statvfs(self._files.path).f_bavail
        ):
            self._say_waiting(f"the disk of {self._files.path} is full: what the script reports waits for room")
        if self._telemetry is not None and any(order.what == "stop" for order in self._telemetry.orders()):
            os.close(open_to_append(self._files.stop_asked))

    def close(self) -> None:
        """Make the rows durable, say the newest and hang up."""
        if self._rows is not None:
            self._rows.close()
        if self._telemetry is not None:
            self._telemetry.close()

    def _open(self) -> Rows:
        if self._rows is None:
            self._rows = Rows(self._run_dir, self._attempt)
        return self._rows

    def _connected(self) -> Telemetry | None:
        """The line to the supervisor that there is now; None where no order names it."""
        try:
            order = read_launch(self._files.launch)
        except (DamagedError, OSError):
            order = None
        if order is None or (path := order.env.get("MISSION_TUI_TELEMETRY")) is None:
            return None
        return Telemetry(Path(path), TrainerHello(PROTOCOL, order.run, order.attempt, order.nonce, os.getpid()))

    def _say_waiting(self, why: str) -> None:
        """Rows wait for the disk: said once, until one is written. A log on the same disk could not hold it."""
        if not self._waits:
            self._say(TrainerDutyFailed(METRICS, why[:_WHY_CHARACTERS], time.time(), int(time.time())))
        self._waits = True

    def _say(self, message: TelemetryMessage) -> None:
        if isinstance(message, RowsWritten):
            self._wrote_at, self._waits = time.monotonic(), False
        if self._telemetry is not None:
            self._telemetry.send(message)

    def _say_files(self, files: Sequence[Path]) -> None:
        """Write down which logs are read: what the run's settings came to, for everyone who looks at it."""
        shown = [str(path) for path in files[:_SHOWN]] + ([f"and {len(files) - _SHOWN} more"] if files[_SHOWN:] else [])
        why = "the logs that its own processes write; where several report updates, only one of them"
        table = {"run": {"follow": shown}, "reasons": {"run": {"follow": why}}}
        write_atomic(self._files.effective, tomli_w.dumps(table).encode())
        self._print(f"reading {', '.join(shown)}")

    def _complain(self, sentence: str) -> None:
        if sentence != self._complaint:
            self._print(sentence)
        self._complaint = sentence

    def _print(self, sentence: str) -> None:
        """Into the run's own log, which may be on the disk that is full."""
        with suppress(OSError):
            print(f"{FOLLOWING}{sentence}", file=sys.stderr, flush=True)  # noqa: T201


def main(words: Sequence[str]) -> int:
    """Follow until the attempt is over and its last lines were read; 0 then, 75 if another one follows it already."""
    folder, number, *patterns = words
    run_dir, attempt = RunDir(Path(folder)), int(number)
    files = run_dir.attempt(attempt)
    if not _alone(files.path, wait=files.exit.exists()):
        return EX_RESUMABLE
    follower = Follower(run_dir, attempt, next(iter(patterns), None), files.launch.stat().st_mtime)
    while True:
        over = files.exit.exists() or not lease_is_held(run_dir.lease)
        begun = time.monotonic()
        follower.poll(over=over)
        if over:
            follower.close()
            return 0
        least_s = REPORT_S if follower.is_reported else LOGS_S
        look_s = max(least_s, (time.monotonic() - begun) / SHARE)
        while time.monotonic() - begun < look_s and not files.exit.exists():
            time.sleep(SLICE_S)


def _alone(folder: Path, *, wait: bool) -> bool:
    """Whether this process alone follows the attempt; it then does so as long as it lives."""
    descriptor = open_folder(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if not wait:
            return False
        signal.alarm(PREDECESSOR_S)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        signal.alarm(0)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
