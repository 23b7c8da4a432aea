"""A run that holds a GPU and hardly uses it is found from what the driver says of its processes."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.health.gpu_idle import ID
from mission_tui.fleet.specs.spec import KeepSpec
from mission_tui.fleet.specs.thresholds import GpuIdleLimits, HealthKeep
from mission_tui.fleet.tuning.profile import task_of
from mission_tui.fleet.tuning.record import DeviceSpeeds
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.records.tuning_files import keep_speeds
from tests.nvml import GIB, ONE, Machine, needs_gcc
from tests.supervisor.conftest import Lab, stub_spec

SPEC = structs.replace(stub_spec(), keep=KeepSpec(health=HealthKeep(gpu_idle=GpuIdleLimits(looks=2))))


def idle(view: RunView) -> list[Finding]:
    return [finding for finding in view.findings if finding.rule == ID]


def measured_faster_on_the_cpu(lab: Lab) -> None:
    """What `check` would have left behind on a machine with a GPU."""
    speeds = DeviceSpeeds(cpu_s=(1.0,) * 5, gpu_s=(2.0, 2.01, 2.0, 1.99, 2.0))
    keep_speeds(lab.root, {**task_of(SPEC), "host": socket.gethostname()}, "", speeds)


@pytest.mark.slow
@needs_gcc
@pytest.mark.timeout(120)
def test_a_gpu_that_waits_for_rollouts_is_a_finding_while_it_does(
    idle_lab: Lab, machine: Machine, tmp_path: Path
) -> None:
    """Information with the device that was measured to be faster, over once the GPU is used; the other run beside it,
    of which the driver says nothing, is left alone.
    """
    lab = idle_lab
    lab.start(**machine.environ)
    measured_faster_on_the_cpu(lab)
    device = tmp_path / "dev" / "nvidia0"
    device.parent.mkdir()
    device.write_bytes(b"x")
    (run,) = lab.launch(spec=SPEC, STUB_PHASES="0.5,0.02", STUB_MAPS=str(device))
    (other,) = lab.launch(spec=SPEC, STUB_PHASES="0.5,0.02")
    pid = lab.running(run, 1).pids.trainer
    machine.has(ONE + f"process 0 {pid} {GIB}\nusing 0 {pid} 3\n")
    (found,) = idle(lab.wait(run, idle, 60))
    assert (found.severity, found.state, found.advice_set) == ("info", "open", ("run.device=cpu",))
    assert "was 3% busy with it" in found.sentence
    machine.has(ONE + f"process 0 {pid} {GIB}\nusing 0 {pid} 60\n")
    lab.wait(run, lambda view: idle(view)[-1].state == "cleared", 60)
    assert idle(lab.view(other)) == []
