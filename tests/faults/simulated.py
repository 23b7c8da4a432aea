"""A machine that is not there: keepers and trainers that live in a run directory and in virtual time.

They write what real ones write, by the same code. A process is a pipe that is closed when it ends, which is all that a
supervisor sees of a pidfd. Time passes only while the supervisor waits, so hours take milliseconds.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    Metric,
    MetricRecord,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, RowsWritten, TelemetryMessage, TrainerHello
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.procfs import boot_id
from mission_tui.records.files.append import AppendLog
from mission_tui.records.runs.attempt import LaunchOrder, read_identity
from mission_tui.records.runs.checkpoint import save_checkpoint
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.runs.manifest import CheckpointFacts, verify_checkpoint
from mission_tui.supervisor.host.identity import Process
from mission_tui.supervisor.host.lease import Holder
from mission_tui.supervisor.launchers.keepers import Found

__all__ = ["Body", "Held", "Link", "SupervisorKilledError", "World"]

EPOCH = 1_800_000_000.0
FIRST_PID = 1 << 24
"""Above any number that this kernel gives, so that a look into /proc finds nobody."""
UPDATE_S = 1.0
TRANSITIONS = 64


class SupervisorKilledError(KeyboardInterrupt):
    """The supervisor ends here and now: no handler of its own runs after this."""


class Body:
    """One process: `dead` once it has ended; holders see that at the reading end of a pipe."""

    def __init__(self, pid: int, hear: Callable[[signal.Signals], None]) -> None:
        self.pid = pid
        self.hear = hear
        self._read, self._write = os.pipe()
        self.dead = False

    def hold(self) -> Process:
        return Held(self)

    def watch(self) -> int:
        return os.dup(self._read)

    def end(self) -> None:
        if not self.dead:
            self.dead = True
            os.close(self._write)

    def bury(self) -> None:
        self.end()
        os.close(self._read)


class Held(Process):
    """A process as the supervisor holds it."""

    __slots__ = ("body",)

    def __init__(self, body: Body) -> None:
        super().__init__(body.pid, body.watch())
        object.__setattr__(self, "body", body)

    def alive(self) -> bool:
        return not self.body.dead  # type: ignore[attr-defined]

    def send(self, number: signal.Signals) -> bool:
        if self.alive():
            self.body.hear(number)  # type: ignore[attr-defined]
            return True
        return False

    def send_to_group(self, number: signal.Signals) -> bool:
        return self.send(number)


class Link:
    """A trainer's connection, by which orders reach it."""

    def __init__(self, trainer: Training) -> None:
        self.hello = TrainerHello(1, trainer.run.id, trainer.order.attempt, trainer.order.nonce, trainer.body.pid)
        self.orders: list[Order] = []
        self.pid = trainer.body.pid

    def send(self, order: Order) -> None:
        self.orders.append(order)

    def close(self) -> None:
        self.orders.clear()


@dataclass(eq=False)
class Training:
    """One attempt's keeper and trainer."""

    world: World
    run: RunDir
    order: LaunchOrder
    keeper: Body = field(init=False)
    body: Body = field(init=False)
    link: Link | None = None
    log: AppendLog | None = None
    update: int = 0
    checkpoint: str | None = None
    stopping: bool = False
    paused: bool = False
    asked: Literal["term", "quit"] | None = None

    def __post_init__(self) -> None:
        self.keeper = self.world.body(self._keeper_hears)
        self.body = self.world.body(self._trainer_hears)

    def begin(self) -> None:
        """The keeper has started its trainer and says who they are."""
        if self.body.dead:
            return
        who = {
            role: {"pid": body.pid, "start_time": body.pid, "pidfd_inode": None}
            for role, body in (("keeper", self.keeper), ("trainer", self.body))
        }
        facts = {"boot_id": boot_id(), "uid": os.getuid(), "session": self.keeper.pid, "nonce": self.order.nonce}
        write_json(
            self.run.attempt(self.order.attempt).identity,
            {**facts, "attempt": self.order.attempt, "started_t": time.time(), **who},
        )
        self.log = AppendLog(self.run.metrics)
        words = self.order.argv
        if "--checkpoint" in words:
            self.checkpoint = words[words.index("--checkpoint") + 1]
            self.update = verify_checkpoint(self.run.checkpoints / self.checkpoint).update
        origin = (self.update, self.update * TRANSITIONS, self.checkpoint)
        self._write(lambda seq: TrainingStarted(seq, self.order.attempt, time.time(), *origin))
        self.world.after(UPDATE_S, self._go_on)

    def crash(self, number: int = signal.SIGSEGV) -> None:
        """The trainer ends by a signal."""
        self._trainer_is_gone(code=None, number=number)

    def _go_on(self) -> None:
        if self.body.dead:
            return
        for order in self.world.said_to(self):
            self._obey(order)
        if self.stopping:
            self._save("stop")
            self._last_word()
            return
        if self.paused:
            self.world.tell(self, PhaseEntered("paused", self.update, self.update * TRANSITIONS, time.time()))
        else:
            self.world.tell(self, PhaseEntered("update", self.update, self.update * TRANSITIONS, time.time()))
            self.update += 1
            metrics: dict[str, Metric] = {"rollout/ep_rew_mean": 1.0, "train/approx_kl": 0.01}
            where = (self.order.attempt, self.update, self.update * TRANSITIONS)
            self._write(lambda seq: UpdateDone(seq, *where, time.time(), 0.5, 0.5, 64.0, metrics))
        self.world.after(UPDATE_S, self._go_on)

    def _obey(self, order: Order) -> None:
        match order.what:
            case "stop":
                self.stopping = True
            case "pause" | "unpause":
                self.paused = order.what == "pause"
            case "checkpoint":
                self._save("asked")
            case "keep":
                pass

    def _save(self, reason: Literal["asked", "stop"]) -> None:
        name = f"{self.update * TRANSITIONS:09d}"
        where = (self.order.attempt, self.update, self.update * TRANSITIONS)
        facts = CheckpointFacts(
            run=self.run.id,
            attempt=self.order.attempt,
            update=self.update,
            timesteps=self.update * TRANSITIONS,
            t=time.time(),
            reason=reason,
            spec_sha256="",
        )
        save_checkpoint(self.run.checkpoints, name, _fill, facts)
        self.checkpoint = name
        self._write(lambda seq: CheckpointSaved(seq, *where, time.time(), name, reason))

    def _last_word(self) -> None:
        where = (self.order.attempt, self.update, self.update * TRANSITIONS)
        self._write(lambda seq: TrainingEnded(seq, *where, time.time(), "stopped", checkpoint=self.checkpoint))
        self._trainer_is_gone(code=0, number=None)

    def _write(self, make: Callable[[int], MetricRecord]) -> None:
        assert self.log is not None
        self.world.tell(self, RowsWritten(self.log.append(make).seq))

    def _trainer_hears(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self._trainer_is_gone(code=None, number=number)
        elif number == signal.SIGTERM:
            self.stopping = True

    def _keeper_hears(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self.keeper.end()
        elif number == signal.SIGTERM:
            self.asked = self.asked or "term"
            self.stopping = True
        elif number == signal.SIGQUIT:
            self.asked = "quit"
            self._trainer_is_gone(code=None, number=signal.SIGKILL)

    def _trainer_is_gone(self, code: int | None, number: int | None) -> None:
        if self.body.dead:
            return
        if self.log is not None:
            self.log.close()
        self.body.end()
        self.world.lost(self)
        if not self.keeper.dead:
            self.world.after(self.world.luck.uniform(0.0, 2.0), lambda: self._record(code, number))

    def _record(self, code: int | None, number: int | None) -> None:
        if not self.keeper.dead:
            record = exit_record(self.order.attempt, code=code, signal=number, asked=self.asked)
            write_json(self.run.attempt(self.order.attempt).exit, record)
            self.keeper.end()


def _fill(folder: Path) -> None:
    (folder / "weights").write_text(folder.name, encoding="utf-8")


class World:
    """Everything outside of the supervisor. `ears` hear trainers while there is a supervisor; `fatal_in` counts the
    calls after which it is killed.
    """

    def __init__(self, luck: random.Random) -> None:
        self.luck = luck
        self.now = 1000.0
        self.offset = EPOCH
        self.ears: Any = None
        self.loop: asyncio.SelectorEventLoop | None = None
        self.fatal_in: int | None = None
        self.trainings: list[Training] = []
        self.wrong: list[str] = []
        self._pids = itertools.count(FIRST_PID)
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []

    def monotonic(self) -> float:
        return self.now

    def clock(self) -> float:
        """Unix time, which may be set to another at any moment."""
        return self.now + self.offset

    def body(self, hear: Callable[[signal.Signals], None]) -> Body:
        return Body(next(self._pids), hear)

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now + seconds, next(self._order), act))

    def pass_until(self, t: float) -> bool:
        """Let the next thing before `t` happen, or time pass to `t`; whether anything happened."""
        if self._due and self._due[0][0] <= t:
            self.now, _, act = heapq.heappop(self._due)
            act()
            return True
        self.now = t
        return False

    def call(self) -> None:
        """The supervisor calls the machine; it may be its last call."""
        if self.fatal_in is not None:
            self.fatal_in -= 1
            if self.fatal_in < 0:
                raise SupervisorKilledError

    def tell(self, training: Training, message: TelemetryMessage) -> None:
        """A trainer says something: to nobody, where there is no supervisor that admits it."""
        if self.ears is None or self.loop is None:
            training.link = None
        else:
            # What the supervisor does when it hears it, and whether it lives on, is nothing to the trainer.
            self.loop.call_soon(self._heard, self.ears, training, message)

    def _heard(self, ears: Any, training: Training, message: TelemetryMessage) -> None:
        if training.link is None and not training.body.dead and self.luck.random() < 0.7:
            link = Link(training)
            training.link = link if ears.admit(link) else None
        if training.link is not None:
            ears.receive(training.link, message)

    def said_to(self, training: Training) -> list[Order]:
        link = training.link
        if link is None or self.ears is None:
            return []
        orders, link.orders = link.orders, []
        return orders

    def lost(self, training: Training) -> None:
        if training.link is not None and self.ears is not None and self.loop is not None:
            self.loop.call_soon(self.ears.disconnected, training.link)
        training.link = None

    def failed(self, _loop: object, context: dict[str, Any]) -> None:
        """Something of the supervisor raised where nobody waits for it."""
        if not isinstance(context.get("exception"), SupervisorKilledError):
            self.wrong.append(f"{context['message']}: {context.get('exception')!r}")

    def drop_links(self) -> None:
        """The supervisor is gone."""
        self.ears = None
        for training in self.trainings:
            training.link = None

    # What a launcher asks of its machine: where keepers are started and found.

    def start(self, run: RunDir, order: LaunchOrder) -> Process:
        self.call()
        if any(not it.body.dead for it in self.trainings if it.run.id == run.id):
            self.wrong.append(f"{run.id}: attempt {order.attempt} was started while another one lives")
        training = Training(self, run, order)
        self.trainings.append(training)
        self.after(self.luck.choice((0.03, 0.2, 3.0)), training.begin)
        held = training.keeper.hold()
        self.call()
        return held

    def is_free(self, run: RunDir) -> bool:
        self.call()
        return all(it.body.dead and it.keeper.dead for it in self.trainings if it.run.id == run.id)

    def holders(self, run: RunDir, nonce: str) -> list[Holder]:
        """Whoever lives here is known by its identity."""
        return []

    def is_coming(self, run: RunDir, attempt: int) -> bool:
        """Keepers of this machine own their run from the start."""
        return False

    def find(self, run: RunDir, attempt: int) -> Found:
        self.call()
        identity = read_identity(run.attempt(attempt).identity)
        if identity is None:
            return Found(None)
        it = next(it for it in self.trainings if it.keeper.pid == identity.keeper.pid)
        return Found(
            identity,
            None if it.keeper.dead else it.keeper.hold(),
            None if it.body.dead else it.body.hold(),
            "stranger" if it.keeper.dead else "ours",
            "stranger" if it.body.dead else "ours",
        )

    def bury(self) -> None:
        """Close what is open."""
        for it in self.trainings:
            for body in (it.keeper, it.body):
                body.bury()
            if it.log is not None:
                with suppress(Exception):
                    it.log.close()
