"""What the trainings answer to source 004, by rules fixed beforehand, in sentences.

Three seeds say little: one setting is called above another only if each of its seeds is above each of the other's,
which three and three seeds of one thing do by chance once in twenty.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.large_batch.arms import LARGE, REFERENCE, SCALED, UNSCALED, Arm, Learned

__all__ = ["GOAL_STEPS_PER_S", "Found", "answers", "is_above"]

Found = Mapping[Arm, Sequence[Learned]]
"""The trainings of each arm that are done, in the order of their seeds."""

GOAL_STEPS_PER_S = 18_000.0
LEAST_SEEDS = 3
FALLEN = 0.1
KL_HIGH, CLIP_HIGH = 0.08, 0.35
"""The source's "signs of learning rate too high"."""


def answers(found: Found, seeds: int) -> list[str]:
    """A sentence for each question; those that need trainings which are missing say so."""
    if seeds < LEAST_SEEDS:
        return [f"**Not answered**: an answer takes {LEAST_SEEDS} seeds, and these are {seeds}.", *_speed(found)]
    missing = [arm for arm in (REFERENCE, *LARGE) if len(found.get(arm, ())) < seeds]
    unknown = []
    if missing:
        names = "; ".join(arm.name for arm in missing)
        unknown.append(f"**Not answered yet**: of {names} not all {seeds} seeds are done.")
    if REFERENCE in missing or UNSCALED in missing:
        return [*unknown, *_speed(found)]
    recovered = [_recovers(found, arm) for arm in SCALED if arm not in missing]
    return [_degrades(found), *recovered, *unknown, *_strained(found), _fell(found), _wins(found), *_speed(found)]


def is_above(one: Sequence[Learned], other: Sequence[Learned]) -> bool:
    """Whether the best return of every seed of `one` is above that of every seed of `other`."""
    return min(it.best for it in one) > max(it.best for it in other)


def _degrades(found: Found) -> str:
    large, small = found[UNSCALED], found[REFERENCE]
    figures = f"best return {_best(large)} against {_best(small)} of {REFERENCE.name}"
    if is_above(small, large):
        return f"**Does the unscaled one degrade here? Yes**: {figures}; every seed lies below every other's."
    if is_above(large, small):
        return f"**Does the unscaled one degrade here? No, it is better**: {figures}."
    return f"**Does the unscaled one degrade here? Not shown**: {figures}; the seeds overlap."


def _recovers(found: Found, arm: Arm) -> str:
    scaled, plain, small = found[arm], found[UNSCALED], found[REFERENCE]
    if is_above(scaled, plain):
        short = is_above(small, scaled)
        said = "above the unscaled one in every seed, and "
        said += "below the small rollout in every seed" if short else "not below the small rollout"
        answer = "partly" if short else "yes"
    elif is_above(plain, scaled):
        answer, said = "no", "worse than without scaling"
    else:
        answer, said = "not shown", "its seeds and those of the unscaled one overlap"
    return f"**Does it recover, {arm.name}? {answer.capitalize()}**: best return {_best(scaled)}, {said}."


def _strained(found: Found) -> list[str]:
    """The arms whose updates go as far as the source warns of."""
    over = []
    judged = {arm: every for arm, every in found.items() if every}
    for arm, every in judged.items():
        kl, clip = _middle([it.kl for it in every]), _middle([it.clip for it in every])
        if kl > KL_HIGH or clip > CLIP_HIGH:
            over.append(f"{arm.name} (median KL {kl:.3f}, clip fraction {clip:.2f})")
    number = ("none", "one", "two", "three", "four", "five")[len(judged)]
    which = "; ".join(over) or f"none of the {number}"
    limits = f"**Over the source's limits** (KL {KL_HIGH}, clip fraction {CLIP_HIGH}) in most updates"
    return [f"{limits}: {which}; the most of any update is {_most(judged)}."]


def _most(found: Found) -> str:
    every = [it for each in found.values() for it in each]
    return f"{max(it.kl_most for it in every):.3f} and {max(it.clip_most for it in every):.2f}"


def _fell(found: Found) -> str:
    """The settings of which a training ended well below the best that it had reached."""
    fell = [arm.name for arm, every in found.items() if any(it.last < it.best - FALLEN * abs(it.best) for it in every)]
    which = "; ".join(fell) or "none"
    return f"**Falls back** (a seed ends more than {FALLEN:.0%} below its own best return): {which}."


def _wins(found: Found) -> str:
    """What the final policies played, setting by setting."""
    shares = {arm.name: [it.won for it in every if it.won is not None] for arm, every in found.items()}
    said = [f"{name} {', '.join(f'{won:.0%}' for won in sorted(each))}" for name, each in shares.items() if each]
    return f"**Who wins more**: {'; '.join(said)} of 100 episodes, seed by seed."


def _speed(found: Found) -> list[str]:
    rates = {arm.name: _middle([it.steps_per_s for it in found[arm]]) for arm in LARGE if found.get(arm)}
    if not rates:
        return []
    slowest = min(rates, key=lambda name: rates[name])
    word = "met" if rates[slowest] >= GOAL_STEPS_PER_S else "MISSED"
    figure = f"{rates[slowest]:,.0f} (median over updates and seeds)"
    goal = f"**{GOAL_STEPS_PER_S:,.0f} steps/s at 2,048 environments: {word}**"
    return [f"{goal}; the slowest of them, {slowest}, does {figure}."]


def _best(every: Sequence[Learned]) -> str:
    values = [it.best for it in every]
    return f"{statistics.fmean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _middle(values: Sequence[float]) -> float:
    return statistics.median(values)
