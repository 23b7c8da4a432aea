"""Four `beast` runs at once: their memory, how fast they get on, how the screen is meanwhile, and a stop in mid-update.

All four have one seed, so they are the same training four times. One of them saves at every boundary; another is
stopped in the middle of a long update, and what it then saves must be, bit for bit, what the first saved there.
Run: python -m benchmarks.fleet.beast [--json FILE] [--limit S] [--set KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch as th

from benchmarks.fleet.floor import Floor, floor_of
from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.shapes import as_options
from benchmarks.fleet.sheet import finish
from benchmarks.fleet.watching import p95, press_at_odd_moments, walk
from benchmarks.results import Row, Spread
from benchmarks.terminal import Terminal
from mission_tui.fleet.events.metrics import TrainingEnded, TrainingStarted, UpdateDone
from mission_tui.trainer.state.boundary import Boundary
from mission_tui.trainer.state.checkpoint import load_checkpoint

RUNS = 4
MEMORY_EVERY_S = 10.0
SHARE_OF_WORK = 0.9
"""From which share on an update is called its gradient work: the rest is what PPO does between the products."""
KEPT = ("keep.checkpoint.every_steps=1", "keep.checkpoint.last=1000")


@dataclass(slots=True)
class Seen:
    """What was seen while the first updates went on."""

    memory_mib: list[float] = field(default_factory=list)
    keys_s: list[float] = field(default_factory=list)
    first: list[UpdateDone] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Stopped:
    """A stop in mid-update: seconds to the end, the update whose boundary was saved, and whether all was exact."""

    seconds: float
    boundary: int
    same_as_twin: bool
    resumed_exactly: bool

    def told(self) -> str:
        """In words."""
        same = "equal bit for bit to" if self.same_as_twin else "NOT EQUAL to"
        exact = "exact" if self.resumed_exactly else "NOT EXACT"
        return (
            f"stopped in update {self.boundary + 1}: the checkpoint is of the boundary after update {self.boundary}, "
            f"parameters and moments {same} what an undisturbed twin saved there; the resume from it is {exact}"
        )


def launch(lab: Lab, assignments: Sequence[str]) -> list[str]:
    """Four of one seed; the last one saves at every boundary."""
    words = ["beast", "--seed", "1", *as_options(assignments)]
    plain = lab.launch(*words, "-n", str(RUNS - 1), "-j", str(RUNS), "--name", "beast")
    return [*plain, *lab.launch(*words, "--name", "beast-kept", *as_options(KEPT))]


def first_updates(lab: Lab, runs: Sequence[str], limit_s: float) -> Seen:
    """Use the screen and look at the memory until every run has finished an update."""
    names = [f"beast-{number}" for number in range(1, RUNS)] + ["beast-kept"]
    seen, steps, deadline, look_at = Seen(), walk(len(names)), time.monotonic() + limit_s, 0.0
    with Terminal([sys.executable, "-m", "mission_tui"], lab.environ, ROOT) as terminal:
        terminal.until(names[0])
        terminal.watch(3.0)
        while not all(lab.updates(run) for run in runs):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not every run has finished its first update within {limit_s:.0f} s")
            if time.monotonic() >= look_at:
                seen.memory_mib.append(lab.pss_mib(runs))
                look_at = time.monotonic() + MEMORY_EVERY_S
            seen.keys_s.append(press_at_odd_moments(terminal, *next(steps)))
    seen.first = [lab.updates(run)[0] for run in runs]
    return seen


def stop_in_update(lab: Lab, run: str, twin: str) -> Stopped:
    """Stop `run` in the middle of an update, compare what it saved with its twin's, and resume it."""
    until(lambda: lab.views()[run].phase == "update", 600.0, "an update begins")
    time.sleep(1.0)
    begun = time.perf_counter()
    lab.cli("stop", run)
    until(lambda: lab.views()[run].state == "ended", 60.0, "the run ends", 0.05)
    seconds = time.perf_counter() - begun
    (end,) = (row for row in lab.rows(run) if isinstance(row, TrainingEnded))
    assert end.checkpoint is not None
    saved = load_checkpoint(lab.dir(run).checkpoints / end.checkpoint).boundary
    theirs = lab.dir(twin).checkpoints / end.checkpoint
    until((theirs / "manifest.json").exists, 600.0, "the twin is there too")
    same = equal(saved, load_checkpoint(theirs).boundary)
    lab.cli("resume", run)
    return Stopped(seconds, end.update, same and saved.update == end.update, resumed_exactly(lab, run, end.update))


def equal(one: Boundary, other: Boundary) -> bool:
    """Whether both hold the same update, parameters and moments, to the last bit."""
    return one.update == other.update and all(
        mine.keys() == theirs.keys() and all(th.equal(mine[name], theirs[name]) for name in mine)
        for mine, theirs in ((one.parameters, other.parameters), (one.moments, other.moments))
    )


def resumed_exactly(lab: Lab, run: str, update: int) -> bool:
    """Whether the trainer of the second attempt says that it stands exactly where the first was saved."""
    starts = until(
        lambda: [row for row in lab.rows(run) if isinstance(row, TrainingStarted) and row.attempt == 2],
        120.0,
        "the run goes on",
    )
    return starts[0].exact and starts[0].from_update == update


def rows(seen: Seen, stopped: Stopped, floor: Floor) -> list[Row]:
    """The lines of the table of goals."""
    memory, work_s = Spread.of(seen.memory_mib), floor.all_at_once_s(RUNS)
    shares = Spread.of([work_s / row.update_s for row in seen.first])
    work = (
        f"{floor.tera_flop:.1f} TFLOP of matrix products an update and run, at {floor.giga_flop_s:.0f} GFLOP/s on each "
        f"of {floor.cores} cores; first rollouts {max(row.rollout_s for row in seen.first):.0f} s at most"
    )
    key_ms = [seconds * 1e3 for seconds in seen.keys_s]
    worst = p95(key_ms)
    return [
        Row(
            "four `beast` at once: memory in all (PSS of keepers, trainers, workers)",
            "MiB",
            memory,
            "<= 3072 MiB",
            memory.high <= 3072,
            note="judged by the most",
        ),
        Row(
            "four `beast` at once: first update of each",
            "s",
            Spread.of([row.update_s for row in seen.first]),
            f"all finish it, and gradient work is >= {SHARE_OF_WORK} of it",
            shares.median >= SHARE_OF_WORK,
            "its matrix products alone, four sharing the cores",
            Spread.of([work_s]),
            shares,
            work,
        ),
        Row(
            "four `beast` at once: key to paint, p95",
            "ms",
            Spread(worst, min(key_ms), max(key_ms)),
            "<= 50 ms",
            worst <= 50.0,
            note=f"{len(key_ms)} keys; beside p95 the least and the most",
        ),
        Row(
            "stop during a long update, until ended",
            "s",
            Spread.of([stopped.seconds]),
            "<= 5 s, exact",
            stopped.seconds <= 5.0 and stopped.same_as_twin and stopped.resumed_exactly,
            note=stopped.told(),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, write the sheet."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.beast", description="Measure four beast runs at once.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for the first updates")
    parser.add_argument("--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args(arguments)
    floor = floor_of("beast", asked.assignments)
    with opened() as lab:
        runs = launch(lab, asked.assignments)
        seen = first_updates(lab, runs, asked.limit)
        stopped = stop_in_update(lab, runs[0], runs[-1])
    floor = floor.and_later(floor_of("beast", asked.assignments))
    finish("Four beast runs at once", "python -m benchmarks.fleet.beast", rows(seen, stopped, floor), asked.json)


if __name__ == "__main__":
    main()
