"""Faults of GPUs and their driver (rows G), by a stand-in for `libnvidia-ml.so.1`, first on the loader's path.

The stand-in reads a file at each call, so a test changes the machine while the probe looks at it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.ipc.replies import CleanReply
from mission_tui.ipc.requests import Clean
from mission_tui.supervisor.gpu import watch as gpu
from mission_tui.supervisor.gpu.watch import GpuWatch
from tests.nvml import GIB, LIBRARY, ONE, TWO, Machine, needs_gcc
from tests.supervisor.conftest import Lab
from tests.supervisor.gpu_watching import meets
from tests.waiting import until

pytestmark = needs_gcc


@pytest.mark.parametrize("fault", ["driver", "garbage", "absent"])
async def test_g1_without_library_or_driver_there_is_a_note(
    machine: Machine, watch: GpuWatch, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No driver, a library file that is none, no library at all: no GPU, one sentence, and no probe is left."""
    if fault == "driver":
        machine.has("fail init 9\n")
    else:
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
        if fault == "garbage":
            (tmp_path / LIBRARY).write_bytes(b"no library\n" * 100)
        elif shutil.which("nvidia-smi"):
            pytest.skip("this machine has the real library")
    await meets(watch, lambda: watch.note)
    assert watch.note.startswith("no GPU: ")
    assert not watch.present()
    await meets(watch, lambda: watch._probe is None)


async def test_g2_a_mismatch_after_an_upgrade_says_to_restart_the_machine(machine: Machine, watch: GpuWatch) -> None:
    """The driver's library was replaced under a running one: no GPU for new runs, and what to do about it."""
    await meets(watch, lambda: watch.gpus)
    machine.has(ONE + "fail init 18\nfail handle 18\n")
    await meets(watch, lambda: "restart the machine" in watch.note)
    assert watch.gpus == ()
    assert not watch.present()


async def test_g3_a_lost_gpu_is_flagged_and_the_other_goes_on(machine: Machine, watch: GpuWatch) -> None:
    """One fell off the bus: it is still listed, as lost, with nothing known; the other's numbers move."""
    machine.has(TWO)
    await meets(watch, lambda: len(watch.gpus) == 2)
    machine.has(TWO.replace(" 90 ", " 17 ") + "fail handle 15 0\n")
    await meets(watch, lambda: watch.gpus and "lost" in watch.gpus[0].name and watch.gpus[-1].util.now == 17.0)
    lost, other = watch.gpus
    assert (lost.uuid, lost.util.now, lost.memory_used, lost.temperature_c) == ("GPU-a", None, None, None)
    assert (other.uuid, other.name) == ("GPU-b", "Stub")
    machine.has(TWO.replace(" 90 ", " 18 ") + "fail memory 15 0\nfail busy 15 0\n")
    await meets(watch, lambda: watch.gpus and watch.gpus[-1].util.now == 18.0)
    assert "lost" in watch.gpus[0].name


@pytest.mark.slow
async def test_g4_a_call_that_never_returns_costs_one_probe(
    machine: Machine, watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that hangs in the middle of the work: stale is said, the probe is given up, and it all comes back."""
    monkeypatch.setattr(gpu, "SILENT_S", 1.0)
    await meets(watch, lambda: watch.gpus)
    machine.has(ONE + "hang busy\n")
    await meets(watch, lambda: "stale" in watch.note)
    assert len(watch._abandoned) <= 2
    machine.has(ONE)
    await meets(watch, lambda: watch.gpus and not watch.note)


async def test_g6_gpus_are_told_apart_by_uuid_when_their_order_changes(machine: Machine, watch: GpuWatch) -> None:
    """The order turns round, then one is another: histories belong to UUIDs, and a new one begins empty."""
    machine.has(TWO)
    await meets(watch, lambda: len(watch.gpus) == 2)
    machine.has("".join(reversed(TWO.splitlines(keepends=True))))
    await meets(watch, lambda: watch.gpus and watch.gpus[0].uuid == "GPU-b")
    assert {each.uuid: set(each.history) for each in watch.gpus} == {"GPU-a": {40.0}, "GPU-b": {90.0}}
    machine.has(ONE.replace("GPU-a", "GPU-c").replace(" 40 ", " 5 "))
    await meets(watch, lambda: len(watch.gpus) == 1)
    assert (watch.gpus[0].uuid, set(watch.gpus[0].history)) == ("GPU-c", {5.0})


async def test_g7_absurd_values_are_unknown(machine: Machine, watch: GpuWatch) -> None:
    """A hundred thousand watts, four million degrees, more memory used than there is: none of it is shown as true."""
    machine.has(f"gpu GPU-a 900 {9 * GIB} {8 * GIB} 100000000 4000000\n")
    await meets(watch, lambda: watch.gpus)
    (seen,) = watch.gpus
    assert (seen.util.now, seen.temperature_c, seen.power_w) == (None, None, None)
    assert "busy: NVML says 900 %" in watch.note
    assert (seen.memory_used, seen.memory_total) == (None, 8 * GIB)


def stale(lab: Lab) -> list[int | None]:
    """Processes that `clean` lists, after asking it to remove every one."""
    listed = lab.ask(lambda id_: Clean(id=id_))
    assert isinstance(listed, CleanReply)
    lab.ask(lambda id_: Clean(id=id_, remove=tuple(it.key for it in listed.stale)))
    return [it.pid for it in listed.stale if it.kind == "process"]


def test_g8_a_busy_gauge_is_no_proof_of_a_leftover(idle_lab: Lab, machine: Machine) -> None:
    """A hundred percent and nobody there, as after SIGKILL in a kernel: shown as it is, and nobody is looked for."""
    machine.has(ONE.replace(" 40 ", " 100 "))
    idle_lab.start(**machine.environ)
    (run,) = idle_lab.launch()
    idle_lab.running(run)
    idle_lab.act("kill", run)
    idle_lab.ended(run)
    shown = until(lambda: idle_lab.snapshot().gpus, 10)
    assert shown[0].util.now == 100.0
    assert stale(idle_lab) == []
    assert idle_lab.snapshot().stale == ()


def test_g9_memory_of_somebody_else_is_nobodys_to_remove(idle_lab: Lab, machine: Machine) -> None:
    """A process that is none of ours holds six gigabytes: neither listed nor touched, whatever is asked."""
    with subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"]) as foreign:
        machine.has(ONE + f"process 0 {foreign.pid} {6 * GIB}\nprocess 0 {os.getpid()} {GIB}\n")
        idle_lab.start(**machine.environ)
        (run,) = idle_lab.launch()
        idle_lab.running(run)
        until(lambda: idle_lab.snapshot().gpus, 10)
        idle_lab.act("kill", run)
        idle_lab.ended(run)
        assert stale(idle_lab) == []
        assert foreign.poll() is None
        foreign.kill()
