"""What of the machine is not ours, and how busy its cores are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mission_tui.fleet.views.snapshot import OtherProgram, other_sentence
from mission_tui.supervisor.host.machine import Processors, read_memory
from mission_tui.supervisor.host.process_files import ProcessStat
from mission_tui.supervisor.watching.usage import all_stats, program_name, taken_by_others
from tests.supervisor.conftest import Lab
from tests.waiting import until

BUSY = "import time\nwhile True: pass"


def stat(cpu_s: float, parent: int, started: int = 5) -> ProcessStat:
    """A process of one thread and a page."""
    return ProcessStat(cpu_s, 4096, 1, started, parent)


def test_what_a_run_started_through_whomever_is_ours() -> None:
    """The keeper 10, its trainer and what that left to others are ours; a process above the supervisor is not."""
    now = {1: stat(0, 0), 5: stat(1, 1), 6: stat(1, 5), 10: stat(1, 1), 11: stat(9, 10), 12: stat(9, 11)}
    before = {5: stat(0.5, 1), 6: stat(1, 5, started=4), 12: stat(1, 11)}
    taken = {each.pid: each.cpu_percent for each in taken_by_others(now, before, 2.0, {6, 10})}
    assert taken == {1: None, 5: 25.0}
    assert {each.pid for each in taken_by_others(now, {}, 2.0, {10})} == {1, 5, 6}


def test_a_reading_that_took_a_while_may_have_a_circle_in_it() -> None:
    """Numbers were given anew meanwhile: nobody is ours, and it ends."""
    assert len(taken_by_others({7: stat(0, 8), 8: stat(0, 7)}, {}, 1.0, {9})) == 2


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("sleep", "60"), "sleep"),
        ((sys.executable, "-S", "-c", "input()", "--token=secret"), Path(sys.executable).name),
        ((sys.executable, "-S", "{script}", "--token=secret"), f"{Path(sys.executable).name} train.py"),
    ],
)
def test_a_program_is_named_without_its_arguments(words: tuple[str, ...], name: str, tmp_path: Path) -> None:
    """An interpreter with its script, since all are called python; one that is gone is unknown."""
    script = tmp_path / "train.py"
    script.write_text("input()")
    argv = [word.format(script=script) for word in words]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as process:
        try:
            # Until it has begun it has its parent's name.
            until(lambda: program_name(process.pid) == name, 10, name)
        finally:
            process.kill()
    assert program_name(process.pid) == "unknown"


def test_who_holds_gpu_memory_is_said_with_program_and_user() -> None:
    """Memory of the GPU first; of one that holds none, processor and memory; at 80 cells its pid stands whole."""
    held = OtherProgram(4711, "python", "ada", 20.0, 3 << 30, 2254857830)
    assert other_sentence(held) == "python (pid 4711, user ada) holds 2.1 GiB VRAM"
    busy = OtherProgram(7, "make", "bob", 180.0, 1 << 30)
    assert other_sentence(busy) == "make (pid 7, user bob) takes 180% CPU and 1.0 GiB memory"


def test_cores_are_told_apart(tmp_path: Path) -> None:
    """One core busy and one idle are half of the machine; waiting for a disk is idle; a look at once says the same."""
    file = tmp_path / "stat"
    file.write_text("cpu  10 0 10 100 20 0 0 0 0 0\ncpu0 5 0 5 50 10 0 0 0 0 0\ncpu1 5 0 5 50 10 0 0 0 0 0\nintr 1\n")
    processors = Processors(file)
    assert processors.sample() == (None, ())
    file.write_text(
        "cpu  70 0 50 180 40 0 0 0 0 0\ncpu0 65 0 45 50 10 0 0 0 0 0\ncpu1 5 0 5 130 30 0 0 0 0 0\nintr 1\n"
    )
    for _ in range(2):
        assert processors.sample() == (50.0, (100.0, 0.0))
    assert Processors(tmp_path / "missing").sample() == (None, ())
    ticks = os.sysconf("SC_CLK_TCK")
    busy_s = [processors.busy_s(cores) for cores in ({0}, {1}, {0, 1}, {7})]
    assert busy_s == pytest.approx([110 / ticks, 10 / ticks, 120 / ticks, 0])


def test_memory_and_swap_are_within_what_there_is() -> None:
    """As the kernel says: available and swap used are parts of their totals."""
    memory = read_memory()
    assert 0 < memory.available <= memory.total
    assert 0 <= memory.swap_used <= memory.swap_total or memory.swap_total == 0


def test_a_stranger_that_computes_is_seen_and_whom_we_started_is_not() -> None:
    """The real /proc: processor time of a busy process is told, unless the process above it is ours."""
    with subprocess.Popen([sys.executable, "-S", "-c", BUSY]) as stranger:
        try:
            before, begun = all_stats(), time.monotonic()

            def taken() -> dict[int, float | None]:
                elapsed_s = time.monotonic() - begun
                return {
                    each.pid: each.cpu_percent for each in taken_by_others(all_stats(), before, elapsed_s, {1 << 30})
                }

            until(lambda: (taken().get(stranger.pid) or 0.0) >= 1.0, 20)
            assert stranger.pid not in {each.pid for each in taken_by_others(all_stats(), {}, 1.0, {os.getpid()})}
        finally:
            stranger.kill()


def test_the_machine_tells_its_cores_its_swap_and_no_run_among_others(lab: Lab) -> None:
    """A percent for each core, and whoever is named is none of ours."""
    (run,) = lab.launch()
    lab.running(run)
    until(lambda: lab.snapshot().host.cpu_cores, 10)
    host = lab.snapshot().host
    assert all(0.0 <= core <= 100.0 for core in host.cpu_cores)
    assert host.swap_total is not None
    assert lab.supervisor is not None
    ours = {process.pid for process in lab.family(run)} | {lab.supervisor.pid}
    assert ours.isdisjoint(other.pid for other in host.others)
