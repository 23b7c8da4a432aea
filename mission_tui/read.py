"""Runs as data, for notebooks and scripts: `import mission_tui.read as mt; mt.runs("runs", group="lr")`.

Reads the files of a runs root and nothing else: no supervisor, no torch, nothing is changed, live runs too. What is
here keeps its names and meanings, as the documents of `--json` do (`docs/reading.md`).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from mission_tui.errors import MissionError, UsageError, nearest
from mission_tui.paths import runs_root

__all__ = ["Run", "columns", "run", "runs"]

if sys.platform != "linux":
    raise ImportError(
        f"mission_tui.read opens files as only Linux can, and this is {sys.platform}: read the runs where they were "
        "trained, or take `mission-tui metrics GROUP --csv` and `compare --json` from there"
    )

_OWN = ("update", "attempt", "timesteps", "t", "rollout_s", "update_s", "steps_per_s", "trained_s")


class Run(Struct, frozen=True, kw_only=True):
    """One run. `outcome` is finished, stopped, killed, failed or lost, and None while it has not ended.

    `settings` are those of its newest attempt by their dotted names, such as "ppo.learning_rate", with what was set
    while it trained; what nobody gave and has no default is not there. `group` is that of its launch.
    """

    id: str
    folder: Path
    name: str
    preset: str
    group: str | None
    seed: int | None
    outcome: str | None
    labels: tuple[str, ...]
    settings: dict[str, Any]

    def updates(self) -> list[dict[str, float | int | None]]:
        """A dictionary for each update that counts: `update`, `attempt`, `timesteps`, `t` (unix seconds), `rollout_s`,
        `update_s`, `steps_per_s`, `trained_s` (seconds of training until then, without pauses; None where the run does
        not say it), and every metric by its tag; with a periodic evaluation of its policy also
        `eval/mean_reward` and, where the environment knows winning, `eval/success_rate`.

        Raises `MissionError` where its file cannot be read.
        """
        from mission_tui.fleet.events.metrics import MetricRecord, counted_records, evaluated_updates, number
        from mission_tui.records.jsonl import read_all
        from mission_tui.records.runs.layout import RunDir

        path = RunDir(self.folder).metrics
        try:
            records, damage = read_all(path, MetricRecord)
        except OSError as error:
            raise MissionError(f"{path} cannot be read: {error.strerror or error}") from error
        for sentence in damage:
            warnings.warn(f"{self.id}: {sentence}", stacklevel=2)
        return [
            {name: getattr(it, name) for name in _OWN} | {tag: number(value) for tag, value in it.metrics.items()}
            for it in evaluated_updates(counted_records(records)[0])
        ]


def runs(root: str | os.PathLike[str] | None = None, *, group: str | None = None) -> list[Run]:
    """The runs of `root`, oldest first; of `group` only, if one is given. Without `root` it is where `mission-tui`
    looks from here.

    Raises `UsageError` for a folder or a group that is not there. A run whose files cannot be read is left out, with a
    warning.
    """
    from mission_tui.records.runs.layout import run_dirs

    folder = Path(runs_root(None if root is None else os.fspath(root), Path.cwd(), os.environ))
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}")
    found = []
    for run_dir in run_dirs(folder):
        try:
            found.append(_read(run_dir.path))
        except (MissionError, OSError) as error:
            warnings.warn(f"{run_dir.id} is left out: {error}", stacklevel=2)
    if group is None:
        return found
    groups = sorted({run.group for run in found if run.group is not None})
    if group not in groups:
        raise UsageError(f"no run of {folder} is in a group '{group}'{nearest(group, groups)}")
    return [run for run in found if run.group == group]


def run(folder: str | os.PathLike[str]) -> Run:
    """The run in that run directory. Raises `MissionError` or `OSError` where it cannot be read."""
    return _read(Path(folder))


def columns(chosen: Sequence[Run]) -> dict[str, list[Any]]:
    """Every update of the `chosen` runs as equally long columns, None where there is no value: `pandas.DataFrame(...)`
    and `polars.DataFrame(...)` take them as they are.

    First `run` (its id), `name`, `group` and `seed`; then each setting that is not the same in all of them; then what
    `Run.updates` has. A column has one type: a rate that is a number in some runs and a schedule in others is text in
    all of them.
    """
    names = dict.fromkeys(name for run in chosen for name in run.settings if name != "run.seed")
    varied = [name for name in names if any(run.settings.get(name) != chosen[0].settings.get(name) for run in chosen)]
    rows: list[dict[str, Any]] = []
    for run in chosen:
        whose = {"run": run.id, "name": run.name, "group": run.group, "seed": run.seed}
        whose |= {name: _cell(run.settings.get(name)) for name in varied}
        rows += [whose | update for update in run.updates()]
    heads = ("run", "name", "group", "seed", *varied, *_OWN)
    tags = sorted({tag for row in rows for tag in row} - set(heads))
    return {head: _of_one_type([row.get(head) for row in rows]) for head in (*heads, *tags)}


def _of_one_type(values: list[Any]) -> list[Any]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float}:
        return [None if value is None else float(value) for value in values]
    if len(kinds) > 1 or dict in kinds:
        return [None if value is None else str(value) for value in values]
    return values


def _cell(value: Any) -> Any:
    """A list, such as a network's sizes, is one word: `64-64`."""
    return "-".join(map(str, value)) if isinstance(value, list | tuple) else value


def _read(folder: Path) -> Run:
    from mission_tui.fleet.events.metrics import RETURN
    from mission_tui.fleet.specs.flat_settings import written_settings
    from mission_tui.records.runs.comparison_sides import read_sides

    said: list[str] = []
    (side,) = read_sides([folder], said.append, (RETURN,))[RETURN]
    for sentence in said:
        warnings.warn(sentence, stacklevel=4)
    view = side.view
    return Run(
        id=view.id,
        folder=folder,
        name=view.name,
        preset=view.preset,
        group=view.group,
        seed=side.spec.run.seed,
        outcome=view.outcome,
        labels=tuple(view.labels),
        settings=written_settings(side.spec),
    )
