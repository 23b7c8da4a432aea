"""What being supervised costs a training: steps per second beside the same trainer with nobody to talk to.

Twice, because each way is blind to something: whole processes in turn, a keeper's and one of our own, see everything
and the machine's noise with it; one process that hangs up and calls again every few updates sees the least effect,
and of the supervision all but the keeper's being there. Both train `demo` on one thread.
Run: python -m benchmarks.fleet.overhead [--json FILE] [--pairs N] [--steps N] [--turns N]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.fleet.alternating import TURN, is_supervised
from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.sheet import finish
from benchmarks.results import Row, Spread
from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.fleet.events.metrics import MetricRecord, UpdateDone
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.process import lower_priority

GOAL, GOAL_RATIO = ">= 0.99 of the trainer alone", 0.99
WARM_UP = 5
LIMIT_S = 600.0
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def supervised(lab: Lab, settings: Sequence[str]) -> float:
    """Steps per second of a run that was launched."""
    (run,) = lab.launch("demo", *settings)
    until(lab.dir(run).attempt(1).exit.exists, LIMIT_S, "the run ends")
    return steps_per_s(lab.updates(run))


def alone(lab: Lab, wish: LaunchArguments) -> float:
    """Steps per second of the same trainer, started by hand with a run directory that no supervisor knows."""
    run = RunDir(lab.root.parent / f"alone-{os.urandom(4).hex()}")
    run.path.mkdir()
    write_spec(run.spec, planned(wish, [ROOT / "presets"]).items[0].spec)
    subprocess.run(
        [sys.executable, "-m", "mission_tui.trainer", str(run.path), "1"],
        check=True,
        env={**lab.environ, **THREADS, "OMP_WAIT_POLICY": "PASSIVE"},
        start_new_session=True,
        preexec_fn=lambda: lower_priority(own_session=True),
    )
    return steps_per_s([row for row in read_all(run.metrics, MetricRecord)[0] if isinstance(row, UpdateDone)])


def steps_per_s(updates: Sequence[UpdateDone]) -> float:
    """From the end of the last update of the warm-up to the end of the last one."""
    first, last = updates[WARM_UP - 1], updates[-1]
    return (last.timesteps - first.timesteps) / (last.t - first.t)


def by_process(pairs: int, steps: int) -> Row:
    """Launched and alone, in turn, each going first in every other pair."""
    words = (f"run.total_timesteps={steps}", "run.seed=1")
    settings = [word for each in words for word in ("--set", each)]
    ours: list[float] = []
    theirs: list[float] = []
    with opened() as lab:
        sides: list[tuple[list[float], Callable[[], float]]] = [
            (ours, lambda: supervised(lab, settings)),
            (theirs, lambda: alone(lab, LaunchArguments(("demo",), assignments=words))),
        ]
        for number in range(pairs):
            for rates, side in sides if number % 2 else reversed(sides):
                rates.append(side())
    ratios = Spread.of([our / their for our, their in zip(ours, theirs, strict=True)])
    note = f"{pairs} pairs of whole processes"
    return Row(
        what="supervised `demo`, launched",
        unit="steps/s",
        ours=Spread.of(ours),
        goal=GOAL,
        met=ratios.median >= GOAL_RATIO,
        against="the same trainer alone",
        peer=Spread.of(theirs),
        ratio=ratios,
        note=note,
    )


def by_turns(turns: int) -> Row:
    """One launched trainer that is supervised in every other turn."""
    with opened(MISSION_TUI_TRAINER="benchmarks.fleet.alternating") as lab:
        updates = (turns + 2) * TURN
        (run,) = lab.launch("demo", "--set", f"run.total_timesteps={updates * 4096}", "--set", "run.seed=1")
        until(lab.dir(run).attempt(1).exit.exists, LIMIT_S, "the run ends")
        rates = turn_rates(lab.updates(run))
    pairs = list(zip(rates[True], rates[False], strict=False))
    ratios = Spread.of([on / off for on, off in pairs])
    return Row(
        what="supervised `demo`, in one process",
        unit="steps/s",
        ours=Spread.of(rates[True]),
        goal=GOAL,
        met=ratios.median >= GOAL_RATIO,
        against="the same process after it hung up",
        peer=Spread.of(rates[False]),
        ratio=ratios,
        note=f"{len(pairs)} pairs of turns of {TURN} updates, the first of each turn left out",
    )


def turn_rates(updates: Sequence[UpdateDone]) -> dict[bool, list[float]]:
    """Steps per second of every whole turn but the first pair, by whether it was supervised."""
    rates: dict[bool, list[float]] = {True: [], False: []}
    for start in range(2 * TURN, len(updates) - TURN + 1, TURN):
        # The first update of a turn holds the hanging up or the calling.
        first, last = updates[start], updates[start + TURN - 1]
        rates[is_supervised(start)].append((last.timesteps - first.timesteps) / (last.t - first.t))
    return rates


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, write the sheet."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.overhead", description="Measure what supervision costs.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200_000, help="of each whole process")
    parser.add_argument("--turns", type=int, default=80)
    asked = parser.parse_args(arguments)
    rows = [by_process(asked.pairs, asked.steps), by_turns(asked.turns)]
    finish("What supervision costs", "python -m benchmarks.fleet.overhead", rows, asked.json)


if __name__ == "__main__":
    main()
