"""The campaign: trains what is not trained yet under our own supervisor, evaluates it, writes the sheet and the page.

Whoever ends it loses nothing: the runs are stopped with a checkpoint, and the same command goes on.
Run: python -m benchmarks.zoo [--json FILE] [--page FILE] [--folder FOLDER] [--seconds N] [--only PRESET ...] [--report]
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.campaign import Done, Job, carry_out, findings_of, read_done, updates_of
from benchmarks.results import Sheet, facts_of_the_machine, write_sheet
from benchmarks.zoo.agents_table import section, with_section
from benchmarks.zoo.best import Best, best_of, play_best, unplayed
from benchmarks.zoo.kept import keep, kept_agents, kept_seeds, with_kept
from benchmarks.zoo.many_seeds import many_seeds
from benchmarks.zoo.published import OTHERS, TABLE, TASKS, Published, Task, read_published
from benchmarks.zoo.table import Course, Measured, page, row_of
from mission_tui.errors import MissionError
from mission_tui.fleet.events.metrics import RETURN, number

SEEDS = 5
OF_THE_MACHINE = ("throughput", "hang")
"""Rules that speak of the machine, which may be busy, and not of what is learned."""

PRESETS = list(dict.fromkeys(task.preset for task in TASKS))
ALONE = ("run.threads=1", "run.device=cpu")


def main(arguments: Sequence[str] | None = None) -> int:
    """Train, evaluate, report; 1 when a run had to be given up. A miss is reported, and no failure of the program."""
    asked = _parse(arguments)
    kept = asked.page and asked.page.with_suffix(".json")
    known = kept_seeds(kept, facts_of_the_machine()["processor"]) if kept is not None else {}
    jobs = {task: _jobs(task, asked.seeds, asked.steps) for task in TASKS}
    wanted = [
        job
        for preset in asked.only
        for task, own in jobs.items()
        if task.preset == preset and not task.missing
        for job in own
        if job.name not in known
    ]
    try:
        published = read_published(asked.published)
        failures = {} if asked.report else _made(wanted, asked)
    except MissionError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    here = [
        _measured(asked, task, OTHERS.get((task.algo, task.zoo_env)) or published[task.zoo_env], own, known)
        for task, own in jobs.items()
    ]
    measured = here if kept is None else with_kept(here, kept)
    rows = tuple(map(row_of, measured))
    sheet = Sheet("The zoo's table", "make zoo", rows)
    for it in measured:
        print(f"{it.name}: {it.said}; seeds {', '.join(f'{mean:.1f}' for mean in it.means) or '-'}")
    if asked.json is not None:
        write_sheet(sheet, asked.json)
    if kept is not None:
        text = with_section(page(measured, sheet), section(kept_agents(kept)))
        asked.page.write_text(text, encoding="utf-8")
        keep(measured, kept)
    for name, why in failures.items():
        print(f"given up: {name}: {why}", file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.zoo", description="Train the zoo's table again.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--page", type=Path, help="write the table there, and beside it what it is made of")
    parser.add_argument("--folder", type=Path, default=Path("build/zoo"), help="where runs and results are kept")
    learning = Path("build/learning")
    parser.add_argument("--learning", type=Path, default=learning, help="where benchmarks.learning keeps trainings")
    parser.add_argument("--published", type=Path, default=TABLE, help="the zoo's table of results, a CSV")
    parser.add_argument("--only", nargs="+", choices=PRESETS, default=PRESETS, help="these presets, in this order")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, help="train for that long instead of the preset's own length")
    parser.add_argument("--at-once", type=int, default=2, help="runs at a time, one torch thread each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop in good order after so long")
    parser.add_argument("--report", action="store_true", help="train nothing, report what is there")
    return parser.parse_args(arguments)


def _made(jobs: Sequence[Job], asked: argparse.Namespace) -> dict[str, str]:
    """Train what is to be trained, then play the best checkpoints, all within the time; why what was given up."""
    begun_s = time.monotonic()
    failures = carry_out(jobs, asked.folder, asked.at_once, asked.seconds)
    return failures | play_best(asked.folder, jobs, asked.seconds - (time.monotonic() - begun_s))


def _measured(
    asked: argparse.Namespace,
    task: Task,
    published: Published,
    jobs: tuple[Job, ...],
    known: Mapping[str, tuple[Done, Course | None, Best | None]],
) -> Measured:
    """What the folder has of each seed, else what was `known` of it from another checkout."""
    folder = asked.folder
    seeds = [
        known.get(job.name, (None, None, None))
        if (one := read_done(folder, job)) is None
        else (one, _course(folder, one), best_of(folder, job))
        for job in jobs
    ]
    done, courses, best = zip(*seeds, strict=True)
    many = many_seeds(asked.learning, jobs[0], len(jobs))
    return Measured(
        task,
        published,
        jobs,
        done,
        courses=courses,
        best=best,
        unplayed=len(unplayed(folder, jobs)),
        elsewhere=() if task.unjudged else tuple(it.said(published.bound()) for it in many),
        processor=facts_of_the_machine()["processor"],
    )


def _course(folder: Path, done: Done) -> Course | None:
    curve = [(number(row.metrics.get(RETURN)), row.timesteps) for row in updates_of(folder, done)]
    best = max(((mean, steps) for mean, steps in curve if mean is not None), default=None)
    said = [it for it in findings_of(folder, done) if it.severity != "info" and it.rule not in OF_THE_MACHINE]
    warnings = tuple(f"{it.rule}: {it.sentence}" for it in said)
    return None if best is None else Course(*best, warnings)


def _jobs(task: Task, seeds: int, steps: int | None) -> tuple[Job, ...]:
    length = () if steps is None else (f"run.total_timesteps={steps}",)
    engine = (f"run.engine={task.engine}",) if task.engine else ()
    words = (*ALONE, *engine, *task.also, *length)
    return tuple(Job(task.preset, seed, words) for seed in range(task.first_seed, task.first_seed + seeds))


if __name__ == "__main__":
    sys.exit(main())
