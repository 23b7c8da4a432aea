"""Bursts that are shorter than a second, as PPO's updates are, seen through a real driver library's interface."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from mission_tui.fleet.strip import CELL_S, merged
from mission_tui.supervisor.gpu.watch import GpuWatch
from tests.nvml import ONE, Machine, needs_gcc
from tests.supervisor.gpu_watching import meets

pytestmark = [pytest.mark.slow, needs_gcc]

ONE_LOOK_A_SECOND = """
import time, pynvml
pynvml.nvmlInit()
gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
seen = []
for _ in range(6):
    time.sleep(1 - (time.monotonic() + 0.5) % 1)  # between the bursts, as happens to a second's beat for hours on end
    if (time.monotonic() + 0.5) % 1 < 0.3:  # not when it was woken late
        seen.append(pynvml.nvmlDeviceGetUtilizationRates(gpu).gpu)
print(max(seen, default=0))
"""


async def test_bursts_shorter_than_a_second_are_seen_at_their_height(machine: Machine, watch: GpuWatch) -> None:
    """0.3 s busy every 2 s: a peak of 100 % and a mean of 15 %, where one look a second sees nothing at all."""
    machine.has(ONE + "wave 300 2000\n")
    argv = [sys.executable, "-c", ONE_LOOK_A_SECOND]
    slow = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    await meets(watch, lambda: watch.gpus)
    begun = time.monotonic() // 2 * 2 + 2
    await meets(watch, lambda: time.monotonic() > begun + 10.5, 20)
    cells = watch.busy["GPU-a"].between(begun, begun + 10, 1_000)
    seen = merged(begun, cells)
    assert seen is not None
    assert (seen.least, seen.most) == (0.0, 100.0)
    # Where others keep the cores busy nobody looks every 50 ms; what was not looked at may have been anything.
    unseen_s = 10 - CELL_S * sum(cell.looks >= 4 for cell in cells)
    assert seen.mean == pytest.approx(15.0, abs=1.0 + 100 * unseen_s / 10)
    assert max(watch.gpus[0].history) == 100.0
    output, _ = await slow.communicate()
    assert output.strip() == b"0"
