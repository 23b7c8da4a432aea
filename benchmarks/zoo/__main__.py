"""The campaign: trains what is not trained yet under our own supervisor, evaluates it, writes the sheet and the page.

Whoever ends it loses nothing: the runs are stopped with a checkpoint, and the same command goes on.
Run: python -m benchmarks.zoo [--json FILE] [--page FILE] [--folder FOLDER] [--seconds N] [--task ENV ...] [--report]
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.campaign import Job, carry_out, read_done
from benchmarks.results import Sheet, write_sheet
from benchmarks.zoo.published import TABLE, TASKS, Task, read_published
from benchmarks.zoo.table import Measured, page, row_of
from mission_tui.errors import MissionError

SEEDS = 5
ALONE = ("run.threads=1", "run.device=cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, report; 1 when a run had to be given up. A miss is reported, and no failure of the program."""
    asked = _parse(arguments)
    try:
        published = read_published(asked.published)
    except MissionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    jobs = {task: _jobs(task, asked.seeds, asked.steps) for task in TASKS}
    failures: dict[str, str] = {}
    if not asked.report:
        wanted = [job for task, own in jobs.items() if task.env in asked.task and not task.missing for job in own]
        failures = carry_out(wanted, asked.folder, asked.at_once, asked.seconds)
    measured = [
        Measured(task, published[task.zoo_env], own, tuple(read_done(asked.folder, job) for job in own))
        for task, own in jobs.items()
    ]
    rows = tuple(map(row_of, measured))
    sheet = Sheet("The zoo's table", "make zoo", rows)
    for it in measured:
        print(f"{it.task.env}: {it.said}; seeds {', '.join(f'{mean:.1f}' for mean in it.means) or '-'}")
    if asked.json is not None:
        write_sheet(sheet, asked.json)
    if asked.page is not None:
        asked.page.write_text(page(measured, sheet), encoding="utf-8")
    for name, why in failures.items():
        print(f"given up: {name}: {why}", file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.zoo", description="Train the zoo's table again.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--page", type=Path, help="write the table there, as Markdown")
    parser.add_argument("--folder", type=Path, default=Path("build/zoo"), help="where runs and results are kept")
    parser.add_argument("--published", type=Path, default=TABLE, help="the zoo's table of results, a CSV")
    parser.add_argument("--task", nargs="+", choices=[task.env for task in TASKS], default=[task.env for task in TASKS])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, help="train for that long instead of the preset's own length")
    parser.add_argument("--at-once", type=int, default=2, help="runs at a time, one torch thread each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop in good order after so long")
    parser.add_argument("--report", action="store_true", help="train nothing, report what is there")
    return parser.parse_args(arguments)


def _jobs(task: Task, seeds: int, steps: int | None) -> tuple[Job, ...]:
    length = () if steps is None else (f"run.total_timesteps={steps}",)
    return tuple(Job(task.preset, seed, (*ALONE, *length)) for seed in range(1, seeds + 1))


if __name__ == "__main__":
    sys.exit(main())
