"""The zoo's table with ours beside it: rows for the sheet, and the page `docs/zoo.md`.

A task is judged by the mean over all its seeds, so one with seeds missing is shown and not judged; so is one of which
the zoo trained another version. Processors round differently, and what a seed comes to depends on that: each has lines
of its own.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.campaign import Done, Job
from benchmarks.fleet.shapes import as_options
from benchmarks.results import Row, Sheet, Spread
from benchmarks.rows import unmeasured
from benchmarks.zoo.best import Best
from benchmarks.zoo.published import Published, Task
from mission_tui.fleet.comparison import spread_of

__all__ = ["Course", "Measured", "page", "row_of"]

WORDS = {True: "met", False: "**MISSED**"}
HEAD = (
    "| task | steps | published | at least | ours, mean over seeds | 95 % of it | "
    "| best kept checkpoint, **not judged** |\n"
    "|---|---|---|---|---|---|---|---|"
)
PREFACE = """\
Written by `make zoo`; not by hand. Settings and published figures are those of the RL Baselines3 Zoo
(DLR-RM/rl-trained-agents @ cd35bde6 and DLR-RM/rl-baselines3-zoo @ 22e3ff24, MIT).

How to read it: a line is one task, trained here five times (five seeds) on the processor that is named. *Published* is
the return of the zoo's own agent, *ours* that of the policies with which our runs ended. A line is *met* where our mean
reaches *at least*, which is a little less than what was published, and *missed* where it does not; lines that are no
fair comparison with the zoo are shown and not judged, with the reason. "Only the last kept" means that the runs kept no
older checkpoint that could have been better. How each figure came about stands below the table."""
METHOD = """\
Each task is trained with five seeds by `mission-tui launch`, under the supervisor, with the settings with which the zoo
trained its own agent; SB3's defaults hold where the zoo wrote nothing. Every run has one torch thread on the CPU. The
policy with which a run ended, none chosen among checkpoints, plays 100 episodes by `mission-tui evaluate`, taking its
most probable actions as the zoo did, on observations normalized as in its training and with raw rewards.

*Published* is one agent of the zoo, played for 150,000 steps; its ± is the standard deviation over those episodes. The
zoo calls its table no quantitative benchmark, because each row is one run. *Ours* is the mean of the seeds' means; its
± is the standard deviation over the seeds, and the interval is Student's over them. *At least* is the published mean
less two standard errors of the difference between it and ours, one percent at least and five at most: the mean over all
five seeds has to reach it, and a seed that learned nothing is not excused by the spread that it makes.

Processors round differently, so a seed trains differently on each: what was trained on another one keeps its line,
and is judged for itself.

*Best kept checkpoint* is what `evaluate RUN --checkpoint best` plays in the same way: of the checkpoints that a run
still has, the one saved at its highest mean return in training. It decides nothing here. A run that kept its last one
alone has none; the repeat of CartPole-v1 keeps ten, which changes no number of the training."""


@dataclass(frozen=True, slots=True)
class Course:
    """The highest mean over a hundred episodes in training, the steps done by then, and what the rules warned of."""

    best: float
    steps: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Measured:
    """A task with the zoo's row and what its jobs came to, in the order of the seeds; None is not done.

    `courses` are how those trainings went, None where their runs are gone; `best` what the best checkpoints they kept
    came to, None where there was none to play, or nobody has, as of `unplayed` seeds. `elsewhere` says what many
    seeds of the same came to that were trained without a supervisor. All of it was trained on `processor`.
    """

    task: Task
    published: Published
    jobs: tuple[Job, ...]
    done: tuple[Done | None, ...]
    courses: tuple[Course | None, ...] = ()
    best: tuple[Best | None, ...] = ()
    unplayed: int = 0
    elsewhere: tuple[str, ...] = ()
    processor: str = ""

    @property
    def name(self) -> str:
        """What its lines are called: the task, and where it was trained."""
        return f"{self.task.name} on {self.processor}" if self.processor and self.means else self.task.name

    @property
    def means(self) -> list[float]:
        """The mean return of each seed that is done."""
        return [float(it.evaluation["mean"]) for it in self.done if it is not None]

    @property
    def is_whole(self) -> bool:
        """Whether every seed is done."""
        return bool(self.done) and None not in self.done

    @property
    def met(self) -> bool | None:
        """Whether the mean over the seeds reaches the bound; None where that is not judged."""
        if not self.is_whole or self.task.unjudged:
            return None
        return self.published.is_met(self.means)

    @property
    def said(self) -> str:
        """The last cell of its line."""
        if not self.means:
            return f"not measured: {self.task.missing or 'run `make zoo`'}"
        if not self.is_whole:
            return f"not judged: {len(self.means)} of {len(self.done)} seeds are done"
        if self.task.unjudged:
            near = "reaches" if self.published.is_met(self.means) else "does not reach"
            return f"not judged: {self.task.unjudged}; it {near} the bound"
        return WORDS[bool(self.met)]


def row_of(measured: Measured) -> Row:
    """The line of the sheet."""
    task, published = measured.task, measured.published
    what = f"the zoo's {measured.name}, {len(measured.jobs)} seeds, return of the final policy"
    goal, against = f"mean >= {published.bound(measured.means):.1f}", f"published ({task.zoo_env}, one agent)"
    if not measured.means:
        return unmeasured(what, goal, task.missing or "run `make zoo`", against)
    mean, ours = statistics.fmean(measured.means), Spread.of(measured.means)
    peer = Spread.of([published.mean])
    note = f"mean over seeds {mean:.1f}; published {_figure(published.mean, published.std)}"
    note += "" if measured.met is not None else f"; {measured.said}"
    return Row(what, "return", ours, goal, measured.met, against, peer, note=note)


def page(measured: Sequence[Measured], sheet: Sheet) -> str:
    """`docs/zoo.md`."""
    parts = [
        "# The zoo's table, trained here",
        PREFACE,
        _reading(measured),
        "\n".join([HEAD, *map(_line, measured)]),
        "## Each seed",
        "Mean ± standard deviation over the 100 episodes of one policy.",
        _by_seed(measured),
        *_below(measured),
        "## How it was measured",
        METHOD,
        _commands(measured),
        _provenance(measured, sheet),
    ]
    return "\n\n".join(parts) + "\n"


def _reading(measured: Sequence[Measured]) -> str:
    judged = [it for it in measured if it.met is not None]
    missed = [it.name for it in judged if not it.met]
    text = f"{len(judged) - len(missed)} of {len(judged)} judged lines are met"
    text += f"; missed: {', '.join(missed)}." if missed else "."
    if others := [it.name for it in measured if it.met is None]:
        text += f" Not judged: {', '.join(others)}."
    return text


def _line(it: Measured) -> str:
    published = f"{_figure(it.published.mean, it.published.std)} ({it.published.episodes:,} episodes)"
    steps = it.jobs[0].spec.run.total_timesteps or 0
    bound = f"{it.published.bound(it.means):.1f}"
    return _cells(it.name, f"{steps:,}", published, bound, _ours(it.means), _interval(it), it.said, _best(it))


def _best(it: Measured) -> str:
    means = [float(one.evaluation["mean"]) for one in it.best if one is not None]
    if not means:
        return "not played" if it.unplayed else "only the last kept" if it.means else ""
    return f"{_ours(means)} ({len(means)} of {len(it.jobs)} seeds)"


def _ours(means: Sequence[float]) -> str:
    if not means:
        return ""
    return _figure(statistics.fmean(means), statistics.stdev(means) if len(means) > 1 else None)


def _interval(it: Measured) -> str:
    spread = spread_of([None if one is None else float(one.evaluation["mean"]) for one in it.done])
    if spread is None or spread.interval is None:
        return ""
    return f"{spread.interval[0]:.1f} to {spread.interval[1]:.1f}"


def _by_seed(measured: Sequence[Measured]) -> str:
    most = max(len(it.jobs) for it in measured)
    lines = [_cells("task", *(f"seed {number}" for number in range(1, most + 1))), "|---" * (most + 1) + "|"]
    for it in measured:
        lines.append(_cells(it.name, *(_seed_cell(*each) for each in enumerate(zip(it.jobs, it.done, strict=True)))))
        if any(it.best):
            both = zip(it.done, it.best, strict=True)
            lines.append(_cells("- its best kept checkpoint, not judged", *(_best_cell(*each) for each in both)))
    return "\n".join(lines)


def _seed_cell(place: int, each: tuple[Job, Done | None]) -> str:
    job, done = each
    said = "not done" if done is None else _played(done.evaluation)
    return said if job.seed == place + 1 else f"seed {job.seed}: {said}"


def _best_cell(done: Done | None, best: Best | None) -> str:
    if best is None or done is None:
        return "" if done is None else "only the last kept"
    if best.evaluation["checkpoint"] == done.evaluation.get("checkpoint"):
        return "the final one"
    return f"{_played(best.evaluation)} at {int(best.evaluation['checkpoint']):,}"


def _below(measured: Sequence[Measured]) -> list[str]:
    """Seeds that ended below the bound, and how good they had been: not to have learned is not to have forgotten."""
    lines = [
        _told(it.name, job, one, course)
        for it in measured
        for job, one, course in zip(it.jobs, it.done, it.courses, strict=False)
        if one is not None and course is not None and float(one.evaluation["mean"]) < it.published.bound(it.means)
    ]
    told = ["Seeds below the bound:\n\n" + "\n".join(lines)] if lines else []
    return told + [_elsewhere(it) for it in measured if it.elsewhere]


def _elsewhere(it: Measured) -> str:
    """Five seeds say little of how often that happens."""
    counts = ", ".join(it.elsewhere)
    return (
        f"How often does {it.name} end below {it.published.bound():.1f}? Trained with more seeds and without a "
        f"supervisor (`python -m benchmarks.learning`): {counts}."
    )


def _told(name: str, job: Job, done: Done, course: Course) -> str:
    length = job.spec.run.total_timesteps or 0
    ended = (
        f"- {name}, seed {job.seed}: {_played(done.evaluation)} at the end; the mean of a hundred episodes in "
        "training was"
    )
    reached = f"at most {course.best:.1f}, after {course.steps:,} of {length:,} steps."
    warned = "The health rules warned:" if course.warnings else "The health rules warned of nothing."
    return " ".join((ended, reached, warned)) + "".join(f"\n  - {sentence}" for sentence in course.warnings)


def _played(evaluation: Mapping[str, Any]) -> str:
    return _figure(evaluation["mean"], evaluation["std"])


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _commands(measured: Sequence[Measured]) -> str:
    first = list(dict.fromkeys((it.jobs[0], f"--seeds {len(it.jobs)}" + _from(it.jobs[0])) for it in measured))
    lines = [
        "make zoo                 # two runs at a time; goes on where it was left",
        "make zoo SECONDS=600     # the same, for so long; what then trains is stopped with a checkpoint",
        *(f"mission-tui launch {job.preset} {' '.join(as_options(job.assignments))} {n}" for job, n in first),
        f"mission-tui evaluate RUN --episodes {first[0][0].episodes}",
        f"mission-tui evaluate RUN --episodes {first[0][0].episodes} --checkpoint best",
    ]
    return "All of it, then the same by hand:\n\n```\n" + "\n".join(lines) + "\n```"


def _from(job: Job) -> str:
    return "" if job.seed == 1 else f" --seed {job.seed}"


def _provenance(measured: Sequence[Measured], sheet: Sheet) -> str:
    runs: Counter[str] = Counter()
    for it in measured:
        runs[it.processor or "a processor without a name"] += sum(one is not None for one in it.done)
    counts = ", ".join(f"{count} on {processor}" for processor, count in runs.items() if count)
    machine = ", ".join(f"{name} {value}" for name, value in sheet.machine.items() if name != "processor")
    return f"Runs: {counts}. No time is compared, so machines may have been busy.\n\n{sheet.when}; {machine}."


def _figure(mean: float | str, std: float | str | None) -> str:
    return f"{float(mean):.1f}" + ("" if std is None else f" ± {float(std):.1f}")
