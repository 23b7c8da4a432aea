"""What the supervisor costs when many trainers talk: rows read and judged, messages heard, by itself with no screen.

A trainer says at most four frames a second, each with the newest message of a kind, so it takes about a hundred of them
to say eight hundred messages a second. They replay real records and train nothing; nothing is asserted, because the
machine may be busy. What judging costs is measured by the same trainers under a second supervisor, with every rule
off. Run: python -m benchmarks.supervisor [--runs N] [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.fleet.lab import Lab, opened, until
from benchmarks.fleet.watching import busy_s
from benchmarks.results import Row, Sheet, asked_as, busy_elsewhere, write_sheet
from benchmarks.rows import bounded
from benchmarks.screen import REPLAYED
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import LaunchItem, Spec
from mission_tui.fleet.specs.thresholds import Limits

EVERY_S = 0.16
KINDS_A_ROW, HEARTBEATS_A_SECOND = 2, 1
"""A frame carries where the row is and which phase began; a heartbeat goes every second."""
PERCENT, UNJUDGED_PERCENT, MEMORY_MIB = 12.0, 6.0, 60.0
UNJUDGED = change(REPLAYED, [f"keep.health.{rule}.act=off" for rule in Limits.__struct_encode_fields__])
UP_S = 300.0
MIB = 2**20


@dataclass(slots=True)
class Heard:
    """The supervisor round by round: percent of a core, MiB resident, rows judged and messages heard a second."""

    percent: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    rows_per_s: list[float] = field(default_factory=list)
    messages_per_s: list[float] = field(default_factory=list)


def updates(lab: Lab) -> int:
    """Rows that the supervisor has read of all runs together."""
    return sum(view.update or 0 for view in lab.views().values())


def listen(lab: Lab, runs: int, seconds: float, heard: Heard) -> None:
    """One round of leaving everybody alone; the two snapshots that count the rows are outside of what is timed."""
    supervisor: psutil.Process = lab.supervisor()
    rows, counted = updates(lab), time.perf_counter()
    before, begun = busy_s(supervisor), time.perf_counter()
    time.sleep(seconds)
    heard.percent.append(100 * (busy_s(supervisor) - before) / (time.perf_counter() - begun))
    heard.mib.append(supervisor.memory_info().rss / MIB)
    rate = (updates(lab) - rows) / (time.perf_counter() - counted)
    heard.rows_per_s.append(rate)
    heard.messages_per_s.append(KINDS_A_ROW * rate + HEARTBEATS_A_SECOND * runs)


def measured(spec: Spec, runs: int, rounds: int, seconds: float) -> Heard:
    """Round by round what a fresh supervisor costs under so many runs of `spec`."""
    heard = Heard()
    with opened(MISSION_TUI_TRAINER="benchmarks.fleet.replaying") as lab:
        items = [LaunchItem(spec=spec, name=f"lane-{number:03d}") for number in range(runs)]
        lab.launch_items(items, REPLAY_S=str(EVERY_S))
        until(lambda: all((view.update or 0) >= 2 for view in lab.views().values()), UP_S, "two rows of every run", 1.0)
        for _ in range(rounds):
            listen(lab, runs, seconds, heard)
    return heard


def rows(runs: int, judged: Heard, unjudged: Heard) -> list[Row]:
    """The three lines of the table."""
    found = []
    for heard, kind, most in ((judged, "with health", PERCENT), (unjudged, "without", UNJUDGED_PERCENT)):
        rate, read = (sorted(each)[len(each) // 2] for each in (heard.messages_per_s, heard.rows_per_s))
        what = f"supervisor, {runs} runs, {rate:,.0f} msg/s {kind}"
        note = f"{read:,.0f} rows a second read; no screen attached"
        found.append(bounded(what, "% of a core", heard.percent, at_most=most, note=note))
    return [*found, bounded(f"{found[0].what}: resident memory", "MiB", judged.mib, at_most=MEMORY_MIB)]


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    elsewhere = busy_elsewhere()
    judged, unjudged = (measured(spec, asked.runs, asked.rounds, asked.seconds) for spec in (REPLAYED, UNJUDGED))
    found = rows(asked.runs, judged, unjudged)
    for row in found:
        assert row.ours is not None
        print(f"{row.what}: {row.ours.median:.1f} {row.unit} ({row.ours.low:.1f} to {row.ours.high:.1f}), {row.goal}")
    if asked.json is not None:
        sheet = Sheet("The supervisor", asked_as("benchmarks.supervisor"), tuple(found), elsewhere=elsewhere)
        write_sheet(sheet, asked.json)


if __name__ == "__main__":
    main()
