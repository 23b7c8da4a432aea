"""The campaign: trains what is not trained yet, then compares. No time is measured, so any machine will do.

A training that is in the folder is never done again, so that the campaign can be cut off anywhere; a training of other
settings or another version of torch or SB3 has another file. After a change of the engines, give a fresh folder.
Run: python -m benchmarks.learning [--json FILE] [--table FILE] [--folder FOLDER] [--task NAME ...] [--seeds N]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.learning.compare import at_checkpoints, row
from benchmarks.learning.train import Engine, Learned, learn, preset
from benchmarks.results import PACKAGES, Sheet, facts_of_the_machine, write_sheet
from mission_tui.fleet.specs.spec import Spec

TASKS = ("cartpole", "demo", "acrobot")
ENGINES: tuple[Engine, ...] = ("fast", "sb3", "stock")
SHOWN = (1, 2, 4, 10, 20)


def main(arguments: Sequence[str] | None = None) -> None:
    """Train what is missing, print the tables, write the sheet."""
    asked = _parse(arguments)
    seeds = range(1, asked.seeds + 1)
    for task in asked.task:
        for engine in asked.engine:
            for seed in seeds:
                _trained(asked.folder, preset(task, seed, asked.steps), engine, train=not asked.report)
    rows, tables = [], []
    for task in asked.task:
        found = {
            engine: [
                one
                for seed in seeds
                if (one := _read(asked.folder, preset(task, seed, asked.steps), engine)) is not None
            ]
            for engine in asked.engine
        }
        ours = found.get("fast", [])
        for engine, theirs in found.items():
            both = {one.spec.run.seed for one in ours} & {one.spec.run.seed for one in theirs}
            if engine != "fast" and both:
                rows.append(row(_of(ours, both), _of(theirs, both)))
        tables.append(_table(task, {engine: trainings for engine, trainings in found.items() if trainings}))
    text = "\n".join(tables)
    print(text)
    for line in rows:
        print(f"{line.what}, against {line.against}: {'met' if line.met else 'MISSED'}; {line.note}")
    if asked.table is not None:
        asked.table.parent.mkdir(parents=True, exist_ok=True)
        asked.table.write_text(text, encoding="utf-8")
    if asked.json is not None:
        write_sheet(Sheet("Learning is unchanged", "python -m benchmarks.learning", tuple(rows)), asked.json)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.learning", description="Compare what the engines learn.")
    parser.add_argument("--json", type=Path, help="write the sheet there")
    parser.add_argument("--table", type=Path, help="write the curves there, as a table in Markdown")
    parser.add_argument("--folder", type=Path, default=Path("build/learning"), help="where trainings are kept")
    parser.add_argument("--task", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--engine", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, help="train for that long instead of the preset's own length")
    parser.add_argument("--report", action="store_true", help="train nothing, compare what is there")
    return parser.parse_args(arguments)


def _trained(folder: Path, spec: Spec, engine: Engine, *, train: bool) -> None:
    """Train unless it is there already."""
    if not train or _read(folder, spec, engine) is not None:
        return
    begun = time.monotonic()
    learned = learn(spec, engine)
    folder.mkdir(parents=True, exist_ok=True)
    file = _file(folder, spec, engine)
    # Under its name only when it is whole: a campaign may be cut off anywhere.
    half = file.with_suffix(".half")
    half.write_bytes(msgspec.json.encode(learned))
    half.replace(file)
    print(f"{file.stem}: {learned.processor_s:.0f} s of processor time in {time.monotonic() - begun:.0f} s", flush=True)


def _read(folder: Path, spec: Spec, engine: Engine) -> Learned | None:
    file = _file(folder, spec, engine)
    return msgspec.json.decode(file.read_bytes(), type=Learned) if file.exists() else None


def _file(folder: Path, spec: Spec, engine: Engine) -> Path:
    versions = {name: facts_of_the_machine()[name] for name in PACKAGES if name != "textual"}
    settings = hashlib.sha256(msgspec.json.encode([spec, versions])).hexdigest()[:8]
    return folder / f"{spec.preset}-{engine}-s{spec.run.seed}-{settings}.json"


def _of(trainings: Sequence[Learned], seeds: set[int | None]) -> list[Learned]:
    return [training for training in trainings if training.spec.run.seed in seeds]


def _table(task: str, found: dict[Engine, list[Learned]]) -> str:
    """Medians over the seeds with least and most, at a few of the checkpoints."""
    lines = [f"| {task}, at | " + " | ".join(f"{engine} ({len(all_)} seeds)" for engine, all_ in found.items()) + " |"]
    lines.append("|---" * (1 + len(found)) + "|")
    for number in SHOWN:
        cells = [_cell([at_checkpoints(training)[number - 1] for training in all_]) for all_ in found.values()]
        lines.append(f"| {number / 20:.0%} of the steps | " + " | ".join(cells) + " |")
    means = [[statistics.fmean(training.returns) for training in all_] for all_ in found.values()]
    lines.append("| evaluated | " + " | ".join(map(_cell, means)) + " |")
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):.4g} ({min(known):.4g} to {max(known):.4g})" if known else "-"


if __name__ == "__main__":
    os.nice(19)
    main()
