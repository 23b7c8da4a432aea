"""Several machines on one screen: a line for each other one, and runs of which nobody has heard."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.views.snapshot import HostMeters, OtherHost
from tests.tui.fleets import NOW, a_fleet
from tests.tui.stage import staged

GPU1 = OtherHost(name="gpu1", meters=HostMeters("gpu-box", 8, cpu_percent=37.0), live=2)
LOST = OtherHost(name="gpu2", lost_t=NOW - 180.0, why="gpu2 does not answer: Connection refused", live=1)


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
async def test_each_other_machine_has_a_line(size: tuple[int, int]) -> None:
    """Its meters, or for how long it has not answered and why; its runs say so too and are not shown as training."""
    fleet = a_fleet()
    first, *others = fleet.runs
    unheard = structs.replace(first, name="gpu2:far", unheard_since=NOW - 180.0)
    fleet = structs.replace(fleet, hosts=(GPU1, LOST), runs=(unheard, *others))
    async with staged(fleet, size=size) as stage:
        lines = stage.lines()
        assert any("gpu1" in line and "2 live" in line and "37%" in line for line in lines[:8])
        assert any("gpu2 has not answered for 3m" in line for line in lines[:8])
        assert any("gpu2:far" in line for line in lines)
        assert any("no link" in line for line in lines)


async def test_of_many_machines_the_silent_ones_are_counted() -> None:
    """The list keeps its room."""
    many = tuple(structs.replace(LOST if at > 7 else GPU1, name=f"gpu{at}") for at in range(10))
    async with staged(structs.replace(a_fleet(), hosts=many), size=(120, 40)) as stage:
        lines = stage.lines()
        assert any("5 more machines, 2 of them without an answer" in line for line in lines[:10])
