"""The strip of a supervisor: the phases of real runs of the stub trainer, on the time axis of the machine."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from mission_tui.fleet.strip import Lane, Span, Strip
from mission_tui.ipc.replies import StripReply
from mission_tui.ipc.requests import GetStrip, Resume
from tests.nvml import Machine, needs_gcc
from tests.supervisor.conftest import Lab
from tests.waiting import until

pytestmark = pytest.mark.slow


MARK_S = 0.1


def strip_shown(lab: Lab, seconds: float = 240.0) -> Strip:
    """The last `seconds` as finely as they are kept."""
    reply = lab.ask(lambda id_: GetStrip(id=id_, seconds=seconds, most=1000))
    assert isinstance(reply, StripReply)
    return reply.strip


def lane_of(lab: Lab, run: str) -> Lane | None:
    return next((lane for lane in strip_shown(lab).lanes if lane.run == run), None)


def truth(run_dir: Path) -> list[tuple[str, float]]:
    """When each phase began, by the stub's own word."""
    lines = (run_dir / "phases").read_text(encoding="ascii").splitlines()
    return [(phase, float(t)) for phase, t in (line.split() for line in lines)]


def missing(lab: Lab, told: dict[str, list[tuple[str, float]]]) -> list[tuple[str, float]]:
    """The marks that the strip does not show within 100 ms."""
    shown = {lane.run: lane.spans for lane in strip_shown(lab).lanes}
    return [mark for run, marks in told.items() for mark in marks if not near(shown.get(run, ()), *mark)]


def near(spans: tuple[Span, ...], phase: str, t: float) -> bool:
    """Whether a span of `phase` begins at `t`."""
    return any(span.phase == phase and abs(span.since - t) < MARK_S for span in spans)


def test_the_marks_of_four_runs_agree_with_the_truth(lab: Lab) -> None:
    """Four runs in phases of different lengths: each change is within 100 ms of the moment when it was, also of the
    run that says nothing but its rows, and of those that have ended.
    """
    phases = ("0.4,0.3", "0.7,0.15", "0.2,0.5", "0.3,0.3")
    runs = [lab.launch(STUB_PHASES=each)[0] for each in phases[:-1]]
    runs += lab.launch(STUB_PHASES=phases[-1], STUB_MUTE="1")
    for run in runs:
        lab.wait(run, lambda view: (view.update or 0) >= 4)
    lab.act("stop", runs[0])
    lab.ended(runs[0])
    asked = time.time()
    told = {run: [(phase, t) for phase, t in truth(lab.dir(run).path) if t < asked] for run in runs}
    assert all(len(marks) >= 6 for marks in told.values())
    until(lambda: not missing(lab, told), 20, "the last rows are read")
    lanes = strip_shown(lab).lanes
    assert [lane.run for lane in lanes] == [*runs[1:], runs[0]]
    assert all(before.until <= after.since + 1e-6 for lane in lanes for before, after in pairwise(lane.spans))
    assert lanes[-1].spans[-1].until < asked


def test_a_frozen_run_has_a_gap(lab: Lab) -> None:
    """While its processes stand there is no span, and it goes on in the phase in which it stood."""
    (run,) = lab.launch(STUB_PHASES="0.3,0.2")
    lab.running(run, 2)
    lab.act("freeze", run)
    lab.wait(run, lambda view: view.state == "frozen")
    begun = time.time()
    until(lambda: time.time() > begun + 1.0)
    lane = lane_of(lab, run)
    assert lane is not None
    assert max(span.until for span in lane.spans) < begun + 0.5
    lab.ask(lambda id_: Resume(id=id_, run=run))
    until(lambda: (again := lane_of(lab, run)) is not None and again.spans[-1].since > begun + 1.0)


def test_a_new_supervisor_knows_the_phases_from_the_rows(lab: Lab) -> None:
    """Killed and started again it shows what was before, and while nobody watched."""
    (run,) = lab.launch(STUB_PHASES="0.3,0.2")
    lab.running(run, 3)
    assert lab.supervisor is not None
    lab.supervisor.kill()
    lab.supervisor.wait()
    lab.start()
    lab.running(run, 5)
    told = truth(lab.dir(run).path)[:8]
    until(lambda: not missing(lab, {run: told}), 20, "all of its rows are read")


@needs_gcc
def test_power_and_processors_share_the_axis(idle_lab: Lab, machine: Machine) -> None:
    """A GPU of 70 W that is 40 % busy, and the host's processors: cells of the last seconds, in unix time."""
    idle_lab.start(**machine.environ)
    begun = time.time()
    strip = until(
        lambda: (made := strip_shown(idle_lab)).gpus and len(made.gpus[0].power) > 2 and made.cpu and made, 30
    )
    assert isinstance(strip, Strip)
    (gpu,) = strip.gpus
    assert (gpu.uuid, {cell.mean for cell in gpu.busy}) == ("GPU-a", {40.0})
    assert {(cell.least, cell.most) for cell in gpu.power} == {(70.0, 70.0)}
    assert all(0.0 <= cell.mean <= 100.0 for cell in strip.cpu)
    times = [cell.t for track in (gpu.busy, gpu.power, strip.cpu) for cell in track]
    assert begun - 12.0 < min(times) <= max(times) <= strip.until
