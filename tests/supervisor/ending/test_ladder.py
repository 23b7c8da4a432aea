"""The supervisor's part of the kill ladder: it asks first, and has the process terminated when asking does not help."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.fleet.events.processes import PhaseSeen
from mission_tui.ipc.telemetry_messages import Order
from mission_tui.records.jsonl import Tail
from mission_tui.records.runs.layout import RunDir, supervisor_dir
from mission_tui.supervisor.ending import ladder
from mission_tui.supervisor.host.identity import Process, open_process
from mission_tui.supervisor.host.process_files import hanging
from mission_tui.supervisor.launchers.local import FoundProcesses, Keepers, LocalLauncher
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.journal import RunJournal
from mission_tui.supervisor.runs.live_run import LiveRun
from tests.supervisor.conftest import Lab, stub_spec
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
    hold_trainer(run, process.pid)
    ladder.stop_gracefully(core, run)
    assert [order.what for order in link.orders] == ["stop"]
    assert process.poll() is None
    await asyncio.to_thread(until, lambda: process.poll() is not None)
    assert process.returncode == -signal.SIGTERM
    run.release()


async def test_a_command_that_reports_may_see_the_stop_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told over its link; SIGTERM comes soon after, because not every loop asks whether it should stop."""
    monkeypatch.setattr(ladder, "COMMAND_PATIENCE_S", 0.2)
    core, run, link = a_core(tmp_path), a_run(tmp_path, command=("sleep", "60")), DeafLink()
    core.add(run.dir, run.spec)
    run.link = link  # type: ignore[assignment]
    process = psutil.Popen(["sleep", "60"])
    hold_trainer(run, process.pid)
    ladder.stop_gracefully(core, run)
    assert [order.what for order in link.orders] == ["stop"]
    assert process.poll() is None
    await asyncio.to_thread(until, lambda: process.poll() is not None, 5)
    assert process.returncode == -signal.SIGTERM
    run.release()


async def test_a_command_that_says_it_saves_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever answers a stop by saving has seen it, and gets the patience that a trainer gets."""
    monkeypatch.setattr(ladder, "COMMAND_PATIENCE_S", 0.1)
    monkeypatch.setattr(ladder, "LEAST_PATIENCE_S", 1.0)
    core, run = a_core(tmp_path), a_run(tmp_path, command=("sleep", "60"))
    core.add(run.dir, run.spec)
    run.link = DeafLink()  # type: ignore[assignment]
    process = psutil.Popen(["sleep", "60"])
    hold_trainer(run, process.pid)
    begun = time.monotonic()
    ladder.stop_gracefully(core, run)
    core.apply(run.id, PhaseSeen("saving", time.time()))
    await asyncio.to_thread(until, lambda: process.poll() is not None, 5)
    assert time.monotonic() - begun >= 1.0
    run.release()


async def test_patience_follows_the_measured_update(tmp_path: Path) -> None:
    """A minute, or twice the last rollout and update where that is longer."""
    core, run = a_core(tmp_path), a_run(tmp_path)
    core.add(run.dir, run.spec)
    assert ladder.patience_s(core, run) == 60.0
    core.apply(run.id, UpdateDone(1, 1, 1, 64, 0.0, rollout_s=30.0, update_s=20.0, steps_per_s=1.0))
    assert ladder.patience_s(core, run) == 100.0


def a_core(root: Path) -> Core:
    """The state of a supervisor of an empty runs root."""
    supervisor_dir(root).mkdir()
    return Core(root, {"local": LocalLauncher()})


def a_run(root: Path, **changed: object) -> LiveRun:
    """A live run without files; `changed` are fields of its spec's `run`."""
    run = RunDir(root / "20260101-000000-stub-0000")
    run.path.mkdir()
    spec = stub_spec()
    spec = structs.replace(spec, run=structs.replace(spec.run, **changed))
    return LiveRun(run, spec, LocalLauncher(), RunJournal(run.events), Tail(run.metrics, MetricRecord), attempt=1)


class Orphans(Keepers):
    """Trainers without keepers."""

    trainer: Process | None = None

    def find(self, run: RunDir, attempt: int) -> FoundProcesses:
        """The trainer that is there."""
        return FoundProcesses(None, trainer=self.trainer)


def hold_trainer(run: LiveRun, pid: int) -> None:
    """Have process `pid` found as the trainer of the keeperless run."""
    orphans = Orphans()
    orphans.trainer = open_process(pid)
    run.launcher = LocalLauncher(orphans)
    assert run.poll().stage == "keeperless"


def deaf_run(root: Path, core: Core, grace_s: float = 30.0) -> tuple[LiveRun, psutil.Popen]:
    """A keeperless run whose trainer ignores SIGTERM."""
    run = a_run(root, grace_s=grace_s)
    core.add(run.dir, run.spec)
    core.live[run.id] = run
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    process = psutil.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, process_group=0)
    assert process.stdout.readline()
    hold_trainer(run, process.pid)
    return run, process


async def test_without_a_keeper_the_ladder_is_climbed_from_here(tmp_path: Path) -> None:
    """TERM, its grace, and then KILL to the group of a trainer that obeys nobody."""
    core = a_core(tmp_path)
    run, process = deaf_run(tmp_path, core, 0.3)
    ladder.stop_gracefully(core, run)
    await asyncio.to_thread(until, lambda: process.poll() is not None)
    assert process.returncode == -signal.SIGKILL
    process.stdout.close()
    run.release()


async def test_a_save_that_grows_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the unfinished checkpoint grows between two looks nobody is killed; when it stands, the ladder goes on."""
    monkeypatch.setattr(ladder, "SAVE_LOOK_S", 0.2)
    core = a_core(tmp_path)
    run, process = deaf_run(tmp_path, core, 0.5)
    member = run.dir.checkpoints / ".tmp-1" / "weights"
    member.parent.mkdir(parents=True)
    ladder.stop_gracefully(core, run)
    loop = asyncio.get_running_loop()
    growing: asyncio.Handle = loop.call_soon(member.touch)

    def grow() -> None:
        """By the loop's own timers: however late it is, one of them is due between two looks."""
        nonlocal growing
        with member.open("ab") as file:
            file.write(b"x")
        growing = loop.call_later(0.02, grow)

    grow()
    begun = time.monotonic()
    while time.monotonic() - begun < 1.4:
        assert process.poll() is None
        await asyncio.sleep(0.02)
    growing.cancel()
    await asyncio.to_thread(until, lambda: process.poll() is not None)
    process.stdout.close()
    run.release()


async def test_who_survives_sigkill_is_admitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is flagged as unkillable, and the log has pid, state and wait channel."""
    monkeypatch.setattr(ladder, "KILL_WAIT_S", 0.1)
    monkeypatch.setattr(Process, "send_to_group", lambda _self, _number: True)  # as from a driver that never returns
    core = a_core(tmp_path)
    run, process = deaf_run(tmp_path, core)
    ladder.kill_now(core, run)
    await asyncio.to_thread(until, lambda: "unkillable" in core.store.view(run.id).flags)
    assert hanging(process.pid).startswith(f"pid {process.pid} (state S")
    process.kill()
    process.wait()
    process.stdout.close()
    run.release()


@pytest.mark.slow
def test_whom_sigkill_did_not_end_is_shown_until_gone(lab: Lab) -> None:
    """The exit record names who was left; the run is flagged while that process is there, and no longer."""
    (run,) = lab.launch()
    lab.running(run, 2)
    lab.act("stop", run)
    lab.ended(run)
    lab.kill_supervisor()
    left = subprocess.Popen(["sleep", "60"])
    record = lab.dir(run).attempt(1).exit
    facts = json.loads(record.read_bytes()) | {"left": [{"pid": left.pid, "state": "D", "wchan": "nv_wait"}]}
    record.write_text(json.dumps(facts))
    lab.start()
    assert lab.view(run).flags == ("unkillable",)
    left.kill()
    left.wait()
    lab.wait(run, lambda view: view.flags == ())
