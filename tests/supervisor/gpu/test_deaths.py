"""What a driver does wrong, by function and by code: one answer is lost, or one sentence says why all are."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pynvml
import pytest
from _pytest.mark import ParameterSet

from mission_tui.cli.verbs.doctor import gpu_checks
from mission_tui.supervisor.gpu import watch as gpu
from mission_tui.supervisor.gpu.line import ProbeLine
from mission_tui.supervisor.gpu.watch import GpuWatch
from mission_tui.supervisor.host.children import start_child
from tests.nvml import GIB, ONE, TWO, Machine, build, needs_gcc
from tests.supervisor.gpu_watching import meets

pytestmark = needs_gcc

GAUGES = (
    "busy",
    "memory",
    "power",
    "temperature",
    "clock",
    "mode",
    "slowed",
    "processes",
    "using",
    "name",
    "uuid",
    "migmode",
)
CODES = (*(code for code in range(1, 31) if code != pynvml.NVML_ERROR_GPU_IS_LOST), 999)
FEW = (2, 999)
"""Of those codes that are all treated alike `make test` tries these, and `make test-all` every one."""
HELD = f"process 0 41 {GIB}\nprocess 1 42 {GIB}\n"


def few_of(codes: list[int]) -> list[ParameterSet]:
    """All of them, most of them slow."""
    return [pytest.param(code, marks=() if code in FEW else pytest.mark.slow) for code in codes]


@pytest.mark.slow
@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.timeout(120)
async def test_a_gauge_that_fails_is_unknown_for_that_gpu_alone(machine: Machine, watch: GpuWatch, gauge: str) -> None:
    """Whatever the code, the other GPU shows all it has, the first all but this; the meters never stop."""
    await meets(watch, lambda: watch.gpus)
    # The probe looks once a second: each gauge meets three codes, and each code meets a gauge.
    for turn, code in enumerate(CODES[GAUGES.index(gauge) :: len(GAUGES)]):
        celsius = 20 + turn
        machine.has(TWO.replace(" 55\n", f" {celsius}\n") + HELD + f"fail {gauge} {code} 0\n")
        await meets(watch, lambda at=celsius: len(watch.gpus) == 2 and watch.gpus[1].temperature_c == at)  # type: ignore[misc]
        first, second = watch.gpus
        assert second.name == "Stub"
        assert (second.memory_used, second.power_w, second.clock_mhz, second.unknown) == (GIB, 50, 1500, ())
        assert "stopped" not in watch.note
        assert first.uuid == "GPU-a"
        assert (gauge == "memory") == (first.memory_used is None)
        assert (gauge == "temperature") == (first.temperature_c is None)
        assert (gauge == "power") == (first.power_w is None)
    assert watch.deaths == 0


@pytest.mark.parametrize("code", few_of([1, 10, 16, 17, 20, 27, 999]))
async def test_a_gauge_that_should_be_known_is_said_with_its_reason(
    machine: Machine, watch: GpuWatch, code: int
) -> None:
    """Timeouts, resets, lack of memory: the machine's note names the GPU, the sampler, and what goes on."""
    machine.has(TWO + f"fail power {code} 0\n")
    await meets(watch, lambda: watch.gpus and watch.note)
    assert watch.gpus[0].power_w is None
    assert watch.gpus[0].unknown[0].startswith("power: ")
    assert watch.note.startswith("GPU meters are incomplete: Stub")
    assert watch.note.endswith("the rest goes on")
    machine.has(TWO)
    await meets(watch, lambda: watch.note == "")


@pytest.mark.parametrize("function", ["handle", "uuid"])
@pytest.mark.parametrize("code", few_of([2, 3, 4, 6, 10, 16, 17, 28, 999]))
async def test_a_gpu_that_does_not_answer_leaves_the_others(
    machine: Machine, watch: GpuWatch, function: str, code: int
) -> None:
    """No handle for one GPU: it stays listed by the name it had, and the other one's numbers move."""
    machine.has(TWO)
    await meets(watch, lambda: len(watch.gpus) == 2)
    machine.has(TWO.replace(" 90 ", " 17 ") + f"fail {function} {code} 0\n")
    await meets(watch, lambda: watch.gpus and watch.gpus[-1].util.now == 17.0)
    assert watch.gpus[0].uuid == "GPU-a"
    assert watch.gpus[0].name.startswith("Stub")
    machine.has(TWO.replace(" 90 ", " 18 "))
    await meets(watch, lambda: watch.gpus and watch.gpus[0].util.now == 40.0 and watch.gpus[0].name == "Stub")


@pytest.mark.parametrize("driver", [418, 450])
async def test_an_older_driver_is_asked_by_the_older_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: GpuWatch, driver: int
) -> None:
    """Without `_v3` functions: meters, processes with their memory and why clocks are down are known all the same."""
    (tmp_path / "old").mkdir()
    machine = Machine(build(tmp_path / "old", driver), tmp_path)
    for name, value in machine.environ.items():
        monkeypatch.setenv(name, value)
    machine.has(ONE + f"process 0 41 {GIB}\nprocess 0 42 {2 * GIB}\n")
    await meets(watch, lambda: watch.gpus)
    assert watch.note == ""
    assert watch.held == {41: GIB, 42: 2 * GIB}
    assert watch.gpus[0].slowed == ("power cap",)


async def test_a_name_that_is_not_utf_8_is_shown_as_far_as_it_is(machine: Machine, watch: GpuWatch) -> None:
    """Bytes that no text has: the meters go on, and the name keeps what can be read."""
    machine.has(ONE + "named 5354ff55c3\n")
    await meets(watch, lambda: watch.gpus)
    assert watch.gpus[0].name.startswith("ST")
    assert watch.gpus[0].util.now == 40.0


DEATHS = {
    "crash busy": "the probe was ended by SIGSEGV",
    "leave busy 0": "the probe ended with exit code 0 and gave no reason",
    "leave busy 3": "the probe ended with exit code 3 and gave no reason",
    "fail count 999": "Unknown Error",
}


@pytest.mark.parametrize("fault", DEATHS)
async def test_however_the_probe_ends_it_is_one_sentence(machine: Machine, watch: GpuWatch, fault: str) -> None:
    """A crash, an exit, an error of the whole driver: why, what goes on, and when it is tried again; then it is."""
    said: list[str] = []
    watch._tell = said.append
    machine.has(ONE + f"{fault}\n")
    await meets(watch, lambda: watch.note)
    assert watch.note == f"GPU meters stopped: {DEATHS[fault]}; {gpu.GOES_ON}; tried again in 1 s"
    assert watch.gpus == ()
    machine.has(ONE)
    await meets(watch, lambda: watch.gpus)
    assert watch.note == ""
    assert said == [f"GPU meters stopped: {DEATHS[fault]}; {gpu.GOES_ON}", ""]


def test_what_the_driver_prints_is_no_line(machine: Machine) -> None:
    """A library that writes on stdout disturbs nothing: every line is one of the probe."""
    machine.has(ONE + "print busy\nprint memory\n")
    argv = [sys.executable, "-m", "mission_tui.supervisor.gpu.probe"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as probe:
        assert probe.stdout is not None
        lines = [probe.stdout.readline() for _ in range(4)]
        probe.kill()
    assert all(msgspec.json.decode(line, type=ProbeLine).gpus for line in lines)


async def test_lines_that_cannot_be_read_are_given_up_with_that_reason(
    watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A probe that speaks, but nothing that makes sense: killed, and the reason is not silence."""
    monkeypatch.setattr(gpu, "START_S", 0.5)
    original = start_child

    def garbled(argv: list[str], *rest: object, **options: object) -> object:
        words = ["/bin/sh", "-c", "while :; do printf 'garbage {\\377}\\n'; sleep 0.05; done"]
        return original(words, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(gpu, "start_child", garbled)
    await meets(watch, lambda: watch.note)
    assert "sent nothing readable" in watch.note


async def test_a_probe_without_memory_says_so(
    machine: Machine, watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address space that is too small ends the probe, not the reason."""
    original = start_child

    def poor(argv: list[str], *rest: object, **options: object) -> object:
        program = (
            "import sys\nfrom mission_tui.supervisor.gpu import probe\n"
            "def exhausted(*_): raise MemoryError\nprobe._found = exhausted\nsys.exit(probe.main())"
        )
        return original([argv[0], "-c", program], *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(gpu, "start_child", poor)
    await meets(watch, lambda: watch.note)
    assert watch.note.startswith("GPU meters stopped: no memory was left; ")


@pytest.mark.slow
async def test_a_probe_that_always_dies_is_tried_ever_more_rarely(
    machine: Machine, watch: GpuWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pauses grow up to a minute although each probe said a line first; deaths are counted."""
    monkeypatch.setattr(gpu, "BACK_OFF_S", (0.05, 0.1, 60.0))
    machine.has(ONE + "crash using\n" + HELD)
    await meets(watch, lambda: watch.deaths == 3)
    assert watch.note.endswith("(3 times so far); runs, CPU and memory meters go on; tried again in 60 s")
    for _ in range(20):
        watch.tick(wanted=True)
        await asyncio.sleep(0.02)
    assert watch.deaths == 3
    assert signal.SIGSEGV.name in watch.note


@pytest.mark.parametrize("counted", ["processes", "using"])
async def test_a_driver_that_counts_wrong_costs_no_memory(machine: Machine, watch: GpuWatch, counted: str) -> None:
    """Two thousand million processes on a GPU: no room is made for them, it is said, and all other meters go on."""
    machine.has(ONE + f"process 0 41 {GIB}\nmany {counted} 2000000000\n")
    await meets(watch, lambda: watch.gpus and watch.note)
    assert "NVML counts 2,000,000,000 processes on it; the rest goes on" in watch.note
    assert (watch.gpus[0].memory_used, watch.deaths) == (2 * GIB, 0)


async def test_a_driver_that_counts_gpus_wrong_is_one_sentence(machine: Machine, watch: GpuWatch) -> None:
    """Not hundreds of GPUs that do not answer; `doctor` says the same."""
    machine.has(ONE + "many count 4000000000\n")
    await meets(watch, lambda: watch.note)
    said = "NVML counts 4,000,000,000 GPUs"
    assert watch.note.startswith(f"GPU meters stopped: {said}; {gpu.GOES_ON}")
    assert watch.gpus == ()
    assert said in gpu_checks({})[0].detail


async def test_what_a_virtual_gpu_does_not_tell_is_said_and_is_no_fault(machine: Machine, watch: GpuWatch) -> None:
    """Without utilisation, power, heat, clocks and processes: one sentence says what is shown; no duty has failed."""
    told: list[str] = []
    watch._tell = told.append
    silent = "".join(f"fail {gauge} 3 0\n" for gauge in ("busy", "power", "temperature", "clock", "processes"))
    machine.has(TWO + silent)
    await meets(watch, lambda: len(watch.gpus) == 2 and watch.note)
    assert watch.note == f"Stub: the driver does not tell how busy it is, as for many vGPUs; {gpu.UNTOLD_REST}"
    assert (watch.gpus[0].util.now, watch.gpus[0].memory_used, watch.gpus[1].util.now) == (None, 2 * GIB, 90.0)
    assert told == []


async def test_a_board_that_tells_almost_nothing_is_listed(machine: Machine, watch: GpuWatch) -> None:
    """As NVML of a Jetson does: a name, and "not supported" or no such function for nearly all the rest."""
    gauges = ("busy", "memory", "power", "temperature", "clock", "mode", "slowed", "processes", "drawing", "migmode")
    silent = "".join(f"fail {gauge} {3 if place % 2 else 13}\n" for place, gauge in enumerate(gauges))
    machine.has(ONE + silent + "fail uuid 3\n")
    await meets(watch, lambda: watch.gpus and watch.note)
    assert [(each.uuid, each.name, each.memory_total) for each in watch.gpus] == [("index 0", "Stub", None)]
    assert (watch.deaths, watch.note.endswith(gpu.UNTOLD_REST)) == (0, True)


async def test_sizes_and_percents_that_cannot_be_true_are_unknown(machine: Machine, watch: GpuWatch) -> None:
    """All bits set, as in a library that leaves its answers as they were; a GPU of no memory."""
    most = 2**64 - 1
    machine.has(f"gpu GPU-a 4294967295 {most} {most} 4294967295 4294967295\ngpu GPU-b 50 5 0 50000 50\n")
    await meets(watch, lambda: len(watch.gpus) == 2 and watch.gpus[1].util.now == 50.0)
    first, second = watch.gpus
    assert (first.util.now, first.memory_used, first.memory_total, first.power_w) == (None, None, None, None)
    assert (second.memory_used, second.memory_total, second.power_w) == (None, None, 50.0)
