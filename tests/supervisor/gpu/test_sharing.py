"""Who uses a GPU, and GPUs that are cut into instances, through a real driver library's interface."""

from __future__ import annotations

import asyncio
import mmap
import os
import shutil
from pathlib import Path

import pytest

from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.host import process_files
from mission_tui.supervisor.host.process_files import GpuHolders, read_stat
from tests.nvml import GIB, ONE, TWO, Machine, needs_gcc
from tests.supervisor.gpu_watching import meets

HELD = f"process 0 41 {GIB}\nprocess 0 42 {GIB}\n"


@pytest.mark.slow
@needs_gcc
async def test_a_process_is_told_what_it_takes_of_a_gpu(machine: Machine, watch: GpuWatch) -> None:
    """The mean of its samples, over all GPUs; nothing for one that only holds memory; absurd percents do not count."""
    machine.has(TWO + HELD + "using 0 41 30\nusing 0 41 50\nusing 0 41 4000000\nprocess 1 41 5\nusing 1 41 20\n")
    await meets(watch, lambda: watch.used)
    assert watch.used == {41: 60.0, 42: 0.0}
    for nobody in ("", "fail nobody 1\n"):
        # Drivers say "not found" or "success" where nothing was at work.
        machine.has(TWO + HELD.replace("42", "43") + nobody)
        await meets(watch, lambda: watch.used == {41: 0.0, 43: 0.0})
        machine.has(TWO + HELD + "using 0 41 30\n")
        await meets(watch, lambda: watch.used == {41: 30.0, 42: 0.0})


@needs_gcc
async def test_under_mps_nobody_is_called_idle(machine: Machine, watch: GpuWatch, tmp_path: Path) -> None:
    """All kernels are its server's there: five trainings that kept an H100 78 % busy were each told to use 0 %."""
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / "nvidia-cuda-mps-server")
    server = await asyncio.create_subprocess_exec(program, "60")
    try:
        machine.has(ONE + HELD + f"using 0 {server.pid} 78\n")
        await meets(watch, lambda: watch.held == {41: GIB, 42: GIB})
        assert watch.used == {}
    finally:
        server.kill()
        await server.wait()
    machine.has(ONE + HELD + "using 0 41 78\n")
    await meets(watch, lambda: watch.used == {41: 78.0, 42: 0.0})


@needs_gcc
@pytest.mark.parametrize("code", [2, 3, 4, 13])
async def test_where_the_driver_does_not_tell_shares_are_unknown(machine: Machine, watch: GpuWatch, code: int) -> None:
    """Invalid, not supported, no permission, no such function: memory is known and the share is not, and it goes on."""
    machine.has(ONE + HELD + f"using 0 41 30\nfail using {code}\n")
    await meets(watch, lambda: watch.held)
    assert watch.used == {}
    assert watch.note == ""


@needs_gcc
async def test_a_gpu_in_mig_mode_is_listed_as_its_instances(machine: Machine, watch: GpuWatch) -> None:
    """Each by its own UUID with its own memory and its GPU's UUID; what only whole GPUs tell is unknown."""
    instances = f"mig 0 MIG-x {GIB} {3 * GIB}\nmig 0 MIG-y 0 {3 * GIB}\n"
    machine.has(TWO + instances + HELD.replace("process 0", "process 1001"))
    await meets(watch, lambda: len(watch.gpus) == 3 and watch.gpus[2].history)
    first, second, whole = watch.gpus
    assert [(gpu.uuid, gpu.parent) for gpu in watch.gpus] == [("MIG-x", "GPU-a"), ("MIG-y", "GPU-a"), ("GPU-b", "")]
    assert (first.memory_used, second.memory_used, first.memory_total) == (GIB, 0, 3 * GIB)
    assert (first.util.now, first.power_w, first.temperature_c, first.history) == (None, None, None, ())
    assert (whole.util.now, whole.temperature_c) == (90.0, 55)
    assert watch.held == {41: GIB, 42: GIB}
    assert watch.used == {}


@pytest.mark.slow
@needs_gcc
async def test_mig_mode_without_instances_is_said_and_mode_may_change(machine: Machine, watch: GpuWatch) -> None:
    """A GPU that nobody can use as it is; then it gets an instance, then it is whole again."""
    machine.has(ONE + "migmode 0\n")
    await meets(watch, lambda: watch.gpus)
    assert [gpu.name for gpu in watch.gpus] == ["Stub (MIG mode, no instances)"]
    machine.has(ONE + f"mig 0 MIG-x 0 {GIB}\n")
    await meets(watch, lambda: [gpu.uuid for gpu in watch.gpus] == ["MIG-x"])
    machine.has(ONE)
    await meets(watch, lambda: [gpu.name for gpu in watch.gpus] == ["Stub"] and watch.gpus[0].util.now == 40.0)


def test_only_a_process_that_has_a_gpu_open_holds_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that the driver tells may be a process's of another container; what was seen once is not asked."""
    me, stat, held = os.getpid(), read_stat(os.getpid()), {os.getpid(): 7}
    assert stat is not None
    holders, device = GpuHolders(), opened_by(tmp_path, monkeypatch)
    with device.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        assert (holders.hold(me, stat.started), holders.bytes_of(me, held), holders.bytes_of(me, {})) == (True, 7, None)
    assert holders.hold(me, stat.started)
    assert not holders.hold(me, stat.started + 1)
    assert GpuHolders().bytes_of(me, held) is None


def test_who_had_no_gpu_open_is_asked_again_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not at every look, since it is dear, and not never, since it may open one."""
    holders, device = GpuHolders(), opened_by(tmp_path, monkeypatch)
    assert not holders.hold(os.getpid(), 5)
    with device.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ):
        seen = [holders.hold(os.getpid(), 5) for _ in range(20)]
    assert seen == sorted(seen)
    assert not seen[0]
    assert seen[-1]


def opened_by(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that counts as a GPU for whoever maps it."""
    device = folder / "nvidia0"
    device.write_bytes(b"x")
    monkeypatch.setattr(process_files, "_GPU_DEVICES", (str(device),))
    return device
