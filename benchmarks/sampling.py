"""What knowing the machine costs: the supervisor and its GPU probe beside live runs, with nobody and with a client.

The runs replay real records at the pace of a usual training and hold memory of two GPUs that a stand-in for NVML shows.
The client watches as a screen does. Run: python -m benchmarks.sampling [--runs N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.stub_gpus import HAVE_GCC, stub_gpus
from benchmarks.fleet.watching import busy_s
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded, unmeasured
from benchmarks.screen import REPLAYED
from mission_tui.fleet.specs.spec import LaunchItem

PERCENT, PROBE_PERCENT, MEMORY_MIB = 3.0, 2.0, 60.0
PROBE = "mission_tui.supervisor.gpu.probe"
UP_S = 300.0
SETTLE_S = 5.0
MIB = 2**20


@dataclass(slots=True)
class Costs:
    """Round by round: percent of a core of supervisor and probe, MiB of the supervisor."""

    supervisor: list[float] = field(default_factory=list)
    probe: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)


def listen(lab: Lab, rounds: int, seconds: float) -> Costs:
    """So many rounds of looking on."""
    costs, supervisor = Costs(), lab.supervisor()
    (probe,) = [child for child in supervisor.children() if PROBE in " ".join(child.cmdline())]
    time.sleep(SETTLE_S)
    for _ in range(rounds):
        before, begun = [busy_s(each) for each in (supervisor, probe)], time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - begun
        ours, probes = (
            100 * (busy_s(each) - was) / passed for each, was in zip((supervisor, probe), before, strict=True)
        )
        costs.supervisor.append(ours)
        costs.probe.append(probes)
        costs.mib.append(supervisor.memory_info().rss / MIB)
    return costs


@contextmanager
def watching(lab: Lab) -> Iterator[None]:
    """A client that takes every snapshot, as a screen does."""
    words = [sys.executable, "-m", "mission_tui", "status", "--watch", "--json"]
    client = subprocess.Popen(words, cwd=ROOT, env=lab.environ, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        client.terminate()
        client.wait(10)


def measured(runs: int, rounds: int, seconds: float) -> tuple[Costs, Costs]:
    """What it costs with nobody looking, and with a client."""
    with stub_gpus() as gpus, opened(MISSION_TUI_TRAINER="benchmarks.fleet.replaying", **gpus.environ) as lab:
        lab.launch_items([LaunchItem(spec=REPLAYED, name=f"lane-{number:03d}") for number in range(runs)])
        until(lambda: all((view.update or 0) >= 2 for view in lab.views().values()), UP_S, "two rows of every run", 1.0)
        gpus.hold([pid for view in lab.views().values() if (pid := view.pids.trainer) is not None])
        alone = listen(lab, rounds, seconds)
        with watching(lab):
            return alone, listen(lab, rounds, seconds)


def rows(runs: int, alone: Costs, watched: Costs) -> list[Row]:
    """The lines of the table."""
    what = f"supervisor, {runs} runs, two GPUs sampled"
    return [
        bounded(f"{what}, nobody looking", "% of a core", alone.supervisor, at_most=PERCENT),
        bounded(f"{what}, a client watching", "% of a core", watched.supervisor, at_most=PERCENT),
        bounded(f"{what}: resident memory", "MiB", watched.mib, at_most=MEMORY_MIB),
        bounded(f"{what}: its GPU probe", "% of a core", alone.probe, at_most=PROBE_PERCENT),
    ]


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    elsewhere = busy_elsewhere()
    if HAVE_GCC:
        found = rows(asked.runs, *measured(asked.runs, asked.rounds, asked.seconds))
    else:
        found = [unmeasured("supervisor, GPUs sampled", f"<= {PERCENT:g} % of a core", "gcc is not installed")]
    for row in found:
        figures = "not measured" if row.ours is None else f"{row.ours.median:.2f} {row.unit}"
        print(f"{row.what}: {figures}, {row.goal}")
    if asked.json is not None:
        sheet = Sheet(
            "What knowing the machine costs", asked_as("benchmarks.sampling"), tuple(found), elsewhere=elsewhere
        )
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
