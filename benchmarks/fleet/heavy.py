"""Four `heavy` runs at once, beside four of Stable-Baselines3's PPO on SubprocVecEnv: summed steps per second.

Ours are launched as anybody would; theirs are scripts of the same priority, with torch's own choice of threads and with
one thread each. In each round the three sides take turns, and ratios are taken round by round.
Run: python -m benchmarks.fleet.heavy [--json FILE] [--rounds N] [--updates N] [--seconds S] [--set KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.fleet.floor import Floor, floor_of
from benchmarks.fleet.lab import ROOT, Lab, opened, until
from benchmarks.fleet.shapes import as_options, spec_of
from benchmarks.fleet.sheet import finish
from benchmarks.results import Row, Spread, asked_as
from mission_tui.fleet.specs.spec import rollout_size
from mission_tui.trainer.process import lower_priority

RUNS = 4
LIMIT_S = 900.0
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def ours(lab: Lab, assignments: Sequence[str], updates: int) -> float:
    """Steps per second of all runs together, each over `updates` whole updates after its first."""
    runs = lab.launch("heavy", "-n", str(RUNS), "-j", str(RUNS), *as_options(assignments))
    until(lambda: all(len(lab.updates(run)) > updates for run in runs), LIMIT_S, "the updates of every run", 1.0)
    rates = []
    for run in runs:
        # All that was done by the time the slowest was through, so that nobody is counted while others stand still.
        rows = lab.updates(run)
        rates.append((rows[-1].timesteps - rows[0].timesteps) / (rows[-1].t - rows[0].t))
    lab.kill(*runs)
    return sum(rates)


def theirs(assignments: Sequence[str], seconds: float, threads: int | None) -> list[dict[str, float]]:
    """What each of four scripts says of itself while all of them work."""
    environ = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    if threads is not None:
        environ |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    with tempfile.TemporaryDirectory(prefix="sb3-") as name:
        folder = Path(name)
        processes = [script(assignments, seconds, threads, folder, number, environ) for number in range(RUNS)]
        try:
            alive(processes, folder, ".ready")
            (folder / "go").touch()
            return [json.loads(file.read_text()) for file in alive(processes, folder, ".json")]
        finally:
            for process in processes:
                # Each leads a session of its own, in which its workers are.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def script(
    assignments: Sequence[str],
    seconds: float,
    threads: int | None,
    folder: Path,
    number: int,
    environ: dict[str, str],
) -> subprocess.Popen[bytes]:
    """One of theirs, started."""
    words = [sys.executable, "-m", "benchmarks.fleet.sb3_subproc", "heavy", *assignments]
    words += ["--folder", str(folder), "--name", str(number), "--seconds", str(seconds)]
    words += [] if threads is None else ["--threads", str(threads)]
    return subprocess.Popen(
        words,
        cwd=ROOT,
        env=environ,
        start_new_session=True,
        preexec_fn=lambda: lower_priority(own_session=True),  # noqa: PLW1509 - this process has one thread
    )


def alive(processes: Sequence[subprocess.Popen[bytes]], folder: Path, suffix: str) -> list[Path]:
    """The files that every process was to write, waited for. Raises `RuntimeError` if one of them has ended."""

    def files() -> list[Path]:
        if any(process.poll() is not None for process in processes):
            raise RuntimeError("a script of SB3's has ended; what it wrote stands above")
        found = sorted(folder.glob(f"*{suffix}"))
        return found if len(found) == RUNS else []

    return until(files, LIMIT_S, f"four files {suffix}")


def row(what: str, goal: float, mine: Sequence[float], their: Sequence[Sequence[dict[str, float]]], note: str) -> Row:
    """One peer's line, of as many rounds as there are of both sides."""
    summed = [sum(one["steps_per_s"] for one in scripts) for scripts in their]
    seen = [one for scripts in their for one in scripts]
    rollout_s, update_s = (statistics.fmean(one[name] for one in seen) for name in ("rollout_s", "update_s"))
    done = min(one["share_of_update"] for one in seen)
    parts = f"theirs: rollout {rollout_s:.0f} s, update {update_s:.0f} s, seen after {done:.0%} of one"
    ratio = Spread.of([ours / theirs for ours, theirs in zip(mine, summed, strict=True)])
    return Row(
        what="four `heavy` at once, summed",
        unit="steps/s",
        ours=Spread.of(mine),
        goal=f">= {goal:g} x",
        met=ratio.median >= goal,
        against=what,
        peer=Spread.of(summed),
        ratio=ratio,
        note=f"{parts}; {note}",
    )


def ceiling(floor: Floor, transitions: int, mine: Sequence[float]) -> str:
    """How much of what the machine could do at most was reached, in words."""
    most = transitions * RUNS / floor.all_at_once_s(RUNS)
    reached = statistics.fmean(mine) / most
    return (
        f"an update is {floor.tera_flop:.2f} TFLOP of matrix products, and {floor.cores} cores at "
        f"{floor.giga_flop_s:.0f} GFLOP/s each allow {most:,.0f} steps/s summed: ours reached {reached:.0%} of that"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, write the sheet."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.heavy", description="Measure four heavy runs at once.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--updates", type=int, default=1, help="whole updates of each of ours, after its first")
    parser.add_argument("--seconds", type=float, default=40.0, help="after which theirs say how fast they are")
    parser.add_argument("--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE")
    asked = parser.parse_args(arguments)
    spec = spec_of("heavy", asked.assignments)
    floor = floor_of("heavy", asked.assignments)
    sb3 = (asked.assignments, asked.seconds)
    mine, default, single = list[float](), list[list[dict[str, float]]](), list[list[dict[str, float]]]()
    for number in range(asked.rounds):
        print(f"round {number + 1} of {asked.rounds}", flush=True)
        with opened() as lab:
            mine.append(ours(lab, asked.assignments, asked.updates))
        default.append(theirs(*sb3, None))
        single.append(theirs(*sb3, 1))
    floor = floor.and_later(floor_of("heavy", asked.assignments))
    note = f"their workers forked, to fit; {ceiling(floor, rollout_size(spec), mine)}"
    rows = [
        row("SB3 + SubprocVecEnv, torch's default threads", 8.0, mine, default, note),
        row("SB3 + SubprocVecEnv, one thread each", 2.0, mine, single, note),
    ]
    finish("Four heavy runs at once", asked_as("benchmarks.fleet.heavy"), rows, asked.json)


if __name__ == "__main__":
    main()
