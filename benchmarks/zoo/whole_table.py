"""All rows of the zoo's table of PPO results: the preset of each, whether it was trained here, and what it came to.

Whether a row is met is decided as in the sections above it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.zoo.agents_table import TITLE as AGENTS
from benchmarks.zoo.kept import Kept, kept_tasks
from benchmarks.zoo.published import TASKS, Published
from mission_tui.fleet.specs.env_ids import PLAIN_PACKAGES, package_of

if TYPE_CHECKING:
    from benchmarks.zoo.presets import ZooPreset

TITLE = "## The whole table"
SEEDS = 5
_HEAD = (
    "| the zoo's row | preset | steps | published | trained here | standard errors apart | |\n"
    "|---|---|---|---|---|---|---|"
)
_INTRO = """\
Written by `make zoo-presets`; not by hand. The zoo's table of results has {rows} rows of PPO, and its file of settings
(hyperparams/ppo.yml @ 22e3ff24, MIT) entries for some tasks more: {presets} presets are made of that file. `mission-tui
presets --zoo` lists them, `mission-tui launch zoo-halfcheetah` trains one. Ids that Gymnasium no longer makes were
replaced by those that make the same task today; Minitaur's two tasks, which no package for Gymnasium makes, are left
out; a minibatch that is larger than its rollout is written as the rollout, which is what SB3 takes then.

**{tried} rows were trained here, {met} of them are met, and {never} were never tried.**

*Trained here* is the mean of the seeds' means ± its standard error; *published* is the mean over one agent's episodes ±
its standard error. A row is judged as above: met where ours is at most two standard errors of the difference below the
published mean, and five percent. Nobody knows how much another seed of the zoo would have come to, so a row that is
missed by a little says little."""


def section(published: Mapping[str, Published], presets: Mapping[str, ZooPreset], kept: Path) -> str:
    """The part of the page; `presets` by the zoo's name of the task, `kept` is what was trained."""
    trained = list(_trained(kept_tasks(kept)))
    lines, met, tried = [], 0, 0
    for zoo_env in sorted(published):
        here = [it for it in trained if it[0] == zoo_env]
        tried += bool(here)
        met += bool(here) and all(published[zoo_env].is_met(means) for _, _, means in here)
        lines.append(_line(zoo_env, published[zoo_env], _preset(zoo_env, presets), here))
    more = sorted(each.name for task, each in presets.items() if not any(_same(task, it) for it in published))
    intro = _INTRO.format(rows=len(published), presets=len(presets), tried=tried, met=met, never=len(published) - tried)
    return "\n\n".join(
        [
            TITLE,
            intro,
            "\n".join([_HEAD, *lines]),
            f"Presets of which the zoo has no result: {', '.join(f'`{name}`' for name in more)}.",
        ]
    )


def with_section(page: str, said: str) -> str:
    """`page` with `said` in place of what it had of the whole table, before the published agents."""
    before, agents, after = page.partition(AGENTS)
    before = before.partition(TITLE)[0].rstrip("\n")
    return "\n\n".join(part for part in (before, said, f"{agents}{after}") if part.strip()) + ("" if after else "\n")


def _trained(tasks: Sequence[Kept]) -> Iterator[tuple[str, str, list[float]]]:
    """The zoo's row, the processor and the means of whole sets of seeds, of PPO by the default engine."""
    known = {task.name: task for task in TASKS if task.algo == "ppo" and not (task.engine or task.repeat)}
    for kept in tasks:
        means = [float(it.evaluation["mean"]) for it in kept.done if it is not None]
        if kept.task in known and len(means) == len(kept.done) > 1:
            yield known[kept.task].zoo_env, kept.processor, means


def apart(published: Published, means: Sequence[float]) -> float:
    """By how many standard errors of the difference the mean of `means` is above the published one."""
    error = published.error_apart(means)
    difference = statistics.fmean(means) - published.mean
    return 0.0 if difference == 0.0 else math.copysign(math.inf, difference) if error == 0.0 else difference / error


def _preset(zoo_env: str, presets: Mapping[str, ZooPreset]) -> ZooPreset | None:
    return next((each for task, each in presets.items() if _same(task, zoo_env)), None)


def _same(task: str, row: str) -> bool:
    """Whether the settings of `task` are for the table's `row`, whose versions are older."""
    return task.rpartition("-v")[0] == row.rpartition("-v")[0]


def _line(
    zoo_env: str, published: Published, preset: ZooPreset | None, here: Sequence[tuple[str, str, Sequence[float]]]
) -> str:
    name = "" if preset is None else f"`{preset.name}`"
    steps = 0 if preset is None else preset.tables["run"]["total_timesteps"]
    said = _figure(published.mean, published.error)
    if not here:
        return f"| {zoo_env} | {name} | {steps:,} | {said} | | | never tried: {_why_not(zoo_env, preset, steps)} |"
    ours, errors, words = [], [], []
    for _, processor, means in here:
        error = statistics.stdev(means) / math.sqrt(len(means))
        ours.append(f"{_figure(statistics.fmean(means), error)} ({len(means)} seeds, {processor})")
        errors.append(f"{apart(published, means):+.1f}")
        words.append("met" if published.is_met(means) else "**MISSED**")
    other = "" if preset is None or preset.tables["env"]["id"] == zoo_env else f"; as {preset.tables['env']['id']}"
    cells = ("; ".join(ours), "; ".join(errors), "; ".join(words) + other)
    return f"| {zoo_env} | {name} | {steps:,} | {said} | {' | '.join(cells)} |"


def _figure(mean: float, error: float) -> str:
    digits = 1 if abs(mean) >= 10.0 else 3
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def _why_not(zoo_env: str, preset: ZooPreset | None, steps: int) -> str:
    if preset is None:
        return "the zoo's file has no settings for it"
    package = package_of(zoo_env)
    needs = f"needs {package}, which no extra brings, and " if package in PLAIN_PACKAGES else ""
    pixels = " of pixels" if preset.tables["ppo"]["policy"] == "CnnPolicy" else ""
    return f"{needs}{SEEDS * steps:,} steps{pixels} for {SEEDS} seeds"
