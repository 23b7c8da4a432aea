"""Nodes that train nothing: for each attempt the files that a keeper and a trainer write there, and nothing else.

One loop writes for all of them: `identity.json` when a job begins, `alive.json` every two seconds, rows of recorded
trainings, answers to orders, and `exit.json` at the end. So a thousand attempts cost a fifth of a core.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from zlib import crc32

import msgspec
from msgspec import structs

from benchmarks.health.trace import TRACES, read_trace
from mission_tui.errors import EX_RESUMABLE
from mission_tui.fence import Fence
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Phase
from mission_tui.ipc.sockets import PROTOCOL
from mission_tui.ipc.telemetry_messages import (
    CheckpointAnswered,
    Heartbeat,
    NumberedOrder,
    PhaseEntered,
    RowsWritten,
    TelemetryMessage,
    TrainerHello,
    TrainerWord,
)
from mission_tui.keeper.files import exit_record, signal_in
from mission_tui.records.jsonl import Tail, encode_line
from mission_tui.records.runs.attempt import LaunchOrder, read_launch
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint
from mission_tui.records.runs.layout import AttemptDir, RunDir

__all__ = ["Attempt", "Nodes", "rows_of"]

BEAT_S = 2.0
ORDERS_S = 1.0
SHAPES = 12
"""Traces of which attempts repeat the rows."""


def rows_of(shapes: int = SHAPES) -> list[tuple[UpdateDone, ...]]:
    """The rows of so many healthy recorded trainings."""
    return [read_trace(path).updates[:60] for path in sorted(TRACES.glob("healthy-*.jsonl.gz"))[:shapes]]


@dataclass(eq=False)
class Attempt:
    """One attempt on a node; `over` is called with its exit code once its keeper has written how it ended."""

    nodes: Nodes
    run: RunDir
    number: int
    node: str
    over: Callable[[int], None]
    order: LaunchOrder = field(init=False)
    files: AttemptDir = field(init=False)
    update: int = 0
    timesteps: int = 0
    seq: int = 0
    beat: int = 0
    alive: bool = True
    paused: bool = False
    phase: Phase = "rollout"
    checkpoint: CheckpointAnswered | None = None
    asked: Literal["term", "quit"] | None = None
    attempted: int = 0

    def __post_init__(self) -> None:
        self.files = self.run.attempt(self.number)
        order = read_launch(self.files.launch)
        assert order is not None
        self.order = order
        self.hello = TrainerHello(PROTOCOL, self.run.id, self.number, order.nonce, self.nodes.pid())
        self.fence = Fence(self.run.path, self.number, order.nonce)
        self.orders = Tail(self.files.orders, NumberedOrder)
        self.rows = self.nodes.rows[crc32(self.run.id.encode()) % len(self.nodes.rows)]

    def begin(self) -> None:
        """Its keeper says who they are, and its trainer begins."""
        if not self.alive:
            return
        if self.files.exit.exists() or self.fence.overtaken_by() is not None:
            self._over(EX_RESUMABLE)
            return
        who = {"pid": self.hello.pid, "start_time": self.hello.pid, "pidfd_inode": None}
        facts = {"boot_id": f"boot of {self.node}", "uid": os.getuid(), "session": self.hello.pid}
        identity = {**facts, "nonce": self.order.nonce, "attempt": self.number, "started_t": time.time()}
        _replace(self.files.identity, msgspec.json.encode({**identity, "keeper": who, "trainer": who}))
        with suppress(OSError):
            self.seq = self.run.metrics.read_bytes().count(b"\n")
        self._write(TrainingStarted(0, self.number, time.time()))
        spread = self.nodes.luck.random()
        self.nodes.after(spread * BEAT_S, self._beat)
        self.nodes.after(spread * ORDERS_S, self._read)
        self.nodes.after(spread * self.nodes.row_s, self._learn)

    def lose(self) -> None:
        """Its node is gone, and writes nothing more."""
        self.alive = False

    def hear(self, word: Literal["TERM", "QUIT"]) -> None:
        """A signal for its keeper."""
        self.asked = "quit" if word == "QUIT" or self.asked == "quit" else "term"
        self.nodes.after(0.2, self._end)

    def _beat(self) -> None:
        if not self.alive:
            return
        if self.fence.due and self.fence.overtaken_by() is not None:
            self._over(EX_RESUMABLE)
            return
        self.beat += 1
        now = time.time()
        said: list[TelemetryMessage] = [
            PhaseEntered("paused" if self.paused else self.phase, self.update, self.timesteps, now),
            RowsWritten(self.seq),
            *([self.checkpoint] if self.checkpoint else []),
            Heartbeat(now),
        ]
        _replace(self.files.alive, msgspec.json.encode(TrainerWord(self.hello, self.beat, tuple(said))))
        self.nodes.after(BEAT_S, self._beat)

    def _read(self) -> None:
        if not self.alive:
            return
        for numbered in self.orders.read():
            order = numbered.order
            self.nodes.heard += 1
            if order.what == "stop":
                self.asked = self.asked or "term"
                self.nodes.after(0.2, self._end)
            elif order.what in ("pause", "unpause"):
                self.paused = order.what == "pause"
            elif order.what == "checkpoint":
                self.checkpoint = CheckpointAnswered(order.number, why="nothing is trained here")
        if (word := signal_in(self.files.signal)) is not None:
            self.hear("QUIT" if word.name == "SIGQUIT" else "TERM")
            return
        self.nodes.after(ORDERS_S, self._read)

    def _learn(self) -> None:
        if not self.alive:
            return
        if not self.paused:
            row = self.rows[self.update % len(self.rows)]
            self.update += 1
            self.timesteps += self.rows[0].timesteps
            self.phase = "update" if self.phase == "rollout" else "rollout"
            now = {"attempt": self.number, "update": self.update, "timesteps": self.timesteps, "t": time.time()}
            self._write(structs.replace(row, **now))
        self.nodes.after(self.nodes.row_s * self.nodes.luck.uniform(0.9, 1.1), self._learn)

    def _end(self) -> None:
        if not self.alive:
            return
        code = 0 if self.asked == "term" else -9
        facts = {"code": 0} if code == 0 else {"signal": 9}
        if code == 0:
            name, place = f"{self.timesteps:09d}", (self.number, self.update, self.timesteps, time.time())
            _save(self.run, name, self.number, self.update, self.timesteps)
            self._write(TrainingEnded(0, *place, "stopped", checkpoint=name))
        _replace(self.files.exit, msgspec.json.encode(exit_record(self.number, asked=self.asked, **facts)))
        self._over(0 if code == 0 else 137)

    def _over(self, code: int) -> None:
        self.alive = False
        self.over(code)

    def _write(self, record: MetricRecord) -> None:
        self.seq += 1
        with self.run.metrics.open("ab") as file:
            file.write(encode_line(structs.replace(record, seq=self.seq)))
        self.nodes.written += 1


class Nodes:
    """All of them, and when each attempt does what next."""

    def __init__(self, row_s: float, luck: random.Random) -> None:
        """`row_s` are the seconds of an update."""
        self.row_s, self.luck = row_s, luck
        self.rows = rows_of()
        self.heard = self.written = 0
        self._pids = itertools.count(1 << 23)
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def pid(self) -> int:
        """A number of a process on a node."""
        return next(self._pids)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Do it then."""
        heapq.heappush(self._due, (time.monotonic() + seconds, next(self._order), act))

    def work(self) -> None:
        """Do what is due."""
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            _, _, act = heapq.heappop(self._due)
            act()


def _save(run: RunDir, name: str, attempt: int, update: int, timesteps: int) -> None:
    """A checkpoint with nothing in it that could be trained on."""
    facts = CheckpointFacts(
        run=run.id,
        attempt=attempt,
        update=update,
        timesteps=timesteps,
        t=time.time(),
        reason="stop",
        spec_sha256="",
    )
    save_checkpoint(run.checkpoints, name, lambda folder: (folder / "weights").touch(), facts)


def _replace(path: Path, document: bytes) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_bytes(document)
    temporary.replace(path)
