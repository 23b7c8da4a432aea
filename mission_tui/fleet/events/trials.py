"""A trial of other settings, as it is journaled and shown: its branches, its verdict in figures, and one sentence.

`TrialPlan` stands in the journal of the run that is tried, `TrialBranch` in the first line of each branch's own.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.metrics import Metric
from mission_tui.fleet.ranges import Count

Arm = Literal["control", "advised"]
ARMS: tuple[Arm, ...] = ("control", "advised")
TrialWord = Literal["helps", "hurts", "no difference", "too noisy", "failed"]
TrialEnd = Literal["discarded", "taking", "taken", "returning", "returned"]


class TrialBranch(Struct, frozen=True):
    """The run is a branch of trial `number` of the run `of` (id): arm `arm` of pair `pair`, counted from 1."""

    of: str
    number: Count
    arm: Arm
    pair: Count


class TrialPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Trial `number` of a run: each branch goes on from `checkpoint`, "" for one that begins untrained, until it has
    done `until_timesteps`.

    `control` has the run's settings as they were; `advised` also `assignments`, which are those of the finding
    `finding` where it names one. Both branches of pair k have seed `seeds[k - 1]`. `updates` is the budget in updates
    of the control. All branches are in `group`.
    """

    number: Count
    checkpoint: str
    from_update: Count
    from_timesteps: Count
    until_timesteps: Count
    updates: Count
    seeds: tuple[Count, ...]
    group: str
    assignments: tuple[str, ...]
    finding: str = ""

    @property
    def origin(self) -> str:
        """Where branches begin, as it is said after "from"."""
        return self.checkpoint or "the start"

    @property
    def settings(self) -> str:
        """What is tried, as one would type it."""
        return " ".join(f"--set {word}" for word in self.assignments)


class TrialPair(Struct, frozen=True, omit_defaults=True):
    """What the two branches of a pair came to: mean returns, None for a branch of which none is known.

    `why` says why the pair does not count, where it does not.
    """

    pair: Count
    seed: Count
    control: Metric | None = None
    advised: Metric | None = None
    why: str = ""


class TrialVerdict(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The means of both arms over `pairs` that count, and `difference`, advised less control, which lies between `low`
    and `high` with 95 % certainty. Less than `margin` makes no difference.

    `identical`: both branches of every pair had the same returns to the last bit. Of `too noisy`, `more_updates` more
    in each branch, or `more_seeds` pairs in all, would probably tell. `best` is the advised branch of the highest mean.
    """

    says: TrialWord
    pairs: tuple[TrialPair, ...] = ()
    control: Metric | None = None
    advised: Metric | None = None
    difference: Metric | None = None
    low: Metric | None = None
    high: Metric | None = None
    margin: Metric | None = None
    identical: bool = False
    more_updates: Count | None = None
    more_seeds: Count | None = None
    best: str = ""
    why: str = ""


_OF_THE_TASK = ("env.kwargs", "env.config", "env.wrappers")


def trial_sentence(plan: TrialPlan, verdict: TrialVerdict) -> str:
    """The answer first, because narrow screens cut the end."""
    if verdict.says == "failed":
        return f"cannot tell: {verdict.why}"
    means = f"return {mean_word(verdict.advised)} against {mean_word(verdict.control)}"
    interval = f"{signed_word(verdict.difference)}, {signed_word(verdict.low)} to {signed_word(verdict.high)}"
    counted = sum(not pair.why for pair in verdict.pairs)
    size = f"{counted} pairs of {_updates(plan.updates)}"
    match verdict.says:
        case "no difference" if verdict.identical:
            return f"no difference: both branches of every pair are the same ({size})"
        case "no difference":
            said = f"no difference: {means} ({interval}; less than {mean_word(verdict.margin)} counts as none; {size})"
        case "too noisy":
            said = f"too noisy: {means} ({interval}; {size}){_remedy(verdict)}"
        case _:
            said = f"{verdict.says}: {means} ({interval}; {size})"
    return said + _another_task(plan)


def _another_task(plan: TrialPlan) -> str:
    """What to mind where the arms do not train on the same rules: one may have the easier task."""
    keys = [word.partition("=")[0] for word in plan.assignments]
    other = next((it for it in _OF_THE_TASK if any(key == it or key.startswith(f"{it}.") for key in keys)), None)
    return "" if other is None else f"; with another {other} the same return may mean something else"


def _remedy(verdict: TrialVerdict) -> str:
    ways = []
    if verdict.more_updates is not None:
        ways.append(f"about {_updates(verdict.more_updates, 'more ')} in each branch")
    if verdict.more_seeds is not None:
        ways.append(f"{verdict.more_seeds} seeds")
    return f"; {', or '.join(ways)}, would tell" if ways else "; it takes far more updates, or many more seeds"


def _updates(count: int, more: str = "") -> str:
    return f"{count:,} {more}update{'' if count == 1 else 's'}"


def mean_word(value: Metric | None) -> str:
    """A return in four digits, and all of a whole number below a million: `1,234`, `12,345`."""
    if value is None:
        return "–"
    return f"{float(value):,.0f}" if 9_999.5 <= abs(float(value)) < _MILLION else f"{float(value):,.4g}"


def signed_word(value: Metric | None) -> str:
    """A difference of returns in three digits, and all of a whole number below a million: `+0.0123`, `-1,234`."""
    if value is None:
        return "–"
    text = f"{float(value):+,.0f}" if 999.5 <= abs(float(value)) < _MILLION else f"{float(value):+,.3g}"
    return "0" if text in ("+0", "-0") else text


_MILLION = 999_999.5
