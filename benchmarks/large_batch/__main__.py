"""The campaign: trains what is not trained yet under our own supervisor, one run at a time, then answers.

One seed of every setting is trained before the next, so that whoever ends it early can compare what there is. On a big
machine several train `--at-once`, and `--device cuda` says where.
Run: python -m benchmarks.large_batch [--json FILE] [--page FILE] [--folder FOLDER] [--seconds N] [--report]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.campaign import at_least_one, carry_out, read_done, updates_of
from benchmarks.large_batch.answers import answers
from benchmarks.large_batch.arms import ARMS, REFERENCE, STEPS, Arm, Learned, learned
from benchmarks.large_batch.kept import Trained, keep, read_kept
from benchmarks.large_batch.table import command, page, rows
from benchmarks.presets.measured import mission_digest
from benchmarks.results import Sheet, facts_of_the_card, facts_of_the_machine, write_sheet
from mission_tui.errors import MissionError

SEEDS = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, report; 1 when a run had to be given up. What the answers are is no failure of the program."""
    asked = _parse(arguments)
    data = None if asked.page is None else asked.page.with_suffix(".json")
    mission = mission_digest(REFERENCE.job(1).spec.env.config or "standard")
    try:
        if data is None:
            before = Trained(steps=asked.steps or STEPS, mission=mission)
        else:
            before = read_kept(data, asked.steps, mission, STEPS)
        arms = [ARMS[number - 1] for number in asked.settings]
        jobs = [arm.job(seed, before.steps, asked.device) for seed in range(1, asked.seeds + 1) for arm in arms]
        failures = {} if asked.report else carry_out(jobs, asked.folder, asked.at_once, asked.seconds)
    except MissionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    place = _place(asked.device, asked.at_once)
    trained = before.joined({arm: _learned(asked, arm, before.steps, place) for arm in ARMS})
    for sentence in answers(trained.found, asked.seeds):
        print(sentence)
    if asked.json is not None:
        lines = tuple(rows(trained.found, asked.seeds, trained.steps))
        write_sheet(Sheet("Large batches", command(trained.steps), lines), asked.json)
    if data is not None:
        keep(trained, data)
        asked.page.write_text(page(trained, asked.seeds), encoding="utf-8")
    for name, why in failures.items():
        print(f"given up: {name}: {why}", file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.large_batch", description="Train source 004's story.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--page", type=Path, help="write the answers there, as Markdown")
    parser.add_argument("--folder", type=Path, default=Path("build/large-batch"), help="where runs are kept")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, help=f"of each training: as many as the page has, else {STEPS}")
    numbers = range(1, len(ARMS) + 1)
    parser.add_argument("--settings", type=int, nargs="+", choices=numbers, default=numbers, help="which, by number")
    parser.add_argument("--device", default="cpu", help="cuda: on the card")
    parser.add_argument("--at-once", type=at_least_one, default=1, help="so many train side by side")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop in good order after so long")
    parser.add_argument("--report", action="store_true", help="train nothing, report what is there")
    return parser.parse_args(arguments)


def _learned(asked: argparse.Namespace, arm: Arm, steps: int, place: str) -> list[Learned]:
    found = []
    for seed in range(1, asked.seeds + 1):
        done = read_done(asked.folder, arm.job(seed, steps, asked.device))
        if done is not None:
            found.append(learned(done, updates_of(asked.folder, done), seed, place))
    return found


def _place(device: str, at_once: int) -> str:
    facts = facts_of_the_card(device) | facts_of_the_machine()
    beside = "" if at_once == 1 else f"; {at_once} at a time"
    return ", ".join(f"{name} {value}" for name, value in facts.items()) + beside


if __name__ == "__main__":
    sys.exit(main())
