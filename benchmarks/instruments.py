"""What a day of instruments takes: memory and disk of the cells of many GPUs and the phases of many runs, and the time
until the next supervisor has them back.

The day passes as fast as the machine can: cells and rows are made up, the histories, files and their pruning are the
supervisor's own. Goals: 24 hours of 8 GPUs in under 50 MB of memory and under 200 MB of disk.
Run: python -m benchmarks.instruments [--hours H] [--gpus N] [--runs N]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

import psutil

from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.strip import SLOW_LEVELS, Cell, CellHistory
from mission_tui.records.meter_history import TIERS, restore_histories
from mission_tui.records.runs.layout import instruments_dir, supervisor_dir
from mission_tui.supervisor.launchers.local import LocalLauncher
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.watching.meter_history import Instruments

STEP_S = 10
LINE = "%-20s %14s"


def pass_a_day(core: Core, instruments: Instruments, hours: float, begun: float) -> None:
    """Every ten seconds what was seen in them, then what is due is written."""
    dice = random.Random(1)
    cycle_s = {run: dice.uniform(0.3, 4.0) for run in core.lanes.histories}
    row_t = dict.fromkeys(cycle_s, begun)
    for t in range(0, int(hours * 3_600), STEP_S):
        for gpu, history in core.machine.gpu.busy.items():
            for quarter in range(4 * STEP_S):
                most = dice.random() * 100.0
                history.add(Cell(t + quarter / 4, most / 3, most / 2, most, 0.25, 5))
            for second in range(STEP_S):
                core.machine.gpu.power[gpu].add(Cell(t + second, most, most, most, 1.0))
        for second in range(STEP_S):
            core.machine.host.cpu.add(Cell(t + second, 50.0, 50.0 + most / 4, 90.0, 1.0))
        for run, lane in core.lanes.histories.items():
            while row_t[run] + cycle_s[run] < begun + t + STEP_S:
                row_t[run] += cycle_s[run] * dice.uniform(0.9, 1.1)
                lane.trained(row_t[run], 0.7 * cycle_s[run], 0.2 * cycle_s[run])
        due = [place for place, tier in enumerate(TIERS) if t % tier.write_s == 0]
        instruments.put(due, begun + t + STEP_S, begun)


async def measure(hours: float, gpus: int, runs: int) -> None:
    """Print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        root, begun = Path(folder), time.time() - hours * 3_600
        supervisor_dir(root).mkdir()
        core = Core(root, {"local": LocalLauncher()})
        instruments = Instruments(core, core.machine)
        await instruments.load()
        rss = psutil.Process().memory_info().rss
        core.machine.host.cpu = CellHistory(SLOW_LEVELS)
        for gpu in (f"GPU-{number}" for number in range(gpus)):
            core.machine.gpu.names[gpu] = "made up"
            core.machine.gpu.busy[gpu], core.machine.gpu.power[gpu] = CellHistory(), CellHistory(SLOW_LEVELS)
        core.lanes.histories.update({f"run-{number}": PhaseHistory() for number in range(runs)})
        passed = time.perf_counter()
        pass_a_day(core, instruments, hours, begun)
        took_s, memory = time.perf_counter() - passed, psutil.Process().memory_info().rss - rss
        sizes = [path.stat().st_size for path in instruments_dir(root).iterdir()]
        back = time.process_time()
        files, now = instruments.files, time.time()
        restore_histories([files.read(tier, now)[0] for tier in TIERS], now, begun)
        for row in (
            ("hours, GPUs, runs", f"{hours:g}, {gpus}, {runs}"),
            ("memory", f"{memory / 1e6:.1f} MB"),
            ("disk", f"{sum(sizes) / 1e6:.1f} MB"),
            ("files", f"{len(sizes)}"),
            ("read back", f"{time.process_time() - back:.2f} s of a core"),
            ("this took", f"{took_s:.0f} s"),
        ):
            print(LINE % row)


def main() -> None:
    """As the words say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--runs", type=int, default=16)
    given = parser.parse_args()
    asyncio.run(measure(given.hours, given.gpus, given.runs))


if __name__ == "__main__":
    main()
