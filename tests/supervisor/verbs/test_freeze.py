"""Freeze and thaw over real processes: what stands, what is said of it, and what may and may not follow."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import FleetEvent, RunFrozen, RunThawed
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import Accepted, Launched
from mission_tui.ipc.requests import Launch, Resume
from mission_tui.records.jsonl import read_all
from tests.nvml import stand_in_module
from tests.supervisor.conftest import REPOSITORY, Lab, living, stub_spec
from tests.waiting import until

T = TypeVar("T")

NVML = """
class NVMLError(Exception): pass
class NVMLError_NotSupported(NVMLError): pass
class NVMLError_FunctionNotFound(NVMLError): pass
class NVMLError_NoPermission(NVMLError): pass
class NVMLError_InvalidArgument(NVMLError): pass
class NVMLError_NotFound(NVMLError): pass
NVML_TEMPERATURE_GPU = 0
def holders(): return [int(word) for word in open("{holders}").read().split()]
class Memory:
    def __init__(self): self.used, self.total = len(holders()), 8 << 30
class Rates: gpu = 1
class Process:
    def __init__(self, pid): self.pid, self.usedGpuMemory = pid, 3 << 30
def nvmlInit(): pass
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(i): return i
def nvmlDeviceGetUUID(i): return "GPU-0"
def nvmlDeviceGetName(i): return "Stand-in"
def nvmlDeviceGetMemoryInfo(i): return Memory()
def nvmlDeviceGetUtilizationRates(i): return Rates
def nvmlDeviceGetPowerUsage(i): raise NVMLError_NotSupported
def nvmlDeviceGetTemperature(i, kind): return 61
def nvmlDeviceGetComputeRunningProcesses(i): return [Process(pid) for pid in holders()]
def nvmlDeviceGetGraphicsRunningProcesses(i): return []
"""


def resume(lab: Lab, run: str) -> None:
    """Ask for a resume that must be accepted."""
    assert isinstance(lab.ask(lambda id_: Resume(id=id_, run=run)), Accepted)


def states(lab: Lab, run: str) -> dict[str, str]:
    """State letter by role; workers by number."""
    keeper, trainer, *workers = lab.family(run)
    named = {"keeper": keeper, "trainer": trainer} | {f"w{at}": worker for at, worker in enumerate(workers)}
    return {name: process.status() for name, process in named.items()}


def frozen_run(lab: Lab, workers: int = 0, forks: int = 0) -> str:
    """A run that trained and was frozen."""
    if forks:
        (run,) = lab.launch(STUB_WORKERS=str(workers), STUB_FORKS=str(forks))
    else:
        (run,) = lab.launch(STUB_WORKERS=str(workers))
    lab.running(run, 3)
    lab.act("freeze", run)
    assert lab.view(run).state == "frozen"
    return run


def later(lab: Lab, run: str, seconds: float) -> RunView:
    beat = lab.snapshot().t + seconds
    until(lambda: lab.snapshot().t > beat)
    return lab.view(run)


def holds_still(lab: Lab, run: str) -> RunView:
    """The run's view two beats later; its update did not move meanwhile."""
    # What was written before the freeze may be read a beat after it.
    before, after = (later(lab, run, beats) for beats in (1.5, 2.5))
    assert (after.update, after.state) == (before.update, "frozen")
    return after


def events(lab: Lab, run: str, kind: type[T]) -> list[T]:
    return [event for event in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(event, kind)]


@pytest.mark.slow
def test_every_process_but_the_keeper_stands_and_what_is_held_is_said(lab: Lab) -> None:
    """Trainer, workers and their children are stopped at once; memory is named; resume lets all of them go on."""
    run = frozen_run(lab, workers=3, forks=2)
    stand = states(lab, run)
    assert stand.pop("keeper") == psutil.STATUS_SLEEPING
    assert len(stand) == 1 + 3 + 1 + 2
    assert set(stand.values()) == {psutil.STATUS_STOPPED}
    view = holds_still(lab, run)
    assert view.connected
    assert view.held is not None
    assert view.held.memory_bytes is not None
    assert view.held.memory_bytes > 5 << 20
    assert "of memory stays held" in (view.cause or "")
    resume(lab, run)
    view = lab.running(run, (view.update or 0) + 2)
    assert view.held is None
    assert psutil.STATUS_STOPPED not in states(lab, run).values()


@pytest.mark.slow
def test_what_a_frozen_run_holds_on_the_gpu_is_said_in_bytes(idle_lab: Lab, tmp_path: Path) -> None:
    """As the driver tells them, summed over the run's processes; another's are not counted."""
    lab, device, holders = idle_lab, tmp_path / "dev" / "nvidia0", tmp_path / "holders"
    device.parent.mkdir()
    device.write_bytes(b"\0" * 4096)
    holders.write_text(str(os.getpid()))
    lab.start(**stand_in_module(tmp_path, NVML.format(holders=holders)))
    (run,) = lab.launch(STUB_WORKERS="1", STUB_MAPS=str(device))
    trainer = lab.running(run, 2).pids.trainer
    holders.write_text(f"{os.getpid()} {trainer}")
    until(lambda: [gpu.memory_used for gpu in lab.snapshot().gpus] == [2])
    lab.act("freeze", run)
    view = lab.view(run)
    assert view.held is not None
    assert (view.held.vram_bytes, view.held.gpu) == (3 << 30, True)
    assert " of memory and 3.0 GiB on the GPU stay held" in (view.cause or "")


@pytest.mark.slow
def test_a_frozen_run_stays_frozen_through_a_supervisors_death(lab: Lab) -> None:
    """The next supervisor reads it from the journal, sees it to be true, and can thaw it without the trainer's link."""
    run = frozen_run(lab, workers=1)
    lab.kill_supervisor()
    lab.start()
    view = holds_still(lab, run)
    assert not view.connected
    assert len(events(lab, run, RunFrozen)) == 1
    resume(lab, run)
    lab.running(run, (view.update or 0) + 2)


@pytest.mark.slow
def test_a_run_that_was_thawed_while_nobody_watched_is_said_to_run(lab: Lab) -> None:
    """The journal says frozen, the processes say otherwise: the processes are right, and it is journaled who it was."""
    run = frozen_run(lab)
    trainer = lab.view(run).pids.trainer
    assert trainer is not None
    lab.kill_supervisor()
    os.kill(trainer, signal.SIGCONT)
    lab.start()
    lab.running(run)
    (thawed,) = events(lab, run, RunThawed)
    assert thawed.by == "outside"


@pytest.mark.slow
def test_a_trainer_that_somebody_else_stopped_is_seen_and_said_and_not_killed(lab: Lab) -> None:
    """SIGSTOP from outside shows as frozen, with the reason; `resume` lets it go on; nothing was escalated."""
    (run,) = lab.launch()
    pids = lab.running(run, 2).pids
    assert pids.trainer is not None
    os.kill(pids.trainer, signal.SIGSTOP)
    view = lab.wait(run, lambda view: view.state == "frozen")
    assert "stopped from outside by SIGSTOP" in (view.cause or "")
    resume(lab, run)
    assert lab.running(run, (view.update or 0) + 2).pids.trainer == pids.trainer


def test_a_frozen_run_that_is_asked_to_stop_saves_first(shared_lab: Lab) -> None:
    """It is thawed, saves and ends as stopped, workers included."""
    run = frozen_run(shared_lab, workers=2)
    family = shared_lab.family(run)
    shared_lab.act("stop", run)
    view = shared_lab.ended(run)
    assert (view.outcome, view.held) == ("stopped", None)
    assert view.last_checkpoint is not None
    until(lambda: not living(family))


def test_a_frozen_run_is_killed_at_once(shared_lab: Lab) -> None:
    """SIGKILL needs no thaw, and nothing of the run is left."""
    run = frozen_run(shared_lab, workers=2)
    family = shared_lab.family(run)
    shared_lab.act("kill", run)
    assert shared_lab.ended(run).outcome == "killed"
    until(lambda: not living(family))


def test_a_paused_run_can_be_frozen_and_resume_lets_it_train(shared_lab: Lab) -> None:
    """One resume takes back both, because a person who resumes wants it to run."""
    (run,) = shared_lab.launch()
    shared_lab.running(run, 2)
    shared_lab.act("pause", run)
    shared_lab.wait(run, lambda view: view.state == "paused")
    shared_lab.act("freeze", run)
    view = shared_lab.view(run)
    assert view.state == "frozen"
    resume(shared_lab, run)
    shared_lab.running(run, (view.update or 0) + 2)


def test_a_frozen_run_keeps_no_core_busy(lab: Lab) -> None:
    """What is launched beside it is warned of contention while it trains, and no more while it stands."""
    spec = stub_spec()
    spec = structs.replace(spec, run=structs.replace(spec.run, threads=len(os.sched_getaffinity(0))))
    (run,) = lab.launch(spec=spec)
    lab.running(run)

    def warned() -> bool:
        item = LaunchItem(spec=spec)
        environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
        launched = lab.ask(lambda id_: Launch(id=id_, items=(item,), cwd="/", python=sys.executable, environ=environ))
        assert isinstance(launched, Launched)
        other = launched.runs[0].id
        lab.act("kill", other)
        lab.ended(other)
        return any("1 of them live or queued already" in warning for warning in launched.warnings)

    assert warned()
    lab.act("freeze", run)
    assert not warned()


@pytest.mark.slow
def test_frozen_time_is_no_hang(lab: Lab) -> None:
    """A limit of a second's silence finds nothing in a frozen run, neither meanwhile nor after the thaw."""
    spec = stub_spec()
    hang = structs.replace(spec.keep.health.hang, least_s=1.5, first_s=1.5)
    keep = structs.replace(spec.keep, health=structs.replace(spec.keep.health, hang=hang))
    (run,) = lab.launch(spec=structs.replace(spec, keep=keep))
    lab.running(run, 5)
    lab.act("freeze", run)
    view = holds_still(lab, run)
    view = holds_still(lab, run)
    resume(lab, run)
    view = lab.running(run, (view.update or 0) + 3)
    assert [finding.rule for finding in view.findings if finding.rule == "hang"] == []


def test_what_a_frozen_run_cannot_do_is_refused_with_the_reason(shared_lab: Lab) -> None:
    """Neither a second freeze, nor a pause, nor a checkpoint; nothing is journaled for them."""
    run = frozen_run(shared_lab)
    for verb in ("freeze", "pause", "checkpoint"):
        with pytest.raises(UsageError, match="it is frozen"):
            shared_lab.act(verb, run)


@pytest.mark.slow
def test_a_freeze_that_was_asked_is_finished_by_the_next_supervisor(lab: Lab) -> None:
    """The request is on disk before its signals: killed in between, the supervisor's successor carries it out."""
    (run,) = lab.launch()
    lab.running(run, 2)
    lab.act("freeze", run)
    trainer = lab.view(run).pids.trainer
    assert trainer is not None
    lab.kill_supervisor()
    journal = lab.dir(run).events
    kept = [line for line in journal.read_bytes().splitlines(keepends=True) if b'"kind":"frozen"' not in line]
    journal.write_bytes(b"".join(kept))
    os.kill(trainer, signal.SIGCONT)
    lab.start()
    lab.wait(run, lambda view: view.state == "frozen")
    assert psutil.Process(trainer).status() == psutil.STATUS_STOPPED


def test_a_frozen_run_whose_keeper_is_killed_is_let_go_by_the_kernel_and_trains_on(shared_lab: Lab) -> None:
    """A stopped group that loses its keeper gets CONT and HUP: it goes on, shown as running and keeperless."""
    run = frozen_run(shared_lab)
    keeper, before = shared_lab.view(run).pids.keeper, shared_lab.view(run).update or 0
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    view = shared_lab.running(run, before + 3)
    assert "keeperless" in view.flags
    assert view.outcome is None
