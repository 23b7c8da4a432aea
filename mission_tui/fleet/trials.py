"""Trials of other settings: what one is made of before it begins (budget, seeds, the spec of a branch), when it is
over, what branches came to, by their rows, and what two arms of them say: paired differences of mean returns, their
interval by Student's t, one word. Pure.

Everything follows from what stands on disk: the plan in the journal of the run, the first lines of its branches, and
how these ended. So a supervisor that is started anew goes on with a trial as the one before would have.

A branch counts by the mean return of the episodes in the second half of its budget: both arms begin at the same policy,
so in the first half they can hardly differ. One that was resumed beyond its budget counts up to it.

Both branches of a pair share checkpoint and seeds, so that what is luck for one is luck for the other, and settings
that change nothing make them the same to the last bit. Pairs differ in their seeds and are independent, however much
the updates within one branch are not; so the spread is that of the pairs, and three of them have to agree closely.
`docs/trying.md` says how often the word is wrong.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.metrics import (
    Metric,
    MetricRecord,
    UpdateDone,
    counted_records,
    finite_returns,
    number,
    spoken,
)
from mission_tui.fleet.events.outcome import OVER, Failed, Finished, Outcome, RunState, Stopped, outcome_word
from mission_tui.fleet.events.trials import ARMS, Arm, TrialPair, TrialPlan, TrialVerdict, TrialWord
from mission_tui.fleet.specs.spec import LARGEST_SEED, EvaluateSpec, LimitsKeep, RestartKeep, Spec, rollout_size
from mission_tui.fleet.specs.thresholds import HealthKeep
from mission_tui.fleet.statistics.intervals import LEVEL, student_interval, t_quantile

LEAST_PAIRS = 3
"""Two that agree by chance are too likely: one time in eight where a run either learns or does not."""

MOST_PAIRS = 16
LEAST_UPDATES, MOST_UPDATES = 20, 100
ENOUGH_EPISODES = 100
"""In the second half of a branch, where that takes no more than `MOST_UPDATES`, and no longer than `LONGEST_S`."""
FEWEST_EPISODES = 2
"""In that half, however many updates it takes: where none ends nothing can be told."""

LARGEST_BUDGET = 100_000
LONGEST_S = 600.0
"""Of training at the run's pace: for more than `LEAST_UPDATES` a branch takes no longer unasked."""

USUAL_PAIRS, QUICK_PAIRS, QUICK_S = 3, 5, 15.0
"""Pairs of branches, and of those that take no longer than so many seconds of training at the run's pace."""

LAST_IN_LINE = -1000
"""The priority of a branch: whatever the user launches goes first."""

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)(u|s|m|min|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_STRIDE = 7_368_787
"""Between the seeds of pairs, far from that by which attempts of a run differ."""


class TypicalUpdate(Struct, frozen=True):
    """What updates of the run were like: seconds and ended episodes of one; None where that is not known, and no
    episodes where none has ended for long.
    """

    update_s: float | None = None
    episodes: float | None = None


def updates_of(budget: str | None, pace: TypicalUpdate, trained: int = 0) -> tuple[int, str]:
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
        said += _too_few(updates, pace)
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


def _usual(pace: TypicalUpdate, trained: int) -> tuple[int, str]:
    telling = 0
    if pace.episodes is not None:
        telling = min(MOST_UPDATES, _until_ended(ENOUGH_EPISODES, pace.episodes))
        if pace.episodes > 0.0:
            # Of episodes that are longer than that, a few at least.
            telling = max(telling, _until_ended(FEWEST_EPISODES, pace.episodes))
    most = int(LONGEST_S / pace.update_s) if pace.update_s else LARGEST_BUDGET
    updates = max(LEAST_UPDATES, min(max(telling, trained), most, LARGEST_BUDGET))
    return updates, f"each branch trains {updates} updates{_took(updates, pace)}; --budget says otherwise"


def _until_ended(episodes: float, of_one_update: float) -> int:
    """Updates in whose second half so many episodes end."""
    return math.ceil(2.0 * episodes / of_one_update) if of_one_update > 0.0 else LARGEST_BUDGET


def _too_few(updates: int, pace: TypicalUpdate) -> str:
    """What to say of a budget in whose second half hardly an episode ends; "" where enough do."""
    if not pace.episodes or updates * pace.episodes / 2.0 >= FEWEST_EPISODES:
        return ""
    return f"; too few for an episode to end: --budget {_until_ended(FEWEST_EPISODES, pace.episodes)}u is the least"


def _took(updates: int, pace: TypicalUpdate) -> str:
    return "" if pace.update_s is None else f", about {_time(updates * pace.update_s)} of training at its pace"


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60.0:.0f} min"


def check_pairs(seeds: int | None) -> int | None:
    """`seeds`, if so many pairs can be judged, or None for what `usual_pairs` says. Raises `UsageError`."""
    if seeds is None or LEAST_PAIRS <= seeds <= MOST_PAIRS:
        return seeds
    raise UsageError(
        f"--seeds {seeds} must be {LEAST_PAIRS} to {MOST_PAIRS}: fewer pairs cannot tell an effect from luck"
    )


def usual_pairs(updates: int, pace: TypicalUpdate) -> int:
    """How many pairs unasked: three, and five of branches that are over in seconds.

    Five tell differences of half the size that three do, and a training that was harmed comes back at once with one
    seed and late with another.
    """
    return QUICK_PAIRS if pace.update_s is not None and updates * pace.update_s <= QUICK_S else USUAL_PAIRS


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
    notifying = _only_notifying(spec.keep.health)
    limits = LimitsKeep(priority=LAST_IN_LINE)
    keep = structs.replace(spec.keep, restart=RestartKeep(), on_reboot="resume", health=notifying, limits=limits)
    return structs.replace(
        spec, run=structs.replace(spec.run, seed=seed), keep=keep, evaluate=EvaluateSpec(), description=""
    )


def _only_notifying(health: HealthKeep) -> HealthKeep:
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
    """Whether nothing more comes: every branch that is there has ended. One that was removed is not waited for; one
    that a person parked is.
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


class BranchReading(Struct, frozen=True):
    """`mean` return over `episodes`, None where none ended; `returns` of each row, to see whether two are the same.

    `complete`: it came to the end of its budget.
    """

    mean: float | None
    episodes: int
    returns: tuple[tuple[float, ...], ...]
    complete: bool


def read_branch(plan: TrialPlan, records: Iterable[MetricRecord]) -> BranchReading:
    """What a branch of `plan` came to, by its `metrics.jsonl`. Returns that are not finite are left out."""
    kept, _ = counted_records(records)
    rows = [record for record in kept if isinstance(record, UpdateDone) and record.timesteps > plan.from_timesteps]
    end = next((at for at, row in enumerate(rows, 1) if row.timesteps >= plan.until_timesteps), None)
    rows = rows[:end]
    half = (plan.from_timesteps + plan.until_timesteps) // 2
    window = [row for row in rows if row.timesteps > half]
    total, episodes = 0.0, 0
    for row in window:
        values = _finite(row)
        if values:
            # At most 256 are sampled; the mean of the sample stands for all that ended.
            ended = max(row.episodes.n, len(values))
            total += math.fsum(values) / len(values) * ended
            episodes += ended
    mean = total / episodes if episodes else None
    return BranchReading(mean, episodes, tuple(_finite(row) for row in rows), end is not None)


def _finite(row: UpdateDone) -> tuple[float, ...]:
    values = (number(value) for value in row.episodes.r)
    return tuple(value for value in values if value is not None and math.isfinite(value))


def range_before(plan: TrialPlan, records: Iterable[MetricRecord]) -> tuple[float, float] | None:
    """The lowest and highest mean return that the run reported up to the checkpoint, or at all where branches begin at
    the start; None where it reported none.
    """
    rows = [record for record in counted_records(records)[0] if isinstance(record, UpdateDone)]
    means = finite_returns(row for row in rows if not plan.checkpoint or row.update <= plan.from_update)
    return (min(means), max(means)) if means else None


_MARGIN = 0.10
"""A difference below this share of the run's range of returns is none that anybody would act on."""

_FARTHEST = 20.0
"""Beyond so many times the budget a forecast of what would tell is worth nothing."""


_NUMBERED = re.compile(r"(?<=\bcontrol|\badvised) \d+")


class BranchEnd(Struct, frozen=True):
    """A branch that is over: its run, what was read of it, and how it ended. `diverged`: its numbers were no numbers
    any more, which is what its settings came to; any other `why` says nothing about them.
    """

    run: str
    reading: BranchReading
    diverged: bool = False
    why: str = ""


def judge_trial(
    plan: TrialPlan, pairs: Sequence[tuple[BranchEnd, BranchEnd]], before: tuple[float, float] | None
) -> TrialVerdict:
    """The verdict on `pairs` of control and advised. `before` are the lowest and highest mean return of the run."""
    worst, best = _range(pairs, before)
    told = [
        _pair(number, seed, ends, worst) for number, (seed, ends) in enumerate(zip(plan.seeds, pairs, strict=True), 1)
    ]
    counted = [pair for pair in told if not pair.why]
    if len(counted) < LEAST_PAIRS:
        # Of several that lack the same, the first stands for all.
        first = {_NUMBERED.sub("", pair.why): pair.why for pair in reversed(told) if pair.why}
        reasons = "; ".join(reversed(first.values()))
        why = f"{len(counted)} of {len(told)} pairs count and {LEAST_PAIRS} are needed: {reasons}"
        return TrialVerdict(says="failed", pairs=tuple(told), why=why)
    controls = [float(pair.control or 0.0) for pair in counted]
    advised = [float(pair.advised or 0.0) for pair in counted]
    differences = [after - was for was, after in zip(controls, advised, strict=True)]
    mean, half = _interval(differences)
    margin = _MARGIN * (best - worst)
    same = all(_same(pairs[pair.pair - 1]) for pair in counted)
    says = "no difference" if same else word(mean, half, margin)
    noisy = says == "too noisy"
    winner = max(counted, key=lambda pair: float(pair.advised or 0.0))
    return TrialVerdict(
        says=says,
        pairs=tuple(told),
        control=_brief(statistics.fmean(controls)),
        advised=_brief(statistics.fmean(advised)),
        difference=_brief(mean),
        low=_brief(mean - half),
        high=_brief(mean + half),
        margin=_brief(margin),
        identical=same,
        more_updates=_more_updates(plan.updates, mean, half, margin) if noisy else None,
        more_seeds=_more_seeds(differences, margin) if noisy else None,
        best=pairs[winner.pair - 1][1].run,
    )


def _interval(differences: Sequence[float]) -> tuple[float, float]:
    """The mean of at least two differences, and half the width of its 95 % interval."""
    low, high = student_interval(differences)
    return (low + high) / 2.0, (high - low) / 2.0


def word(mean: float, half: float, margin: float) -> TrialWord:
    """What the interval `mean` plus and minus `half` says: within the margin, on one side of zero, or neither."""
    if abs(mean) + half <= margin:
        return "no difference"
    if mean - half > 0.0:
        return "helps"
    return "hurts" if mean + half < 0.0 else "too noisy"


def _more_updates(updates: int, mean: float, half: float, margin: float) -> int | None:
    """How many more than `updates` would probably narrow the interval until it says something; None for far too many.

    As if the difference stayed what it is, and its spread were that of independent updates.
    """
    narrow = max(abs(mean), margin - abs(mean))
    if narrow <= 0.0 or (times := (half / narrow) ** 2) > _FARTHEST:
        return None
    return max(1, math.ceil(updates * (times - 1.0)))


def _more_seeds(differences: Sequence[float], margin: float) -> int | None:
    """How many pairs of such a spread would probably say something; None where `MOST_PAIRS` would not."""
    spread, mean = statistics.stdev(differences), abs(statistics.fmean(differences))
    for count in range(len(differences) + 1, MOST_PAIRS + 1):
        half = t_quantile(0.5 + LEVEL / 2.0, count - 1) * spread / math.sqrt(count)
        if half < max(mean, margin - mean):
            return count
    return None


def _pair(number: int, seed: int, ends: tuple[BranchEnd, BranchEnd], worst: float) -> TrialPair:
    """A branch that diverged counts as the worst that the run has seen: whatever it scored before is gone."""
    control, advised = (worst if end.diverged else end.reading.mean for end in ends)
    why = ""
    for arm, end in zip(ARMS, ends, strict=True):
        if end.diverged:
            continue
        if end.why or not end.reading.complete:
            why = why or f"{arm} {number} {end.why or 'did not come to the end of its budget'}"
        elif end.reading.mean is None:
            why = why or f"no episode of {arm} {number} ended in the second half of its budget: give a larger one"
    return TrialPair(number, seed, _brief(control), _brief(advised), why)


def _range(pairs: Sequence[tuple[BranchEnd, BranchEnd]], before: tuple[float, float] | None) -> tuple[float, float]:
    """The lowest and highest mean return that is known of the run and its branches."""
    means = [end.reading.mean for ends in pairs for end in ends if end.reading.mean is not None]
    known = [*means, *(before or ())]
    return (min(known), max(known)) if known else (0.0, 0.0)


def _same(ends: tuple[BranchEnd, BranchEnd]) -> bool:
    control, advised = ends
    return not control.diverged and not advised.diverged and control.reading == advised.reading


def _brief(value: float | None) -> Metric | None:
    """Six digits, as many as are worth keeping."""
    return None if value is None else spoken(float(f"{value:.6g}"))
