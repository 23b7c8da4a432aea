"""The machine's screen: what host, GPUs and runs are at, in an order that keys and clicks choose."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from mission_tui.fleet.events.findings import FailedDuty
from mission_tui.fleet.events.processes import EnvWorkers, LateWorker, Usage
from mission_tui.fleet.views.snapshot import GpuMeters, OtherProgram
from mission_tui.ipc.requests import Act, GetStrip
from mission_tui.tui.drawing.strips import ordered, table
from mission_tui.tui.screens.machine import RUN_COLUMNS, MachineScreen, Use, machine_lines, runs_on
from tests.tui.fleets import BUSY, GIB, GPU, LIVE, a_fleet, a_run, host
from tests.tui.stage import Stage, staged

NAMES = ["heavy-3f9a", "wide-11c0", "deep-77aa"]


def screen(stage: Stage) -> MachineScreen:
    assert isinstance(stage.screen, MachineScreen)
    return stage.screen


def listed(stage: Stage) -> list[str]:
    """The runs of the table from top to bottom."""
    rows = [line for line in stage.lines() if line[:2].strip(" >") and "─" not in line]
    return [name for line in rows for name in NAMES if line[2:].startswith(name)]


@pytest.mark.slow
async def test_m_opens_the_machine_and_m_or_escape_goes_back() -> None:
    """From the fleet and from a run; never over itself, and never out of the program."""
    async with staged(BUSY) as stage:
        await stage.press("m")
        await stage.shows("not ours CPU 774% of 1600%   VRAM 2.1G")
        await stage.press("m")
        assert len(stage.app.screen_stack) == 1
        await stage.press("down", "enter", "m")
        await stage.shows("not ours")
        assert screen(stage).chosen() == BUSY.runs[1]
        await stage.press("enter", "m")
        assert len(stage.app.screen_stack) == 3
        await stage.press("escape", "escape", "escape")
        assert len(stage.app.screen_stack) == 1


async def test_it_says_what_is_known_of_gpus_and_runs() -> None:
    """A GPU in a line, a live run in a line, ended ones nowhere; unknown is a dash."""
    meters = structs.replace(GPU, clock_mhz=1410, slowed=("power cap",))
    bare = GpuMeters(uuid="GPU-2", name="Tesla T4")
    async with staged(structs.replace(BUSY, gpus=(meters, bare)), size=(120, 30)) as stage:
        await stage.press("m")
        await stage.shows("GPU1  Tesla T4")
        (first,) = [line for line in stage.lines() if line.startswith("  GPU0 ")]
        for word in ("NVIDIA RTX 4090", "38%", "98%", "5.1/8.0G", "212W", "61C", "1410MHz", "power cap"):
            assert word in first
        (second,) = [line for line in stage.lines() if line.startswith("  GPU1 ")]
        assert second.split() == ["GPU1", "Tesla", "T4", *["-"] * 7, "nothing"]
        (heavy,) = [line for line in stage.lines() if line.startswith(">●heavy-3f9a")]
        facts = [">●heavy-3f9a", "rollout", "312%", "19%", "3.1G", "1.0G", "-", "19", "9", "8", "1,412"]
        assert [word for word in heavy.split() if word in facts] == heavy.split()
        assert [word for word in facts if word in heavy.split()] == facts
        assert "all runs CPU 410% of 1600%   VRAM 3.0G" in stage.text()
        assert "cart-9a10" not in stage.text()


async def test_keys_and_clicks_sort_and_the_cursor_stays_with_its_run() -> None:
    """`>` goes through the columns, `<` back; a click on a title sorts by it, a second one no longer."""
    async with staged(BUSY) as stage:
        await stage.press("m", "down")
        await stage.shows(">●wide-11c0")
        await stage.press(">")
        await stage.shows("run▾")
        assert listed(stage) == ["deep-77aa", "heavy-3f9a", "wide-11c0"]
        assert screen(stage).chosen() == BUSY.runs[1]
        await stage.press("<", "<")
        await stage.shows("st/s▾")
        assert listed(stage) == NAMES
        for title, names in (("VRAM", ["wide-11c0", "heavy-3f9a", "deep-77aa"]), ("RAM", NAMES)):
            (row,) = [at for at, line in enumerate(stage.lines()) if line.startswith("  run ")]
            await stage.pilot.click(offset=(stage.lines()[row].index(f" {title}") + 1, row))
            await stage.shows(f" {title}▾")
            assert listed(stage) == names


async def test_keys_act_on_the_run_under_the_cursor() -> None:
    """What takes too much can be stopped where it is seen."""
    async with staged(BUSY) as stage:
        await stage.press("m", "down", "s")
        await stage.until(lambda: stage.client.asked_for(Act))
        (asked,) = stage.client.asked_for(Act)
        assert (asked.verb, asked.runs) == ("stop", (LIVE[1].id,))
        row = next(at for at, line in enumerate(stage.lines()) if line.startswith(" ‖deep-77aa"))
        await stage.pilot.click(offset=(1, row))
        await stage.shows(">‖deep-77aa")


async def test_many_runs_scroll_with_the_cursor_in_sight() -> None:
    """Forty runs on 24 lines: the last one is reached, and Home shows the host again."""
    runs = tuple(a_run(f"run-{n:04d}", usage=Usage(10.0 * n, GIB, 4, 1)) for n in range(40))
    async with staged(a_fleet(runs)) as stage:
        await stage.press("m", "end")
        await stage.shows(">●run-0039")
        await stage.shows("not ours")
        await stage.press("home")
        await stage.shows(" CPU ")
        await stage.press("z")
        assert len(stage.client.asked_for(GetStrip)) > 0
        await stage.until(lambda: "now│" not in stage.text(), "the tables alone")


async def test_the_cursor_stays_in_sight_when_the_window_shrinks() -> None:
    """A lower terminal has room for fewer runs, and the one under the cursor is among them."""
    runs = tuple(a_run(f"run-{n:04d}", usage=Usage(10.0 * n, GIB, 4, 1)) for n in range(40))
    async with staged(a_fleet(runs), (80, 40)) as stage:
        await stage.press("m")
        await stage.shows("run-0000")
        await stage.press("end")
        await stage.shows(">●run-0039")
        await stage.pilot.resize_terminal(80, 20)
        await stage.until(lambda: len(stage.lines()) == 20, "the lower screen")
        await stage.still()
        await stage.shows(">●run-0039")


async def test_without_gpus_and_without_runs_it_is_calm() -> None:
    """No error, no empty table."""
    async with staged(a_fleet((), gpus=())) as stage:
        await stage.press("m")
        await stage.shows("no GPU: runs train on the processors")
        await stage.shows("no run is live; Esc goes back to the list")
        await stage.shows("CPU peak")
        await stage.press("down", "enter", "s", "z", "comma")
        assert isinstance(stage.screen, MachineScreen)


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 12), (60, 15), (300, 100)])
async def test_no_size_crashes(size: tuple[int, int]) -> None:
    """From one cell to a wall of them."""
    async with staged(BUSY, size=size) as stage:
        await stage.press("m", "down", ">", "pagedown", "z")
        assert isinstance(stage.screen, MachineScreen)


def test_usage_that_nobody_has_looked_at_is_no_zero() -> None:
    """A dash for each run, and no sentence about shares."""
    strips, _ = machine_lines(a_fleet(LIVE), LIVE, 120, sort="age", chosen=None)
    text = "\n".join(strip.text for strip in strips)
    assert "all runs" not in text
    (heavy,) = [strip.text for strip in strips if "heavy-3f9a" in strip.text]
    assert set(heavy.split()[2:8]) == {"-"}


def test_meters_that_stopped_are_no_missing_gpu() -> None:
    """The reason is there whole, and nobody claims that runs train on the processors; failed duties stand below."""
    why = "GPU meters stopped: the probe was ended by SIGSEGV; runs, CPU and memory meters go on; tried again in 60 s"
    failed = FailedDuty("usage meters", "ValueError: a line of /proc that nobody expected", 10.0, 1.0, 7)
    snapshot = structs.replace(a_fleet(LIVE), gpus=(), host=host(gpu_note=why), failed_duties=(failed,))
    strips, _ = machine_lines(snapshot, LIVE, 60, sort="age", chosen=None)
    text = " ".join(" ".join(strip.text for strip in strips).split())
    assert why in text
    assert "train on the processors" not in text
    assert "usage meters failed 7 times: ValueError: a line of /proc that nobody expected" in text.replace(" ▲", "")


def test_a_narrow_table_loses_whole_columns_and_the_least_first() -> None:
    """Name, CPU and memory survive; nothing is cut in the middle of a figure."""
    uses = [Use(view, 16) for view in runs_on(BUSY, "age")]
    seen = [table(RUN_COLUMNS, uses, width)[0].text.split() for width in (200, 120, 80, 60, 40)]
    assert seen[0] == [column.title for column in RUN_COLUMNS]
    assert all(set(narrow) < set(wide) for wide, narrow in pairwise(seen))
    assert seen[-1] == ["run", "CPU", "RAM", "VRAM"]


def test_a_long_name_is_cut_before_the_names_give_way() -> None:
    """A line without its run's name says nothing, and neither does a name without what the run takes."""
    named = structs.replace(BUSY.runs[0], name="a-long-name-of-a-run-that-goes-on")
    titles, row = table(RUN_COLUMNS, [Use(named, 16)], 40)
    assert titles.text.split() == ["run", "CPU", "RAM", "VRAM"]
    assert row.text.split() == ["a-long-name-of-a…", "312%", "3.1G", "1.0G"]


def test_unknown_values_come_last_whichever_way_it_is_sorted() -> None:
    """A run that holds no VRAM is below those that do; an unknown column keeps the order."""
    uses = [Use(view, 16) for view in reversed(runs_on(BUSY, "age"))]
    assert [use.view.name for use in ordered(RUN_COLUMNS, uses, "VRAM")] == ["wide-11c0", "heavy-3f9a", "deep-77aa"]
    assert ordered(RUN_COLUMNS, uses, "age") == uses


def known(**changed: Any) -> str:
    """The lines of a machine about which more is known than that it is there."""
    usage = Usage(
        312.0, 4 * GIB, 19, 9, GIB, pss_bytes=2 * GIB, written_bytes=GIB // 2, open_files=77, gpu_percent=12.0
    )
    workers = EnvWorkers(32, 1, (LateWorker(17, 4711, 12.0, 3, "D"),))
    view = structs.replace(LIVE[0], usage=usage, workers=workers)
    snapshot = structs.replace(BUSY, runs=(view,), host=host(**changed))
    strips, _ = machine_lines(snapshot, snapshot.runs, 160, sort="age", chosen=None, told=["GPU busy 18 %"])
    assert all(strip.cell_length == 160 for strip in strips)
    return "\n".join(strip.text.rstrip() for strip in strips)


def test_it_names_the_late_worker_and_all_that_a_run_takes() -> None:
    """The run's line counts it, a sentence says which one, since when and where it stands."""
    text = known()
    (row,) = [line for line in text.splitlines() if line.startswith(" ●heavy-3f9a")]
    for word in ("2.0G", "12%", "1 late", "512M", "77"):
        assert word in row
    assert "▲ heavy-3f9a: worker 17 of 32 has not answered for 12 s (pid 4711, state D: waits for a device" in text


def test_it_shows_every_core_the_swap_and_programs_that_are_not_ours() -> None:
    """A block for each core in its own order; what others hold by name; what the strip says in a sentence."""
    other = OtherProgram(4711, "python", "ada", vram_bytes=2 * GIB)
    text = known(cpu_cores=(0.0, 100.0, 50.0), swap_used=GIB, swap_total=4 * GIB, others=(other,))
    assert " cores ▁█▅\n swap 1.0/4.0G\n GPU busy 18 %" in text
    assert "python (pid 4711, user ada) holds 2.0 GiB VRAM" in text
    wide = known(cpu_cores=(50.0,) * 400).splitlines()
    assert sum(line.count("▅") for line in wide if "%" not in line) == 400


def test_what_the_strip_says_is_folded_and_never_cut() -> None:
    """Its last figure says of how much of the time the others are."""
    said = "GPU busy 49 % of the time, 76 % while runs trained: 89 % during updates, 68 % otherwise; "
    said += "updates took 37 % of that"
    strips, _ = machine_lines(BUSY, BUSY.runs, 80, sort="age", chosen=None, told=[said])
    lines = [strip.text.strip() for strip in strips]
    (at,) = [at for at, text in enumerate(lines) if text.startswith("GPU busy")]
    assert " ".join(lines[at : at + 2]) == said


@pytest.mark.parametrize("width", [60, 80, 200])
async def test_two_blanks_stand_between_what_processors_and_memory_do(width: int) -> None:
    """However much of the line is left out for want of room."""
    busy = structs.replace(a_fleet(gpus=()), host=host(cpu_percent=100.0))
    async with staged(busy, (width, 20)) as stage:
        assert re.search(r"(100%|cores|load \d+\.\d)  RAM ", stage.lines()[1])
