"""The five arms side by side: rows for the sheet, and the page `docs/large-batch.md`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from benchmarks.large_batch.answers import GOAL_STEPS_PER_S, Found, answers
from benchmarks.large_batch.arms import ARMS, LARGE, REFERENCE, STEPS, Arm, Learned
from benchmarks.large_batch.kept import Trained
from benchmarks.results import Row, Spread
from benchmarks.rows import bounded, unmeasured

__all__ = ["command", "page", "rows"]

NEXT = "run `make large-batch`"
HEAD = (
    "| setting | minibatch | gradient steps an update | updates | KL | most | clip fraction | most | best return "
    "| won at the end | steps/s |\n|---|---|---|---|---|---|---|---|---|---|---|"
)
PREFACE = """\
Written by `make large-batch`; not by hand. [Source 004](sources.md) saw training degrade when it went from 256 to 2,048
environments, and fixed that by scaling minibatches and epochs and lowering the learning rate. This is the same on our
own task:
{steps:,} steps each, {seeds} seeds."""
METHOD = """\
Every training is a supervised run of `swarm` on MissionGym's `standard` mission with the words of its row; the rollout
is 256 x 128 = 32,768 or 2,048 x 128 = 262,144 transitions. *Unscaled* keeps the four minibatches and four epochs of the
small rollout, so that its minibatches are eight times as large; *auto-scaled* keeps minibatches of 8,192 and lowers the
epochs to two. KL (`train/approx_kl`) and clip fraction are medians over the updates of a run, *most* is the highest
update; *best return* is the highest mean over the last hundred episodes in training; *won at the end* is the share of
100 episodes that the final policy won, played by `mission-tui evaluate`. Figures are means over the seeds, with the
least and the most in brackets. Where each trained, and beside how many, stands at the end; speeds are those of that
machine, as busy as it then was.

A run with 2,048 environments has an eighth of the updates of one with 256: with the same number of steps it has seen as
much and learned from it less often. That is part of the question, and not corrected for."""


def rows(found: Found, seeds: int, steps: int) -> list[Row]:
    """Best return of each arm beside the small rollout's, and the speed of each large one beside its goal."""
    lines = [_returns(arm, found, seeds, steps) for arm in ARMS]
    return [*lines, *(_speed(arm, found, seeds) for arm in LARGE)]


def _returns(arm: Arm, found: Found, seeds: int, steps: int) -> Row:
    what = f"large batch, {arm.name}, best return in {steps:,} steps, {seeds} seeds"
    every, small = found.get(arm, ()), found.get(REFERENCE, ())
    if len(every) < seeds:
        return unmeasured(what, "", f"{len(every)} of {seeds} seeds are done; {NEXT}")
    peer = Spread.of([it.best for it in small]) if len(small) == seeds and arm != REFERENCE else None
    note = f"median KL {_mean(every, 'kl'):.3f}, clip fraction {_mean(every, 'clip'):.2f}{_on_a_gpu(every)}"
    against = REFERENCE.name if peer else ""
    best = Spread.of([it.best for it in every])
    return Row(what, "return", best, "", None, against, peer, note=note)


def _speed(arm: Arm, found: Found, seeds: int) -> Row:
    what, every = f"large batch, {arm.name}, speed", found.get(arm, ())
    if len(every) < seeds:
        return unmeasured(what, f">= {GOAL_STEPS_PER_S:,.0f} steps/s", NEXT)
    note = _on_a_gpu(every).removeprefix("; ")
    return bounded(what, "steps/s", [it.steps_per_s for it in every], at_least=GOAL_STEPS_PER_S, note=note)


def _on_a_gpu(every: Sequence[Learned]) -> str:
    count = sum("GPU" in it.place for it in every)
    return f"; {count} of {len(every)} trained on a GPU, beside others" if count else ""


def page(trained: Trained, seeds: int) -> str:
    """`docs/large-batch.md`."""
    found = trained.found
    parts = [
        "# Large batches on MissionGym",
        PREFACE.format(steps=trained.steps, seeds=seeds),
        "\n".join(f"- {sentence}" for sentence in answers(found, seeds)),
        "\n".join([HEAD, *(_line(arm, found.get(arm, ()), seeds) for arm in ARMS)]),
        "## How it was measured",
        METHOD,
        _commands(trained, seeds),
        *_places(found),
    ]
    return "\n\n".join(parts) + "\n"


def _line(arm: Arm, every: Sequence[Learned], seeds: int) -> str:
    plan = arm.plan
    name = arm.name if len(every) == seeds else f"{arm.name} ({len(every)} of {seeds} seeds)"
    cells = [name, f"{plan.batch_size:,}", f"{plan.minibatches} x {plan.n_epochs} = {plan.gradient_steps}"]
    if not every:
        return "| " + " | ".join([*cells, f"not measured: {NEXT}", *[""] * 7]) + " |"
    cells.append(f"{every[0].updates:,}")
    for take, form in COLUMNS:
        values = [value for it in every if (value := take(it)) is not None]
        cells.append(_cell(values, form))
    return "| " + " | ".join(cells) + " |"


COLUMNS: tuple[tuple[Callable[[Learned], float | None], str], ...] = (
    (lambda it: it.kl, ".4f"),
    (lambda it: it.kl_most, ".4f"),
    (lambda it: it.clip, ".3f"),
    (lambda it: it.clip_most, ".3f"),
    (lambda it: it.best, ".2f"),
    (lambda it: it.won, ".0%"),
    (lambda it: it.steps_per_s, ",.0f"),
)


def _cell(values: Sequence[float], form: str) -> str:
    if not values:
        return ""
    middle = format(statistics.fmean(values), form)
    return middle if len(values) == 1 else f"{middle} ({format(min(values), form)} to {format(max(values), form)})"


def _mean(every: Sequence[Learned], name: str) -> float:
    return statistics.fmean(getattr(it, name) for it in every)


def _places(found: Found) -> list[str]:
    """Where trainings were made, each place with what it made."""
    made: dict[str, list[str]] = {}
    for arm, every in found.items():
        for it in every:
            made.setdefault(it.place, []).append(f"{arm.name}, seed {it.seed}")
    return [f"{'; '.join(names)}: {place}." for place, names in made.items()]


def command(steps: int) -> str:
    """What makes trainings of this length."""
    return "make large-batch" if steps == STEPS else f"make large-batch STEPS={steps}"


def _commands(trained: Trained, seeds: int) -> str:
    made = command(trained.steps)
    lines = [
        f"{made}  # goes on where it was left",
        f"{made} SECONDS=600  # the same, for so long; what then trains is stopped with a checkpoint",
        f"{made} DEVICE=cuda AT_ONCE=9  # on a card, so many side by side",
        *(_launch(arm, trained.steps, seeds) for arm in ARMS),
    ]
    return "All of it, then the same by hand:\n\n```\n" + "\n".join(lines) + "\n```"


def _launch(arm: Arm, steps: int, seeds: int) -> str:
    job = arm.job(1, steps)
    return f"mission-tui launch {job.preset} {' '.join(f'--set {word}' for word in job.assignments)} --seeds {seeds}"
