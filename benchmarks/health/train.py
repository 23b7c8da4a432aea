"""How one training is recorded: the trainer's own attempt in this process, and a tamperer's hand on it between updates.

Everything that is written is written by `trainer.record`; a tamperer changes the model, its environments or
the orders, as a mistake in somebody's code or in a resume would, and never a record.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from unittest.mock import patch

import msgspec
import torch as th

from benchmarks.health.trace import Trace
from mission_tui.fleet.events.metrics import CheckpointSaved, MetricRecord
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer import record, running_time
from mission_tui.trainer.failures import classify
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.record import Record
from mission_tui.trainer.training import Job

__all__ = ["Bench", "Clock", "Tamper", "record_training"]

_BUSY_SHARE = 0.6
_BUSY_UPDATES = 3


class Clock:
    """Stands in for the `time` that the trainer reads: real, plus what was skipped, on every one of its clocks."""

    def __init__(self) -> None:
        self.skipped_s = 0.0

    def time(self) -> float:
        return time.time() + self.skipped_s

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped_s

    def perf_counter(self) -> float:
        return time.perf_counter() + self.skipped_s


@dataclass(slots=True)
class Bench:
    """What a tamperer has in its hands before a rollout: the model, the orders, the clock, its own memory."""

    model: PPO
    orders: Orders
    clock: Clock
    seed: int
    attempt: int
    memory: dict[str, Any] = field(default_factory=dict)

    def stop(self) -> None:
        """Ask for a stop, as `mission-tui stop` does."""
        self.orders.obey(Order("stop"))


class Tamper(Protocol):
    """Called before every rollout; `update` is the number of the update that comes, from 1."""

    def __call__(self, bench: Bench, update: int) -> None: ...


@dataclass(slots=True)
class _Watch:
    """Time stamps at the start of every rollout, taken beside the trainer's own."""

    updates: list[int] = field(default_factory=list)
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def look(self, update: int) -> None:
        self.updates.append(update)
        self.wall_s.append(time.perf_counter())
        self.cpu_s.append(time.process_time())

    def busy(self) -> tuple[tuple[int, int], ...]:
        shares = [
            (end - begin) / (late - early)
            for (begin, end), (early, late) in zip(pairwise(self.cpu_s), pairwise(self.wall_s), strict=True)
        ]
        spans: list[tuple[int, int]] = []
        for update, share in zip(self.updates, shares, strict=False):
            if share >= _BUSY_SHARE:
                continue
            if spans and spans[-1][1] == update - 1:
                spans[-1] = spans[-1][0], update
            else:
                spans.append((update, update))
        return tuple(span for span in spans if span[1] - span[0] + 1 >= _BUSY_UPDATES)


def record_training(name: str, attempts: Sequence[Spec], tamper: Tamper) -> Trace:
    """Train `attempts` one after the other, each from the last checkpoint of the one before, under `tamper`.

    A training that fails is recorded like any other. Specs must name a seed and a budget.
    """
    th.set_num_threads(1)
    watch, clock = _Watch(), Clock()

    def attend(bench: Bench, update: int) -> None:
        watch.look(update)
        tamper(bench, update)

    with tempfile.TemporaryDirectory(prefix="health-trace-") as folder, _reading(clock):
        run_dir = RunDir(Path(folder) / name)
        run_dir.path.mkdir()
        write_spec(run_dir.spec, attempts[0])
        for number, spec in enumerate(attempts, 1):
            if number > 1:
                run_dir.attempt(number).path.mkdir(parents=True)
                write_spec(run_dir.attempt(number).spec, spec)
            attempt = Attempt(run_dir, number, _newest_checkpoint(run_dir))
            _train(attempt, spec, attend, clock)
        records = _records(run_dir)
    resumed = {number: spec for number, spec in enumerate(attempts, 1) if number > 1 and spec != attempts[0]}
    return Trace(name, attempts[0], records, resumed, watch.busy())


def _train(attempt: Attempt, spec: Spec, tamper: Callable[[Bench, int], None], clock: Clock) -> None:
    """`trainer.__main__.train`, with `tamper` listening to the phases that the trainer says."""
    orders = Orders()
    bench: list[Bench] = []

    def say(message: TelemetryMessage) -> None:
        if isinstance(message, PhaseEntered) and message.phase == "rollout":
            assert job.training is not None
            if not bench:
                assert isinstance(job.training.model, PPO)
                bench.append(Bench(job.training.model, orders, clock, spec.run.seed or 0, attempt.number))
            tamper(bench[0], message.update + 1)

    with Record(attempt.run_dir, attempt.number, say) as account:
        job = Job(attempt, spec, account, orders, Link(attempt, {}))
        try:
            account.ended(job.train(), job.checkpoint)
        except Exception as error:  # noqa: BLE001 - as in the trainer: whatever it is becomes the last record
            failure = classify(error)
            account.ended("failed", job.save_after_failure(failure), failure)
        finally:
            job.close()


@contextmanager
def _reading(clock: Clock) -> Iterator[None]:
    """Have the trainer read `clock`, which nothing but a hang sets off from the real one."""
    modules: tuple[ModuleType, ...] = (running_time, record)
    with ExitStack() as stack:
        for module in modules:
            stack.enter_context(patch.object(module, "time", clock))
        yield


def _records(run_dir: RunDir) -> tuple[MetricRecord, ...]:
    decoder = msgspec.json.Decoder(MetricRecord)
    return tuple(decoder.decode(line) for line in run_dir.metrics.read_bytes().splitlines())


def _newest_checkpoint(run_dir: RunDir) -> str | None:
    if not run_dir.metrics.exists():
        return None
    return next((r.name for r in reversed(_records(run_dir)) if isinstance(r, CheckpointSaved)), None)
