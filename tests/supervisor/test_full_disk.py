"""A full disk under a living fleet: what happens is still written down, nothing new starts, and room brings it back."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from mission_tui.errors import MissionError
from mission_tui.fleet.events.findings import METRICS
from mission_tui.fleet.events.journal import AttemptEnded, DutyDoneSeen, DutyFailureSeen, FleetEvent
from mission_tui.fleet.specs.spec import RestartKeep, RunSpec, Spec
from mission_tui.records.jsonl import read_all
from tests.full_disk import fill, small_disk
from tests.supervisor.conftest import Lab, stub_spec
from tests.waiting import until


@pytest.fixture
def small_lab(tmp_path: Path) -> Iterator[Lab]:
    """A runs root on a file system of 80 MB, with a supervisor."""
    with small_disk(tmp_path / "disk", 80 << 20) as disk:
        lab = Lab(disk / "runs")
        lab.root.mkdir()
        lab.start()
        try:
            yield lab
        finally:
            while processes := lab.processes():
                for process in processes:
                    with suppress(psutil.NoSuchProcess):
                        process.kill()
            assert lab.supervisor is not None
            lab.supervisor.wait(5)


def waits_for_room(lab: Lab, run: str, more: Path) -> bool:
    """Whether the rows of the run wait. Rows could fill the reserve that is given up for events: `more` takes it."""
    more.write_bytes(b"")
    with suppress(OSError), more.open("wb", buffering=0) as file:
        while True:
            file.write(b"0" * 4096)
    return any(each.duty == METRICS for each in lab.view(run).failed_duties)


@pytest.mark.slow
def test_an_end_is_journaled_on_a_full_disk_and_nothing_new_starts(small_lab: Lab) -> None:
    """(root) The reserve is given up for the event; launching is refused with the reason until there is room."""
    lab = small_lab
    (run,) = lab.launch(STUB_UPDATE_S="0.5")
    view = lab.running(run)
    ballast = fill(lab.root.parent)
    assert view.pids.trainer is not None
    os.kill(view.pids.trainer, signal.SIGKILL)
    assert lab.ended(run, 20).kind == "crash"
    events, damage = read_all(lab.dir(run).events, FleetEvent)
    assert damage == []
    assert isinstance(events[-1], AttemptEnded)
    until(lambda: lab.snapshot().host.disk_full, 15)
    with pytest.raises(MissionError, match="is full: nothing new is started"):
        lab.launch()
    ballast.unlink()
    until(lambda: not lab.snapshot().host.disk_full, 20)
    (again,) = lab.launch()
    lab.running(again)


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_full_disk_is_said_of_runs_that_train_and_that_start(small_lab: Lab, tmp_path: Path) -> None:
    """(root) Real trainers: one whose rows wait says so by event, flag and messenger until there is room; one that
    was starting has ended because of the disk, not of a bare exit code.
    """
    lab, told = small_lab, tmp_path / "told"
    lab.kill_supervisor()
    del lab.environ["MISSION_TUI_TRAINER"]
    lab.start()
    spec = stub_spec()
    health = structs.replace(spec.keep.health, on_event=f"cat >> {told}; echo >> {told}")
    spec = structs.replace(spec, keep=structs.replace(spec.keep, health=health))
    (training,) = lab.launch(spec=spec, name="training")
    lab.wait(training, lambda view: (view.update or 0) >= 2, 60)
    (starting,) = lab.launch(name="starting")
    lab.wait(starting, lambda view: view.pids.trainer)
    ballast = fill(lab.root.parent)
    ended = lab.ended(starting, 60)
    assert f"the disk of {lab.root} is full" in (ended.cause or "")
    more = lab.root.parent / "more"
    until(lambda: waits_for_room(lab, training, more), 30)
    view = lab.view(training)
    assert (view.state, "failed-duty" in view.flags) == ("running", True)
    until(lambda: '"event":"failed-duty"' in told.read_text(encoding="utf-8"), 10)
    ballast.unlink()
    more.unlink()
    update = view.update or 0
    view = lab.wait(training, lambda view: (view.update or 0) > update)
    lab.wait(training, lambda view: METRICS not in [each.duty for each in view.failed_duties])
    events, _ = read_all(lab.dir(training).events, FleetEvent)
    said = [event for event in events if isinstance(event, DutyFailureSeen | DutyDoneSeen) and event.duty == METRICS]
    assert [type(event) for event in said[:2]] == [DutyFailureSeen, DutyDoneSeen]


REPORTING = """
import time
import mission_tui.report as report
for steps in range(64, 64 * 10_000, 64):
    time.sleep(0.05)
    report.update(timesteps=steps, approx_kl=0.01)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_full_disk_is_said_of_a_command_that_reports(small_lab: Lab) -> None:
    """(root) Its lines wait in the script, so no row fails: the run says so all the same, and goes on without a gap."""
    lab = small_lab
    (run,) = lab.launch(spec=Spec(preset="command", run=RunSpec(command=(sys.executable, "-c", REPORTING))))
    lab.wait(run, lambda view: view.connected and (view.update or 0) >= 5, 20)
    ballast = fill(lab.root.parent)
    more = lab.root.parent / "more"
    until(lambda: waits_for_room(lab, run, more), 40)
    view = lab.view(run)
    assert (view.state, "failed-duty" in view.flags) == ("running", True)
    ballast.unlink()
    more.unlink()
    before = view.update or 0
    lab.wait(run, lambda view: (view.update or 0) > before + 5, 30)
    lab.wait(run, lambda view: METRICS not in [each.duty for each in view.failed_duties])


@pytest.mark.slow
def test_a_restart_waits_for_room(small_lab: Lab) -> None:
    """(root) While the disk is full a due restart says what it waits for, in the log once; nothing is made of it."""
    lab = small_lab
    spec = stub_spec()
    keep = structs.replace(spec.keep, restart=RestartKeep(most=3, wait_s=2.0))
    (run,) = lab.launch(spec=structs.replace(spec, keep=keep), STUB_UPDATE_S="0.5")
    view = lab.running(run)
    ballast = fill(lab.root.parent)
    assert view.pids.trainer is not None
    os.kill(view.pids.trainer, signal.SIGKILL)
    log = lab.root / ".supervisor" / "supervisor.log"
    lab.wait(run, lambda view: view.restart, 20)
    until(lambda: lab.snapshot().t > due_t(lab, run) + 2, 15)
    assert (lab.view(run).state, lab.dir(run).attempts()) == ("queued", [1])
    assert "waits for the disk" in (lab.view(run).cause or "")
    ballast.unlink()
    lab.wait(run, lambda view: view.attempt == 2 and view.state == "running", 20)
    assert log.read_text(encoding="utf-8").count("restarts wait") == 1


@pytest.mark.slow
def test_a_restart_waits_while_the_disk_has_less_than_it_needs(small_lab: Lab) -> None:
    """(root) Nobody's write has failed yet, but its checkpoints would not fit: it waits with the reason, not parked."""
    lab = small_lab
    spec = stub_spec()
    keep = structs.replace(spec.keep, restart=RestartKeep(most=3, wait_s=0.5))
    (run,) = lab.launch(spec=structs.replace(spec, keep=keep), STUB_UPDATE_S="0.5")
    view = lab.running(run)
    ballast = fill(lab.root.parent, leave_bytes=16 << 20)
    assert view.pids.trainer is not None
    os.kill(view.pids.trainer, signal.SIGKILL)
    view = lab.wait(run, lambda view: view.state == "parked" or "MiB of disk" in (view.cause or ""), 20)
    assert view.state == "queued"
    ballast.unlink()
    lab.wait(run, lambda view: view.attempt == 2 and view.state == "running", 20)


def due_t(lab: Lab, run: str) -> float:
    """When the restart of the run is due, unix seconds."""
    restart = lab.view(run).restart
    assert restart is not None
    return restart.due_t
