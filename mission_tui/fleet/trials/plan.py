"""What a trial is made of before it begins (budget, seeds, the spec of a branch), and when it is over.

Everything follows from what stands on disk: the plan in the journal of the run, the first lines of its branches, and
how these ended. So a supervisor that is started anew goes on with a trial as the one before would have.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.outcome import OVER, Failed, Finished, Outcome, RunState, Stopped, outcome_word
from mission_tui.fleet.events.trials import Arm
from mission_tui.fleet.specs.spec import LARGEST_SEED, EvaluateSpec, LimitsKeep, RestartKeep, Spec, rollout_size
from mission_tui.fleet.specs.thresholds import HealthKeep

LEAST_PAIRS = 3
"""Two that agree by chance are too likely: one time in eight where a run either learns or does not."""

MOST_PAIRS = 16
LEAST_UPDATES, MOST_UPDATES = 20, 100
ENOUGH_EPISODES = 100
"""In the second half of a branch, where that takes no more than `MOST_UPDATES`, and no longer than `LONGEST_S`."""

LARGEST_BUDGET = 100_000
LONGEST_S = 600.0
"""Of training at the run's pace: for more than `LEAST_UPDATES` a branch takes no longer unasked."""

LAST_IN_LINE = -1000
"""The priority of a branch: whatever the user launches goes first."""

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)(u|s|m|min|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_STRIDE = 7_368_787
"""Between the seeds of pairs, far from that by which attempts of a run differ."""


class Pace(Struct, frozen=True):
    """What updates of the run were like: seconds and ended episodes of one; None where that is not known."""

    update_s: float | None = None
    episodes: float | None = None


def updates_of(budget: str | None, pace: Pace, trained: int = 0) -> tuple[int, str]:
    """How many updates `budget` (20u, 10m) stands for, and the sentence about it; None takes what usually suffices.

    Branches that begin at the start take as many as the run has `trained` by then, if that is not too long: what a
    setting comes to shows late. Raises `UsageError` for what is no budget, or none that could tell anything.
    """
    if budget is None:
        return _usual(pace, trained)
    found = _BUDGET.fullmatch(budget.strip())
    if found is None:
        raise UsageError(f"--budget {budget[:40]!r} is no budget: give updates such as 20u, or minutes such as 10m")
    amount, unit = float(found[1]), found[2]
    if unit == "u":
        updates, said = int(amount), f"each branch trains {int(amount)} updates{_took(int(amount), pace)}"
    elif pace.update_s is None:
        raise UsageError("how long an update takes is not known of this run, so give --budget in updates, such as 20u")
    else:
        updates = int(amount * _SECONDS[unit] / pace.update_s)
        said = f"each branch trains {updates} updates, about {budget} at its pace of {pace.update_s:.3g} s each"
    if not 2 <= updates <= LARGEST_BUDGET:
        counted = "" if unit == "u" else f" is {updates:,} updates at the run's pace of {pace.update_s:.3g} s each, and"
        bounds = f"must be 2 to {LARGEST_BUDGET:,} updates; {LEAST_UPDATES}u is usual"
        raise UsageError(f"--budget {budget}{counted} {bounds}")
    return updates, said


def _usual(pace: Pace, trained: int) -> tuple[int, str]:
    telling = 0
    if pace.episodes is not None and pace.episodes > 0.0:
        telling = min(MOST_UPDATES, math.ceil(2.0 * ENOUGH_EPISODES / pace.episodes))
    most = int(LONGEST_S / pace.update_s) if pace.update_s else LARGEST_BUDGET
    updates = max(LEAST_UPDATES, min(max(telling, trained), most, LARGEST_BUDGET))
    return updates, f"each branch trains {updates} updates{_took(updates, pace)}; --budget says otherwise"


def _took(updates: int, pace: Pace) -> str:
    return "" if pace.update_s is None else f", about {_time(updates * pace.update_s)} of training at its pace"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60.0:.0f} min"


def check_pairs(seeds: int) -> int:
    """`seeds`, if so many pairs can be judged. Raises `UsageError`."""
    if LEAST_PAIRS <= seeds <= MOST_PAIRS:
        return seeds
    raise UsageError(
        f"--seeds {seeds} must be {LEAST_PAIRS} to {MOST_PAIRS}: fewer pairs cannot tell an effect from luck"
    )


def pair_seeds(seed: int | None, number: int, pairs: int) -> tuple[int, ...]:
    """A seed for each pair of trial `number`: none is the run's own, whose episodes would be replayed."""
    first = (seed or 0) + _STRIDE * number
    found = ((first + 10_007 * pair) % (LARGEST_SEED + 1) for pair in range(1, pairs + 2))
    return tuple(each for each in found if each != seed)[:pairs]


def own_seed(assignments: Iterable[str]) -> None:
    """Raise `UsageError` for settings that a trial gives its branches itself."""
    for word in assignments:
        if (key := word.partition("=")[0].strip()) == "run.seed":
            raise UsageError(f"{key} cannot be tried: each pair of branches has a seed of its own")


def needed_total(spec: Spec, plan_until: int) -> tuple[str, ...]:
    """The `--set` words that give a run which is at its end the steps that a trial takes.

    A training ends with the rollout in which it comes to its total, so none are needed for the rest of that.
    """
    total = spec.run.total_timesteps
    short = total is not None and total <= plan_until - rollout_size(spec)
    return (f"run.total_timesteps={plan_until}",) if short else ()


def until_timesteps(spec: Spec, from_timesteps: int, updates: int) -> int:
    """Where a branch that goes on from `from_timesteps` is at the end of its budget."""
    return from_timesteps + updates * rollout_size(spec)


def branch_spec(spec: Spec, seed: int) -> Spec:
    """`spec` as a branch trains with it: its pair's seed, last in the queue, and nothing that tells, plays or acts.

    It never restarts by itself after a failure: that is an answer too. It goes on after a reboot.
    """
    quiet = _quiet(spec.keep.health)
    limits = LimitsKeep(priority=LAST_IN_LINE)
    keep = structs.replace(spec.keep, restart=RestartKeep(), on_reboot="resume", health=quiet, limits=limits)
    return structs.replace(
        spec, run=structs.replace(spec.run, seed=seed), keep=keep, evaluate=EvaluateSpec(), description=""
    )


def _quiet(health: HealthKeep) -> HealthKeep:
    """The same limits, but no rule does more than say something on the screen."""
    return structs.replace(
        health,
        on_event=None,
        apprise=False,
        **{
            name: structs.replace(limits, act="notify")
            for name in health.__struct_fields__
            if (limits := getattr(health, name)) is not None
            and getattr(limits, "act", "notify") not in ("notify", "off")
        },
    )


class BranchState(Struct, frozen=True):
    """How a branch stands: its run, state, and outcome once it has one."""

    run: str
    state: RunState
    outcome: Outcome | None = None


Branches = Mapping[tuple[Arm, int], BranchState]


def is_over(branches: Branches) -> bool:
    """Whether nothing more comes: every branch that is there has ended. One that was removed is waited for by nobody,
    and one that a person parked is.
    """
    return all(
        branch.state in OVER and not (branch.state == "parked" and isinstance(branch.outcome, Stopped))
        for branch in branches.values()
    )


def why_it_does_not_count(branch: BranchState) -> str:
    """Why a branch that is over says nothing about its settings; empty where it does, or diverged because of them."""
    if branch.outcome is None or isinstance(branch.outcome, Finished) or diverged(branch):
        return ""
    kind = f" ({branch.outcome.kind})" if isinstance(branch.outcome, Failed) else ""
    word, cause = f"{outcome_word(branch.outcome)}{kind}", branch.outcome.cause
    return (cause if cause.startswith(word) else f"{word}: {cause}")[:200]


def diverged(branch: BranchState) -> bool:
    """Whether its numbers were no numbers any more."""
    return isinstance(branch.outcome, Failed) and branch.outcome.kind == "nan"
