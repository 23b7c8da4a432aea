"""The campaign: trains what is not trained yet under our own supervisor, one run at a time, then answers.

One seed of every setting is trained before the next, so that whoever ends it early can compare what there is.
Run: python -m benchmarks.large_batch [--json FILE] [--page FILE] [--folder FOLDER] [--seconds N] [--report]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.campaign import Job, carry_out, read_done, updates_of
from benchmarks.large_batch.answers import answers
from benchmarks.large_batch.arms import ARMS, STEPS, Learned, learned
from benchmarks.large_batch.table import page, rows
from benchmarks.results import Sheet, write_sheet
from mission_tui.errors import MissionError

SEEDS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, report; 1 when a run had to be given up. What the answers are is no failure of the program."""
    asked = _parse(arguments)
    seeds = range(1, asked.seeds + 1)
    jobs = [arm.job(seed, asked.steps) for seed in seeds for arm in ARMS]
    try:
        failures = {} if asked.report else carry_out(jobs, asked.folder, 1, asked.seconds)
    except MissionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    found = {arm: _learned(asked.folder, [arm.job(seed, asked.steps) for seed in seeds]) for arm in ARMS}
    for sentence in answers(found, asked.seeds):
        print(sentence)
    sheet = Sheet("Large batches", "make large-batch", tuple(rows(found, asked.seeds, asked.steps)))
    if asked.json is not None:
        write_sheet(sheet, asked.json)
    if asked.page is not None:
        asked.page.write_text(page(found, asked.seeds, asked.steps, sheet), encoding="utf-8")
    for name, why in failures.items():
        print(f"given up: {name}: {why}", file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.large_batch", description="Train source 004's story.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--page", type=Path, help="write the answers there, as Markdown")
    parser.add_argument("--folder", type=Path, default=Path("build/large-batch"), help="where runs are kept")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS, help="of each training")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop in good order after so long")
    parser.add_argument("--report", action="store_true", help="train nothing, report what is there")
    return parser.parse_args(arguments)


def _learned(folder: Path, jobs: Sequence[Job]) -> list[Learned]:
    finished = [done for job in jobs if (done := read_done(folder, job)) is not None]
    return [learned(done, updates_of(folder, done)) for done in finished]


if __name__ == "__main__":
    sys.exit(main())
