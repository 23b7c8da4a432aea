"""Whether what is shown of the processor adds up: runs that really train, the host, and what the kernel counts.

Beside what `status` shows, /proc is read by this program itself at both ends of a round: the processes of the runs, and
all others. What ended within a round is found with the parent that waited for it.
Run: python -m benchmarks.cpu_shares [--runs N] [--preset NAME] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.fleet.lab import Lab, opened, until
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from mission_tui.ipc.requests import GetSnapshot

POINTS = 5.0
"""Of the whole machine's hundred percent."""
LOOK_S = 1.0
UP_S = 300.0
CORES = os.cpu_count() or 1


@dataclass(slots=True)
class Sums:
    """Round by round in percent of the machine: what `status` shows of the runs, and how far it is off."""

    shown: list[float] = field(default_factory=list)
    from_kernel: list[float] = field(default_factory=list)
    from_host: list[float] = field(default_factory=list)


Spent = Mapping[int, tuple[float, float]]
"""Processor seconds so far by process: its own, and those of its children that have ended."""


def spent() -> Spent:
    """Of every process that there is now."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system, times.children_user + times.children_system
    return found


def of_family(family: Collection[int], before: Spent, now: Spent) -> float:
    """Seconds that those took themselves between the two."""
    return sum(now[pid][0] - before[pid][0] for pid in family if pid in now and pid in before)


def of_all(before: Spent, now: Spent) -> float:
    """Seconds that everybody took: what is on somebody's account now and was on nobody's before."""
    return sum(map(sum, now.values())) - sum(map(sum, before.values()))


def add_up(lab: Lab, runs: Sequence[str], seconds: float, sums: Sums) -> None:
    """One round."""
    family = {process.pid for process in lab.families(runs)}
    before, begun = spent(), time.perf_counter()
    shown, host = [], []
    with lab.connect() as link:
        while time.perf_counter() - begun < seconds:
            time.sleep(LOOK_S)
            snapshot = link.ask(lambda id_: GetSnapshot(id=id_)).snapshot
            shown.append(sum(view.usage.cpu_percent for view in snapshot.runs if view.usage is not None) / CORES)
            host.append(snapshot.host.cpu_percent or 0.0)
    now, passed = spent(), time.perf_counter() - begun
    ours, everybody = (
        100 * seconds_spent / passed / CORES for seconds_spent in (of_family(family, before, now), of_all(before, now))
    )
    others = everybody - ours
    sums.shown.append(statistics.fmean(shown))
    sums.from_kernel.append(abs(statistics.fmean(shown) - ours))
    sums.from_host.append(abs(statistics.fmean(host) - others - statistics.fmean(shown)))


def measured(preset: str, runs: int, rounds: int, seconds: float) -> Sums:
    """Round by round, while so many runs of `preset` train."""
    sums = Sums()
    with opened() as lab:
        ids = [run for _ in range(runs) for run in lab.launch(preset, "--set", "run.device=cpu")]
        until(lambda: all((view.update or 0) >= 1 for view in lab.views().values()), UP_S, "an update of each", 1.0)
        for _ in range(rounds):
            add_up(lab, ids, seconds, sums)
    return sums


def rows(preset: str, runs: int, sums: Sums) -> list[Row]:
    """The lines of the table."""
    what = f"CPU shown for {runs} x {preset} together"
    note = f"the runs took {statistics.median(sums.shown):.0f} % of {CORES} cores"
    return [
        bounded(f"{what}, off from the kernel's count", "points", sums.from_kernel, at_most=POINTS, note=note),
        bounded(f"{what}, off from the host's less others", "points", sums.from_host, at_most=POINTS),
    ]


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each round")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    elsewhere = busy_elsewhere()
    found = rows(asked.preset, asked.runs, measured(asked.preset, asked.runs, asked.rounds, asked.seconds))
    for row in found:
        assert row.ours is not None
        print(f"{row.what}: {row.ours.median:.1f} {row.unit} ({row.ours.low:.1f} to {row.ours.high:.1f}), {row.goal}")
    if asked.json is not None:
        sheet = Sheet("Whether CPU adds up", asked_as("benchmarks.cpu_shares"), tuple(found), elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
