"""The supervisor's part of the kill ladder: it asks first, and has the process terminated when asking does not help."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import psutil
import pytest

from mission_tui.fleet.metrics import MetricRecord, UpdateDone
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.layout import RunDir, supervisor_dir
from mission_tui.records.tail import Tail
from mission_tui.supervisor import ladder
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.identity import see
from mission_tui.supervisor.journal import RunJournal
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.run import LiveRun
from tests.supervisor.conftest import stub_spec
from tests.waiting import until


class DeafLink:
    """A trainer's link that carries orders to nobody."""

    def __init__(self) -> None:
        self.orders: list[Order] = []

    def send(self, order: Order) -> None:
        self.orders.append(order)


async def test_a_trainer_that_does_not_obey_is_terminated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order comes first; after the patience TERM and CONT follow, so that even a stopped process ends."""
    monkeypatch.setattr(ladder, "LEAST_PATIENCE_S", 0.2)
    core, run, link = a_core(tmp_path), a_run(tmp_path), DeafLink()
    core.add(run.dir, run.spec)
    run.link = link  # type: ignore[assignment]
    process = psutil.Popen(["sleep", "60"])
    process.suspend()
    run.trainer = see(process.pid)
    ladder.end_gracefully(core, run)
    assert [order.what for order in link.orders] == ["stop"]
    assert process.poll() is None
    await asyncio.to_thread(until, lambda: process.poll() is not None)
    assert process.returncode == -signal.SIGTERM
    run.release()


async def test_patience_follows_the_measured_update(tmp_path: Path) -> None:
    """A minute, or twice the last rollout and update where that is longer."""
    core, run = a_core(tmp_path), a_run(tmp_path)
    core.add(run.dir, run.spec)
    assert ladder.patience_s(core, run) == 60.0
    core.see(run.id, UpdateDone(1, 1, 1, 64, 0.0, rollout_s=30.0, update_s=20.0, steps_per_s=1.0))
    assert ladder.patience_s(core, run) == 100.0


def a_core(root: Path) -> Core:
    """The state of a supervisor of an empty runs root."""
    supervisor_dir(root).mkdir()
    return Core(root, LocalLauncher())


def a_run(root: Path) -> LiveRun:
    """A live run without files."""
    run = RunDir(root / "20260101-000000-stub-0000")
    run.path.mkdir()
    return LiveRun(run, stub_spec(), RunJournal(run.events), Tail(run.metrics, MetricRecord), attempt=1)
