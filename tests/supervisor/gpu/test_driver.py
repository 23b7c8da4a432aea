"""Whether a driver is here is what NVML says, in a process that may hang; whatever goes wrong there is one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from mission_tui import gpu_driver
from mission_tui.cli.tables.runs import machine_line
from mission_tui.cli.verbs.doctor import gpu_checks, judge_gpus
from mission_tui.gpu_driver import Driver, ask_driver
from mission_tui.supervisor.gpu import watch as gpu
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.tui.screens.machine import machine_lines
from tests.nvml import LIBRARY, ONE, TWO, Machine, needs_gcc, stand_in_module
from tests.supervisor.gpu_watching import meets
from tests.tui.fleets import a_fleet, host
from tests.waiting import until

BROKEN = {
    "RuntimeError('the driver is odd')": "RuntimeError: the driver is odd",
    "OSError(5, 'Input/output error')": "OSError: [Errno 5] Input/output error",
    "KeyError('nvmlInit_v2')": "KeyError: 'nvmlInit_v2'",
    "UnicodeDecodeError('utf-8', b'x', 0, 1, 'odd')": "UnicodeDecodeError: ",
    "ValueError('two\\nlines\\x1b[31m')": "ValueError: two lines",
    "type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()": "Mute",
    "SystemExit(3)": "SystemExit: 3",
    "type('Fatal', (BaseException,), {})('no more')": "Fatal: no more",
}


@needs_gcc
def test_a_driver_is_found_by_asking_nvml_alone(machine: Machine) -> None:
    """As in WSL2: no `/dev/nvidiactl` and nothing in /proc, and NVML answers. `doctor` names the release."""
    machine.has(TWO + "named 475455\n")
    assert ask_driver() == Driver("580.82.07", ("GTU", "GTU"))
    check, *sharing = gpu_checks({})
    assert "driver 580.82.07" in check.detail
    assert [each.name for each in sharing] == ["mps"]


@needs_gcc
def test_the_library_of_wsl_is_found_where_the_loader_does_not_look(library: Path, tmp_path: Path) -> None:
    """WSL2 mounts it in a folder of its own, which not every distribution has in its loader's list."""
    (tmp_path / "machine").write_text(ONE)
    code = (
        "import ctypes\n"
        "from pathlib import Path\n"
        "from mission_tui.supervisor.gpu import driver, nvml\n"
        "load = ctypes.CDLL\n"
        "def found(name, *given, **named):\n"  # on a machine that has one of its own
        f"    if name == {LIBRARY!r}: raise OSError(f'{{name}}: cannot open shared object file')\n"
        "    return load(name, *given, **named)\n"
        "ctypes.CDLL = nvml.pynvml.CDLL = found\n"
        f"nvml.WSL_LIBRARY = Path({str(library / LIBRARY)!r})\n"
        "driver.main()\n"
    )
    environ = {**os.environ, "FAKE_NVML": str(tmp_path / "machine"), "LD_LIBRARY_PATH": str(tmp_path)}
    said = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True).stdout
    assert '"gpus": ["Stub"]' in said


@needs_gcc
async def test_meters_work_where_only_nvml_knows_of_the_gpu(
    machine: Machine, watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once NVML has named a GPU there is one, also between two probes; no file of the kernel's is asked."""
    monkeypatch.setattr(gpu, "may_be_here", lambda: False)
    assert not watch.present()
    await meets(watch, lambda: watch.gpus)
    watch.tick(wanted=False)
    assert watch.gpus == ()
    assert watch.present()


@needs_gcc
def test_a_driver_that_hangs_costs_a_moment_and_no_process(machine: Machine) -> None:
    """`doctor` says that it does not answer, and goes on."""
    machine.has(ONE + "hang init\n")
    found = ask_driver(0.5)
    assert found == Driver(why="the driver has not answered for 0.5 s")
    until(lambda: not _askers(), 5)
    check = judge_gpus(found, "580.82.07", "12.8")
    assert (check.level, check.detail.startswith("driver 580.82.07 is loaded, but NVML cannot be asked: ")) == (
        "warn",
        True,
    )


@needs_gcc
def test_a_library_on_the_loaders_path_is_asked_and_no_device_is_looked_for(
    machine: Machine, library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prices count a GPU wherever NVML lists one; without a library in any of the loader's places nobody is asked."""
    monkeypatch.setattr(gpu_driver, "_LOADER_FOLDERS", ())
    monkeypatch.setattr(gpu_driver, "LOADER_CACHE", tmp_path / "cache")
    has_gpu = gpu_driver.has_gpu.__wrapped__
    assert has_gpu()
    machine.has("")
    assert not has_gpu()
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert not gpu_driver.may_be_here()
    (tmp_path / "cache").write_bytes(b"glibc-ld.so.cache1.1\0libnvidia-ml.so.1\0")
    assert gpu_driver.may_be_here()
    monkeypatch.setattr(gpu_driver, "LOADER_CACHE", tmp_path / "none")
    monkeypatch.setattr(gpu_driver, "WSL_LIBRARY", library / LIBRARY)
    assert gpu_driver.may_be_here()


@needs_gcc
@pytest.mark.parametrize("amd", [False, True])
def test_a_machine_without_the_library_says_what_is_known_of_it(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amd: bool
) -> None:
    """A container without NVIDIA's runtime on a machine with a driver; a GPU of AMD, which is not supported."""
    machine.has("fail init 9\n")
    module, cards = tmp_path / "version", tmp_path / "drm"
    for name, path in (("MODULE", module), ("CARDS", cards), ("AMD_COMPUTE", tmp_path / "kfd")):
        monkeypatch.setattr(gpu_driver, name, path)
    assert gpu_driver.why_nobody_answers() == ""
    vendor = cards / "card0" / "device" / "vendor"
    vendor.parent.mkdir(parents=True)
    vendor.write_text("0x1002\n" if amd else "0x8086\n")
    if amd:
        assert gpu_driver.why_nobody_answers() == "AMD GPU not supported: CPU, RAM and phases are shown"
        assert gpu_checks({})[0].detail == gpu_driver.why_nobody_answers()
        code = (
            "from pathlib import Path\n"
            "from mission_tui import gpu_driver\n"
            f"gpu_driver.CARDS, gpu_driver.MODULE = Path({str(cards)!r}), Path({str(module)!r})\n"
            "from mission_tui.supervisor.gpu import probe\n"
            "probe.main()\n"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert f'"note":"{gpu_driver.why_nobody_answers()}"' in said
    else:
        module.write_text("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Thu\n")
        assert gpu_driver.why_nobody_answers().startswith("no GPU: driver 580.82.07 is loaded, but not its library")
        assert "NVIDIA Container Toolkit" in gpu_checks({})[0].advice


@needs_gcc
def test_a_container_that_may_not_open_the_devices_is_told_how(machine: Machine) -> None:
    """Rootless, with the library but without the right to the devices."""
    machine.has(ONE + "fail init 4\n")
    check, *_ = gpu_checks({})
    assert (check.level, "rootless container" in check.advice) == ("warn", True)


def _askers() -> list[int]:
    done = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "gpu.driver"], capture_output=True, text=True, check=False
    )
    return [int(word) for word in done.stdout.split()]


def test_what_nvml_says_is_told_apart() -> None:
    """No driver is a fact; a driver without GPUs, one without its library and one that fails are worth a warning."""
    absent = Driver(why="NVML Shared Library Not Found", absent=True)
    assert judge_gpus(absent, None, "12.8").level == "note"
    assert "NVIDIA Container Toolkit" in judge_gpus(absent, "580.82.07", "12.8").advice
    assert "lists no GPU" in judge_gpus(Driver("580.82.07"), "580.82.07", "12.8").detail
    assert judge_gpus(Driver("580.82.07", ("A",)), None, "12.8").level == "ok"
    assert "NVML cannot be asked: odd" in judge_gpus(Driver(why="odd"), None, "12.8").detail


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A `pynvml` whose first call raises what is asked for; the words that are to be said of it."""
    names = (
        "NVMLError",
        *(f"NVMLError_{name}(NVMLError)" for name in ("NotSupported", "NoPermission", "InvalidArgument")),
        *(f"NVMLError_{name}(NVMLError)" for name in ("FunctionNotFound", "NotFound", "GpuIsLost")),
        "NVMLError_LibRmVersionMismatch(NVMLError)",
    )
    classes = "".join(f"class {name if '(' in name else name + '(Exception)'}: pass\n" for name in names)
    source = f"{classes}def nvmlInit(): raise {request.param}\n"
    for name, value in stand_in_module(tmp_path, source).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(gpu_driver, "MODULE", tmp_path / "version")
    return BROKEN[request.param]


@pytest.mark.parametrize("broken", BROKEN, indirect=True)
async def test_any_exception_is_one_sentence_in_status_on_the_screen_and_in_doctor(
    broken: str, watch: GpuWatch
) -> None:
    """Whatever class it is of, also one that is no `Exception`, and whatever it says of itself."""
    await meets(watch, lambda: watch.note)
    said = f"GPU meters stopped: {broken}"
    assert watch.note.startswith(said)
    assert watch.note.endswith(f"; {gpu.GOES_ON}; tried again in 1 s")
    assert watch.note.isprintable()
    seen = structs.replace(a_fleet(gpus=()), host=host(gpu_note=watch.note))
    assert machine_line(seen).count(watch.note) == 1
    strips, _ = machine_lines(seen, (), 400, sort="age", chosen=None)
    assert sum(watch.note in strip.text for strip in strips) == 1
    check, *_ = gpu_checks({})
    assert check.level == "warn"
    assert check.detail.startswith(f"NVML cannot be asked: {broken}")
    assert check.detail.endswith("; trainings may use the CPU")
    assert check.detail.isprintable()
