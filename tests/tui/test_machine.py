"""The machine's screen: what host, GPUs and runs are at, in an order that keys and clicks choose."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec import structs

from mission_tui.fleet.snapshot import GpuMeters, Usage
from mission_tui.ipc.requests import Act, GetStrip
from mission_tui.tui.screens.machine import MachineScreen
from mission_tui.tui.sections.machine import RUN_COLUMNS, Use, machine_lines, runs_on
from mission_tui.tui.table import ordered, table
from tests.tui.fleets import BUSY, GIB, GPU, LIVE, a_fleet, a_run
from tests.tui.stage import Stage, staged

NAMES = ["heavy-3f9a", "wide-11c0", "deep-77aa"]


def screen(stage: Stage) -> MachineScreen:
    assert isinstance(stage.screen, MachineScreen)
    return stage.screen


def listed(stage: Stage) -> list[str]:
    """The runs of the table from top to bottom."""
    rows = [line for line in stage.lines() if line[:2].strip(" >") and "─" not in line]
    return [name for line in rows for name in NAMES if line[2:].startswith(name)]


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
        assert heavy.split() == [
            ">●heavy-3f9a", "rollout", "312%", "19%", "3.1G", "1.0G", "19", "9", "8", "1,412",
        ]  # fmt: skip
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
        await stage.press("<", "<", "<")
        await stage.shows("processes▾")
        await stage.press("<", "<")
        await stage.shows("VRAM▾")
        assert listed(stage) == ["wide-11c0", "heavy-3f9a", "deep-77aa"]
        (row,) = [at for at, line in enumerate(stage.lines()) if "VRAM▾" in line]
        await stage.pilot.click(offset=(stage.lines()[row].index("RAM"), row))
        await stage.shows("  RAM▾")
        assert listed(stage) == ["heavy-3f9a", "wide-11c0", "deep-77aa"]


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
        await stage.until(lambda: "last 5m" not in stage.text(), "the tables alone")


async def test_without_gpus_and_without_runs_it_is_calm() -> None:
    """No error, no empty table."""
    async with staged(a_fleet((), gpus=())) as stage:
        await stage.press("m")
        await stage.shows("no GPU: runs train on the processors")
        await stage.shows("no run is alive: nothing here is ours")
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
    assert heavy.split()[2:8] == ["-"] * 6


def test_a_narrow_table_loses_whole_columns_and_the_least_first() -> None:
    """Name, CPU and memory survive; nothing is cut in the middle of a figure."""
    uses = [Use(view, 16) for view in runs_on(BUSY, "age")]
    seen = [table(RUN_COLUMNS, uses, width)[0].text.split() for width in (120, 80, 60, 40)]
    assert seen[0] == [column.title for column in RUN_COLUMNS]
    assert all(set(narrow) < set(wide) for wide, narrow in pairwise(seen))
    assert seen[-1] == ["run", "CPU", "RAM", "VRAM"]


def test_unknown_values_come_last_whichever_way_it_is_sorted() -> None:
    """A run that holds no VRAM is below those that do; an unknown column keeps the order."""
    uses = [Use(view, 16) for view in reversed(runs_on(BUSY, "age"))]
    assert [use.view.name for use in ordered(RUN_COLUMNS, uses, "VRAM")] == ["wide-11c0", "heavy-3f9a", "deep-77aa"]
    assert ordered(RUN_COLUMNS, uses, "age") == uses
