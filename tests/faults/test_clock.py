"""A clock that is set while runs go on: by two days, by an hour back (row N4). Nothing is purged, cried or put off."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.journal import ClockStepped, FleetEvent
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.health.replay import replay
from mission_tui.fleet.specs.spec import RestartKeep, Spec
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.requests import Remove
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.trash import trashed
from tests.supervisor.conftest import Lab, opened_lab, stub_spec

DAY_S, HOUR_S = 86400, 3600
SOURCE = Path(__file__).with_name("set_clock.c")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class Clock:
    """The clock of a lab's machine."""

    def __init__(self, folder: Path) -> None:
        library, self.file = folder / "set_clock.so", folder / "offset"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
        self.file.write_bytes(bytes(8))
        self.environ = {"LD_PRELOAD": str(library), "SET_CLOCK": str(self.file)}

    def set(self, ahead_s: int) -> None:
        """Show as many seconds more than it is."""
        with self.file.open("r+b", buffering=0) as file:
            file.write(struct.pack("q", ahead_s))

    @property
    def shows(self) -> float:
        (ahead_s,) = struct.unpack("q", self.file.read_bytes())
        return time.time() + float(ahead_s)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path)


@pytest.fixture
def lab(tmp_path: Path, clock: Clock) -> Iterator[Lab]:
    """A runs root with a supervisor, on a machine whose clock can be set."""
    with opened_lab(tmp_path / "runs") as made:
        made.environ |= clock.environ
        made.start()
        yield made


def launched(lab: Lab, clock: Clock, spec: Spec | None = None, **stub: str) -> str:
    # A trainer names its moments by the same clock.
    more: dict[str, Any] = clock.environ | stub
    (run,) = lab.launch(spec=spec, **more)
    return run


def steps(lab: Lab, run: str) -> list[ClockStepped]:
    return [it for it in read_all(lab.dir(run).events, FleetEvent)[0] if isinstance(it, ClockStepped)]


def hangs_in_files(lab: Lab, run: str, spec: Spec) -> list[str]:
    """What a judge that only has the files says."""
    records = read_all(lab.dir(run).metrics, MetricRecord)[0]
    events = read_all(lab.dir(run).events, FleetEvent)[0]
    return [finding.sentence for finding in replay({1: spec}, records, events) if finding.rule == "hang"]


def advanced(lab: Lab, run: str, more: int = 40) -> RunView:
    before = lab.view(run).update or 0
    return lab.wait(run, lambda view: (view.update or 0) >= before + more)


@pytest.mark.slow
@pytest.mark.parametrize("watched", [True, False], ids=["live", "while no supervisor lived"])
def test_n4_two_days_forward_are_no_silence(lab: Lab, clock: Clock, watched: bool) -> None:
    """A run that trains on says nothing for no second more: live, after a restart of the supervisor, and in files."""
    run = launched(lab, clock)
    lab.running(run, 5)
    if not watched:
        lab.kill_supervisor()
    clock.set(2 * DAY_S)
    if not watched:
        lab.start()
    view = advanced(lab, run)
    assert [finding.rule for finding in view.findings] == []
    assert [round(step.by_s / DAY_S, 2) for step in steps(lab, run)] == [2.0]
    assert view.started_t is not None
    assert 0.0 <= clock.shows - view.started_t < 60.0
    lab.act("kill", run)
    lab.ended(run)
    assert hangs_in_files(lab, run, stub_spec()) == []


@pytest.mark.slow
@pytest.mark.parametrize("watched", [True, False], ids=["live", "while no supervisor lived"])
def test_n4_two_days_forward_purge_no_trash(lab: Lab, clock: Clock, watched: bool) -> None:
    """What was removed a minute ago was removed a minute ago, and comes back."""
    run = launched(lab, clock)
    lab.running(run)
    lab.act("kill", run)
    lab.ended(run)
    lab.ask(lambda id_: Remove(id=id_, runs=(run,)))
    other = launched(lab, clock)
    lab.running(other)
    lab.kill_supervisor()
    if watched:
        lab.start()
    clock.set(2 * DAY_S)
    if not watched:
        lab.start()
    # The trash is looked at by the first beat of a supervisor; each update of a run is heard in a later one.
    advanced(lab, other)
    if watched:
        lab.kill_supervisor()
        lab.start()
        advanced(lab, other)
    assert [item.run for item in trashed(lab.root)] == [run]


@pytest.mark.slow
@pytest.mark.parametrize("watched", [True, False], ids=["live", "while no supervisor lived"])
def test_n4_an_hour_back_puts_off_no_restart(lab: Lab, clock: Clock, watched: bool) -> None:
    """What is due in four seconds is due in four seconds, and is shown so."""
    spec = stub_spec()
    keep = structs.replace(spec.keep, restart=RestartKeep(most=1, wait_s=4.0))
    run = launched(lab, clock, structs.replace(spec, keep=keep), STUB_CRASHES_AFTER="3")
    lab.wait(run, lambda view: view.restart)
    if not watched:
        lab.kill_supervisor()
    clock.set(-HOUR_S)
    if not watched:
        lab.start()
    view = lab.wait(
        run, lambda view: view.attempt == 2 or (view.restart and view.restart.due_t < clock.shows + 5.0), 10
    )
    lab.wait(run, lambda view: view.attempt == 2, 15)
    assert view.state in ("queued", "starting", "running")


def test_n4_the_clock_of_the_machine_can_be_set_for_a_test(clock: Clock) -> None:
    """Or the tests above show nothing: only the clock that a person can set moves."""
    clock.set(DAY_S)
    words = "import time; print(time.time(), time.clock_gettime(time.CLOCK_BOOTTIME))"
    said = subprocess.run(
        [shutil.which("python3") or "python3", "-c", words],
        env=os.environ | clock.environ,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert abs(float(said[0]) - time.time() - DAY_S) < 5.0
    assert abs(float(said[1]) - time.clock_gettime(time.CLOCK_BOOTTIME)) < 5.0
