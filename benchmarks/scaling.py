"""Whether workers of a slow environment scale up to the cores and not beyond, and whether `auto` sees it.

Sixty-four environments of ten milliseconds of work each step; workers from one to several times the cores, in turn.
Run: python -m benchmarks.scaling [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import os
import statistics
from functools import partial
from pathlib import Path

import numpy as np

import benchmarks.slow_env  # noqa: F401 - registers it
from benchmarks.results import Row, Sheet, Spread, asked_as, busy_elsewhere, write_sheet
from benchmarks.vec_subject import ACTIONS, Subject, brought_up, play, workers
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.vec_env.build import EnvMaker, choose

ENVS = 64
NEAR = 0.15
"""How far a measured gain may lie from the ideal one and still be called it."""


def rows(subjects: dict[int, Subject], cores: int) -> list[Row]:
    """Steps a second by number of workers, each over one worker."""
    alone = subjects[1].rates
    found = []
    for count, subject in subjects.items():
        ratio = Spread.of([rate / one for rate, one in zip(subject.rates, alone, strict=True)])
        ideal = min(count, cores)
        goal, met = (f"{ideal} x within {NEAR:.0%}", abs(ratio.median / ideal - 1) <= NEAR) if count > 1 else ("", None)
        what = f"slow environment (10 ms), {ENVS} envs, {count} workers on {cores} cores"
        found.append(Row(what, "steps/s", Spread.of(subject.rates), goal, met, "1 worker", Spread.of(alone), ratio))
    return found


def chosen(cores: int) -> Row:
    """What `env.vec = "auto"` makes of such an environment."""
    env = EnvSpec(id="Slow-v0", n_envs=ENVS, imports=("benchmarks.slow_env",))
    found = choose(env, EnvMaker(env, None), cores)
    # Where it is split, the trainer steps a share itself, beside its workers.
    processes = found.n_workers + {"workers": 0, "split": 1}[found.kind] if found.n_workers else 1
    what = f"`auto` with a slow environment, {ENVS} envs: processes that step"
    note = f"{found.kind}: {found.reason}"
    return Row(what, "", Spread.of([float(processes)]), f"{cores}", processes == cores, note=note)


def main() -> None:
    """Measure and print; with `--json` also write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each round")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    elsewhere, cores = busy_elsewhere(), len(os.sched_getaffinity(0))
    actions = [np.zeros(ENVS, dtype=np.int64)] * ACTIONS
    counts = sorted({1, 2, cores, min(ENVS, 2 * cores), min(ENVS, 4 * cores)})
    subjects = {count: brought_up(partial(workers, "Slow-v0", ENVS, count)) for count in counts}
    for _ in range(options.rounds):
        for subject in subjects.values():
            play(subject, actions, ENVS, options.seconds)
    for subject in subjects.values():
        subject.vec.close()
    found = [*rows(subjects, cores), chosen(cores)]
    for count, subject in subjects.items():
        print(f"{count:3} workers {statistics.median(subject.rates):8.0f} steps/s")
    print(found[-1].note)
    if options.json is not None:
        sheet = Sheet(
            "Workers of a slow environment", asked_as("benchmarks.scaling"), tuple(found), elsewhere=elsewhere
        )
        write_sheet(sheet, options.json)


if __name__ == "__main__":
    main()
