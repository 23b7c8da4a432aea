"""Source 003's comparison: the same 32 environments in one process and in 4 workers of 8, by `bench --vs`.

The guide promises that workers are two to three times as fast; here `bench` says faster, the same or slower, task by
task. Run: python -m benchmarks.modes [--duration TIME] [--repeat N] [--json FILE] [--page FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet.lab import Lab, opened
from benchmarks.results import Row, Sheet, Spread, busy_elsewhere, facts_of_the_machine, write_sheet
from benchmarks.rows import unmeasured

__all__ = ["TASKS", "Task", "main", "page", "row_of"]

EXPECTED = "none; source 003 expects 2 to 3 x"
ONE_PROCESS = "one process x 32"
PREFACE = """\
Environments can be stepped in the trainer's own process (`env.vec = "inline"`) or in several env workers (`"workers"`).
A guide to training modes (source 003) trains the same 32 environments in one process or in 4 workers of 8, and expects
the workers to be two to three times as fast. This is what `mission-tui bench` measured on the machine named below. A
speed-up below 1 is a slow-down; the interval in brackets holds the true value with 95 % probability.

The page is written by `python -m benchmarks.modes --page docs/modes.md`, not by hand."""
PAYING = """\
Workers are faster if one step of the environment takes longer than handing it to a worker, and if there are cores for
them: here there are {cores}, and the trainer needs one. `env.vec = "auto"` measures both for each run and chooses.
MissionGym also has a form that steps all environments at once (`env.vec = "native"`), which needs neither."""
HEAD = "| task | 4 workers x 8 | one process x 32 | speed-up | verdict on the workers |\n|---|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Task:
    """What is trained in both modes: two presets, `--set` words for both, and a module that an extra brings.

    `duration` is for a task of which an update takes so long that few would be done in the usual time.
    """

    name: str
    sequential: str
    workers: str
    assignments: tuple[str, ...] = ()
    module: str = ""
    extra: str = ""
    duration: str = ""

    def bench_words(self, duration: str, repeats: int) -> tuple[str, ...]:
        """The words after `mission-tui`; workers are held against one process, so that "slower" is said of them."""
        both = [word for it in self.assignments for word in ("--set", it, "--vs-set", it)]
        length = ("--duration", self.duration or duration, "--repeat", str(repeats))
        return ("bench", self.workers, "--vs", self.sequential, *both, *length)


TASKS = (
    Task("CartPole-v1", "modes-sequential", "modes-workers"),
    Task("MissionGym-v0", "modes-sequential-mission", "modes-workers-mission"),
    Task(
        "Procgen CoinRun (easy)",
        "modes-sequential",
        "modes-workers",
        ("env.id=envpool:CoinrunEasy-v0", "ppo.policy=CnnPolicy"),
        "envpool",
        "fast-envs",
        "60s",
    ),
)


def measured(lab: Lab, task: Task, duration: str, repeats: int) -> dict[str, Any] | str:
    """The document of the bench, or why there is none."""
    if task.module and importlib.util.find_spec(task.module) is None:
        return f"needs the `{task.extra}` extra"
    try:
        found: dict[str, Any] = lab.cli(*task.bench_words(duration, repeats))
    except subprocess.CalledProcessError as error:
        return f"`bench` ended with exit code {error.returncode}"
    return found


def row_of(task: Task, found: dict[str, Any] | str) -> Row:
    """Workers beside one process; the ratio is that of the pairs that took turns, and its 95 % interval."""
    what = f"training modes, {task.name}, 4 workers x 8"
    if isinstance(found, str):
        return unmeasured(what, EXPECTED, found, ONE_PROCESS)
    ours, theirs = (Spread.of(_rates(side)) for side in found["sides"])
    ratio = found["ratio"]
    interval = Spread(ratio["ratio"], ratio["lo"] or ratio["ratio"], ratio["hi"] or ratio["ratio"])
    note = "; ".join((ratio["sentence"], *found["notes"]))
    return Row(what, "steps/s", ours, EXPECTED, None, ONE_PROCESS, theirs, interval, note)


def _rates(side: dict[str, Any]) -> list[float]:
    return [float(repeat["timing"]["steps_per_s"]) for repeat in side["repeats"]]


def page(found: Sequence[tuple[Task, dict[str, Any] | str]], duration: str, repeats: int) -> str:
    """`docs/modes.md`."""
    notes = [f"- {task.name}: {note}" for task, it in found if not isinstance(it, str) for note in it["notes"]]
    commands = [" ".join(("mission-tui", *task.bench_words(duration, repeats))) for task, _ in found]
    parts = [
        "# One process or several",
        PREFACE,
        "\n".join([HEAD, *(_line(task, it) for task, it in found)]),
        *(["\n".join(notes)] if notes else []),
        PAYING.format(cores=len(os.sched_getaffinity(0))),
        "```\n" + "\n".join(commands) + "\n```",
        ", ".join(f"{name} {value}" for name, value in facts_of_the_machine().items()) + ".",
    ]
    return "\n\n".join(parts) + "\n"


def _line(task: Task, found: dict[str, Any] | str) -> str:
    if isinstance(found, str):
        return f"| {task.name} | | | | not measured: {found} |"
    rates = [f"{side['steps_per_s']['median']:,.0f} steps/s" for side in found["sides"]]
    ratio = found["ratio"]
    interval = "" if ratio["lo"] is None else f" ({ratio['lo']:.2f} to {ratio['hi']:.2f})"
    cells = (task.name, *rates, f"{ratio['ratio']:.2f} x{interval}", f"**{found['verdict'] or 'no verdict'}**")
    return "| " + " | ".join(cells) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; with `--json` also write the sheet, with `--page` the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", default="30s", help="of each timed run")
    parser.add_argument("--repeat", type=int, default=5, help="timed runs of each mode")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    asked = parser.parse_args(arguments)
    elsewhere = busy_elsewhere()
    found = []
    with opened() as lab:
        for task in TASKS:
            found.append((task, measured(lab, task, asked.duration, asked.repeat)))
            row = row_of(*found[-1])
            print(f"{task.name}: {row.note}", flush=True)
    if asked.page is not None:
        asked.page.write_text(page(found, asked.duration, asked.repeat), encoding="utf-8")
    if asked.json is not None:
        rows = tuple(row_of(*it) for it in found)
        command = f"python -m benchmarks.modes --duration {asked.duration} --repeat {asked.repeat}"
        write_sheet(Sheet("Training modes", command, rows, elsewhere=elsewhere), asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
