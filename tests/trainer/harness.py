"""Tiny trainings for tests: specs, run directories, and attempts run in this process with orders at chosen moments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch as th

from mission_tui.fleet.events.metrics import CheckpointSaved, MetricRecord, TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.__main__ import train
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.record import Record
from mission_tui.trainer.state.boundary import Tensors
from mission_tui.trainer.state.checkpoint import load_checkpoint

TINY: dict[str, dict[str, Any]] = {
    "env": {"id": "CartPole-v1", "n_envs": 2, "vec": "inline"},
    "ppo": {"n_steps": 32, "batch_size": 32, "n_epochs": 2, "net_arch": [8]},
    "run": {"total_timesteps": 6 * 64, "seed": 3, "device": "cpu"},
    "keep": {"checkpoint": {"every_s": 600.0, "last": 3, "spread": 0}},
}
PROBES = {"imports": ["tests.trainer.probe_envs"]}

Hook = Callable[[TelemetryMessage, Orders], None]


def spec_with(**tables: dict[str, Any]) -> Spec:
    """`TINY` (6 updates of 64 steps) with the given keys of its tables changed."""
    merged = {name: TINY[name] | tables.get(name, {}) for name in TINY}
    return msgspec.convert({"preset": "tiny", **merged}, Spec)


def new_run(path: Path, spec: Spec) -> RunDir:
    """A run directory with nothing but its spec."""
    path.mkdir(parents=True)
    run_dir = RunDir(path)
    write_spec(run_dir.spec, spec)
    return run_dir


@dataclass
class Ran:
    """What an attempt left behind."""

    run_dir: RunDir
    exit_code: int
    said: list[TelemetryMessage] = field(default_factory=list)

    def records(self) -> list[MetricRecord]:
        rows, damage = read_all(self.run_dir.metrics, MetricRecord)
        assert damage == []
        return rows

    def updates(self) -> list[UpdateDone]:
        return [row for row in self.records() if isinstance(row, UpdateDone)]

    def saves(self) -> list[CheckpointSaved]:
        return [row for row in self.records() if isinstance(row, CheckpointSaved)]

    def started(self) -> TrainingStarted:
        return [row for row in self.records() if isinstance(row, TrainingStarted)][-1]

    def ended(self) -> TrainingEnded:
        last = self.records()[-1]
        assert isinstance(last, TrainingEnded)
        return last

    def parameters(self) -> Tensors:
        """Parameters in the checkpoint that the attempt ended with."""
        name = self.ended().checkpoint
        assert name is not None
        return load_checkpoint(self.run_dir.checkpoints / name).boundary.parameters


def run_attempt(
    run_dir: RunDir,
    number: int = 1,
    checkpoint: str | None = None,
    hook: Hook | None = None,
    orders: Orders | None = None,
) -> Ran:
    """Run an attempt in this process; `hook` sees every telemetry message and may give orders at that moment."""
    attempt, orders, ran = Attempt(run_dir, number, checkpoint), orders or Orders(), Ran(run_dir, -1)

    def say(message: TelemetryMessage) -> None:
        ran.said.append(message)
        if hook is not None:
            hook(message, orders)

    with Record(run_dir, number, say) as record:
        ran.exit_code = train(attempt, record, orders, Link(attempt, {}))
    return ran


def order_in(phase: str, update: int, what: Literal["stop", "pause", "unpause", "checkpoint"]) -> Hook:
    """A hook that gives an order as soon as `phase` after `update` updates begins."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and message.phase == phase and message.update == update:
            orders.obey(Order(what))

    return hook


def stop_in(phase: str, update: int) -> Hook:
    """A hook that asks for a stop as soon as `phase` after `update` updates begins."""
    return order_in(phase, update, "stop")


class Countdown(Orders):
    """Orders to stop at the `looks`-th time that somebody asks, once the update after `update` updates has begun."""

    def __init__(self, update: int, looks: int) -> None:
        super().__init__()
        self._update, self._looks, self._counting = update, looks, False

    def watch(self, message: TelemetryMessage, _orders: Orders) -> None:
        """The hook that starts the countdown."""
        if isinstance(message, PhaseEntered) and message.phase == "update" and message.update == self._update:
            self._counting = True

    def stop_asked(self) -> bool:
        if self._counting:
            self._looks -= 1
            if self._looks == 0:
                self.obey(Order("stop"))
        return super().stop_asked()


def equal(first: Tensors, second: Tensors) -> bool:
    """Whether both hold the same tensors, bit for bit."""
    return first.keys() == second.keys() and all(th.equal(first[name], second[name]) for name in first)


def alike(first: Tensors, second: Tensors, engine: str) -> bool:
    """Whether both hold the same: bit for bit of the stock engine, up to rounding of the fast one."""
    if engine == "stock":
        return equal(first, second)
    within = (th.allclose(first[name], second[name], rtol=0.0, atol=1e-5) for name in first)
    return first.keys() == second.keys() and all(within)


def phases(said: Sequence[TelemetryMessage]) -> list[str]:
    """The phases among `said`, in order."""
    return [message.phase for message in said if isinstance(message, PhaseEntered)]
