"""A machine that is not there: keepers and trainers that live in a run directory and in virtual time.

They write what real ones write, by the same code. A process is a pipe that is closed when it ends, which is all that a
supervisor sees of a pidfd. Time passes only while the supervisor waits, so hours take milliseconds.

A trainer is scripted as `tests/supervisor/stub_trainer.py` is, by variables of its order: `STUB_UPDATE_S`, `STUB_KL`,
`STUB_NAN_FROM`, `STUB_DIES_AT`, `STUB_ENDS_AT`, `STUB_CRASHES_AFTER`, `STUB_DEAF`, `STUB_MUTE`, `STUB_RETURNS` and
`STUB_SET_FREE`. A command does nothing, and ends after a while if its last word ends with `exit` and a number.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
import random
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mission_tui.fleet.events.metrics import (
    CheckpointSaved,
    Episodes,
    Metric,
    MetricRecord,
    SettingsChanged,
    TrainingEnded,
    TrainingStarted,
    UpdateDone,
)
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import with_words
from mission_tui.fleet.specs.spec import rollout_size
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, RowsWritten, TelemetryMessage, TrainerHello
from mission_tui.keeper.files import exit_record, write_json
from mission_tui.procfs import boot_id
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import LaunchOrder, read_identity, read_spec, read_terms
from mission_tui.records.runs.checkpoint import CheckpointFacts, save_checkpoint, verify_checkpoint
from mission_tui.records.runs.layout import RunDir
from mission_tui.supervisor.host.identity import Holder, Process
from mission_tui.supervisor.launchers.local import FoundProcesses, Started
from mission_tui.supervisor.launchers.order import Caller

__all__ = ["Body", "Held", "Link", "NoGpu", "NoProvenance", "SupervisorKilledError", "World"]

EPOCH = 1_800_000_000.0
FIRST_PID = 1 << 24
"""Above any number that this kernel gives, so that a look into /proc finds nobody."""
UPDATE_S = 1.0


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
        return Held(self.pid, self.watch(), body=self)

    def watch(self) -> int:
        return os.dup(self._read)

    def end(self) -> None:
        if not self.dead:
            self.dead = True
            os.close(self._write)

    def bury(self) -> None:
        self.end()
        os.close(self._read)


class Held(Process, frozen=True, kw_only=True):
    """A process as the supervisor holds it."""

    body: Body

    def alive(self) -> bool:
        return not self.body.dead

    def send(self, number: signal.Signals) -> bool:
        if self.alive():
            self.body.hear(number)
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
    timesteps: int = 0
    checkpoint: str | None = None
    stopping: bool = False
    paused: bool = False
    asked: Literal["term", "quit"] | None = None
    set: int = 0
    """The newest settings that were taken over, by their number."""
    held: bool = False
    """Whether SIGSTOP keeps its trainer from doing anything."""
    heard: list[Order] = field(default_factory=list)
    """Every order that reached it."""

    def __post_init__(self) -> None:
        self.keeper = self.world.body(self._keeper_hears)
        self.body = self.world.body(self._trainer_hears)
        self.update_s = float(self.order.env.get("STUB_UPDATE_S", UPDATE_S))
        own = self.run.attempt(self.order.attempt).spec
        self.spec = read_spec(own if own.is_file() else self.run.spec)

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
        if self.spec.run.command is not None:
            if found := re.search(r"\bexit (\d+)$", self.spec.run.command[-1]):
                code = int(found[1])
                self.world.after(self.update_s, lambda: self._trainer_is_gone(code=code, number=None))
            return
        self.log = AppendLog(self.run.metrics)
        words = self.order.argv
        if "--checkpoint" in words:
            self.checkpoint = words[words.index("--checkpoint") + 1]
            manifest = verify_checkpoint(self.run.checkpoints / self.checkpoint)
            self.update, self.timesteps = manifest.update, manifest.timesteps
        self.begun_at = self.update
        self.until = read_terms(self.run.attempt(self.order.attempt).terms).until_timesteps or sys.maxsize
        origin = (self.update, self.timesteps, self.checkpoint)
        self._write(lambda seq: TrainingStarted(seq, self.order.attempt, time.time(), *origin))
        self.world.after(self.update_s, self._go_on)

    def crash(self, number: int = signal.SIGSEGV) -> None:
        """The trainer ends by a signal."""
        self._trainer_is_gone(code=None, number=number)

    def _go_on(self) -> None:
        if self.body.dead:
            return
        if self.held:
            self.world.after(self.update_s, self._go_on)
            return
        for order in self.world.said_to(self):
            self.heard.append(order)
            self._obey(order)
        if self.stopping:
            self._end("stopped")
            return
        if self.paused:
            self._say(PhaseEntered("paused", self.update, self.timesteps, time.time()))
        else:
            self._say(PhaseEntered("update", self.update, self.timesteps, time.time()))
            self._learn()
            if self._scripted_to_end():
                return
        self.world.after(self.update_s, self._go_on)

    def _learn(self) -> None:
        self.update += 1
        self.timesteps += rollout_size(self.spec)
        kl: Metric = float(self.order.env.get("STUB_KL", "0.01"))
        if self.update >= self._scripted("STUB_NAN_FROM"):
            kl = "nan"
        metrics: dict[str, Metric] = {"rollout/ep_rew_mean": self.update / 10, "train/approx_kl": kl}
        episodes = Episodes()
        if "STUB_RETURNS" in self.order.env:
            rate = self.spec.ppo.learning_rate
            assert isinstance(rate, float)
            brought = rate * 1e6 + (self.spec.run.seed or 0) % 7
            episodes, metrics["rollout/rate"] = Episodes(n=1, r=(brought,)), brought
        half_s = self.update_s / 2
        self._write(lambda seq: UpdateDone(seq, *self._place(), time.time(), half_s, half_s, 64.0, metrics, episodes))

    def _scripted_to_end(self) -> bool:
        """Whether this update was its last one; then it has ended."""
        if self.update - self.begun_at == self._scripted("STUB_CRASHES_AFTER"):
            self.crash()
        elif self.update == self._scripted("STUB_DIES_AT"):
            self._write(lambda seq: TrainingEnded(seq, *self._place(), time.time(), "failed", "nan", "loss is nan"))
            self._trainer_is_gone(code=1, number=None)
        elif self.update == self._scripted("STUB_ENDS_AT") or self.timesteps >= min(
            self.spec.run.total_timesteps or sys.maxsize, self.until
        ):
            self._end("finished")
        else:
            return False
        return True

    def _scripted(self, name: str) -> int:
        return int(self.order.env.get(name, sys.maxsize))

    def _place(self) -> tuple[int, int, int]:
        return self.order.attempt, self.update, self.timesteps

    def _obey(self, order: Order) -> None:
        match order.what:
            case "stop":
                self._ask_stop()
            case "pause" | "unpause":
                self.paused = order.what == "pause"
            case "checkpoint":
                self._save(order.reason)
            case "set":
                self._change_settings(order)
            case "keep":
                pass

    def _ask_stop(self) -> None:
        if self.spec.run.command is not None:
            self._trainer_is_gone(code=None, number=signal.SIGTERM)
        else:
            self.stopping = "STUB_DEAF" not in self.order.env

    def _change_settings(self, order: Order) -> None:
        if order.number > self.set and "STUB_SET_FREE" not in self.order.env:
            self.set, words = order.number, order.assignments
            self.spec = with_words(self.spec, (words,))
            self._write(lambda seq: SettingsChanged(seq, *self._place(), time.time(), order.number, words, words))

    def _save(self, reason: Literal["asked", "finding", "stop", "end"]) -> None:
        name = f"{self.timesteps:09d}"
        facts = CheckpointFacts(
            run=self.run.id,
            attempt=self.order.attempt,
            update=self.update,
            timesteps=self.timesteps,
            t=time.time(),
            reason=reason,
            spec_sha256="",
        )
        save_checkpoint(self.run.checkpoints, name, _fill, facts)
        self.checkpoint = name
        self._write(lambda seq: CheckpointSaved(seq, *self._place(), time.time(), name, reason))

    def _end(self, how: Literal["stopped", "finished"]) -> None:
        self._save("stop" if how == "stopped" else "end")
        self._write(lambda seq: TrainingEnded(seq, *self._place(), time.time(), how, checkpoint=self.checkpoint))
        self._trainer_is_gone(code=0, number=None)

    def _write(self, make: Callable[[int], MetricRecord]) -> None:
        assert self.log is not None
        self._say(RowsWritten(self.log.append(make).seq))

    def _say(self, message: TelemetryMessage) -> None:
        if "STUB_MUTE" not in self.order.env:
            self.world.tell(self, message)

    def _trainer_hears(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self._trainer_is_gone(code=None, number=number)
        elif number == signal.SIGTERM:
            self._ask_stop()
        elif number in (signal.SIGSTOP, signal.SIGCONT):
            self.held = number == signal.SIGSTOP
        else:
            self.crash(number)

    def _keeper_hears(self, number: signal.Signals) -> None:
        if number == signal.SIGKILL:
            self.keeper.end()
        elif number == signal.SIGTERM:
            self.asked = self.asked or "term"
            self._ask_stop()
            if not self.stopping:
                self.world.after(self.order.grace_s, lambda: self._trainer_hears(signal.SIGKILL))
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


class NoGpu:
    """A machine without one."""

    note = "no GPU"

    def __init__(self) -> None:
        self.gpus: tuple[()] = ()
        self.held: dict[int, int | None] = {}

    def present(self) -> bool:
        return False

    def tick(self, wanted: bool) -> None:
        del wanted

    async def first_word(self, within_s: float) -> None:
        del within_s

    def close(self) -> None:
        pass


class NoProvenance:
    """Nobody is asked from where a run is launched: that takes a process."""

    def record(self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...] = ()) -> None:
        pass

    async def no_longer_same(
        self, run: RunDir, attempt: int, caller: Caller, sources: tuple[str, ...] = ()
    ) -> tuple[Change, ...]:
        del run, attempt, caller, sources
        return ()


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

    def prepare(self) -> None:
        """Nothing is quicker here for that."""

    def start(self, run: RunDir, order: LaunchOrder, digest: str) -> Started:
        self.call()
        if any(not it.body.dead for it in self.trainings if it.run.id == run.id):
            self.wrong.append(f"{run.id}: attempt {order.attempt} was started while another one lives")
        training = Training(self, run, order)
        self.trainings.append(training)
        self.after(self.luck.choice((0.03, 0.2, 3.0)), training.begin)
        held = training.keeper.hold()
        self.call()
        return Started(held)

    def is_free(self, run: RunDir) -> bool:
        self.call()
        return all(it.body.dead and it.keeper.dead for it in self.trainings if it.run.id == run.id)

    def holders(self, run: RunDir, nonce: str) -> list[Holder]:
        """Whoever lives here is known by its identity."""
        return []

    def is_coming(self, run: RunDir, attempt: int) -> bool:
        """Keepers of this machine own their run from the start."""
        return False

    def find(self, run: RunDir, attempt: int) -> FoundProcesses:
        self.call()
        identity = read_identity(run.attempt(attempt).identity)
        if identity is None:
            return FoundProcesses(None)
        it = next(it for it in self.trainings if it.keeper.pid == identity.keeper.pid)
        return FoundProcesses(
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
