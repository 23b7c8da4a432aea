"""What came of a search: its trials with their settings and results, the best, what mattered, and whether the winner
is better than the preset itself. The driver writes it into `search.json` of its run after every change. Loads little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct, structs

from mission_tui.fleet.specs.spec import LaunchItem, Spec

TrialState = Literal["running", "finished", "pruned", "failed"]
Says = Literal["better", "worse", "no verdict", "cannot tell", "same"]


class SearchTrial(Struct, frozen=True, kw_only=True):
    """One trial: its `settings` as `--set` takes them, its runs (ids), and its `value` as far as it is known.

    `at` is the share of its budget at which a pruned one was stopped; `why` says why it failed or was pruned.
    """

    number: int
    state: TrialState
    settings: dict[str, str]
    runs: tuple[str, ...] = ()
    value: float | None = None
    at: float | None = None
    why: str = ""


class Confirmation(Struct, frozen=True, kw_only=True):
    """The winner beside the preset itself, each with the same fresh `seeds`; None is a value that is not known (yet).

    `says` is "same" where the winner is the preset itself; then nothing is trained. `difference` is the winner's mean
    less that of the preset, between `low` and `high` with 95 % certainty (Welch).
    """

    seeds: tuple[int, ...]
    winner: tuple[float | None, ...] = ()
    default: tuple[float | None, ...] = ()
    says: Says | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None


class SearchResult(Struct, frozen=True, kw_only=True):
    """`preset` and `assignments` are what a winner is saved from; `importance` adds up to 1, empty until it is known.

    `ended` says that nothing is left to do; `why` why it gave up, if it did.
    """

    group: str
    preset: str
    metric: str
    minimize: bool
    wanted: int
    keys: tuple[str, ...]
    trials: tuple[SearchTrial, ...] = ()
    best: int | None = None
    importance: dict[str, float] = {}
    confirmation: Confirmation | None = None
    ended: bool = False
    why: str = ""

    @property
    def best_trial(self) -> SearchTrial | None:
        return next((trial for trial in self.trials if trial.number == self.best), None)

    @property
    def over(self) -> int:
        """How many trials are over."""
        return sum(trial.state != "running" for trial in self.trials)


def best_of(trials: Sequence[SearchTrial], *, minimize: bool) -> int | None:
    """The number of the finished trial with the best value; the first of equals."""
    known = [(trial.value, trial.number) for trial in trials if trial.state == "finished" and trial.value is not None]
    if not known:
        return None
    return min(known, key=lambda it: (it[0] if minimize else -it[0], it[1]))[1]


def ranked_trials(result: SearchResult) -> list[SearchTrial]:
    """Finished ones best first, then those that train, then pruned ones, then failed ones."""
    order: dict[TrialState, int] = {"finished": 0, "running": 1, "pruned": 2, "failed": 3}
    sign = 1.0 if result.minimize else -1.0

    def place(trial: SearchTrial) -> tuple[int, bool, float, int]:
        value = trial.value
        return order[trial.state], value is None, 0.0 if value is None else sign * value, trial.number

    return sorted(result.trials, key=place)


def driver_launch(spec: Spec, name: str | None = None) -> LaunchItem:
    """The launch of a driver with `spec`, whose search is called `name` then; without one as it was planned."""
    if name is not None:
        spec = structs.replace(spec, run=structs.replace(spec.run, values=spec.run.values | {"group": name}))
    group = spec.run.values["group"]
    return LaunchItem(spec=spec, name=f"{group}-search", group=group)


def confirmed(
    seeds: Sequence[int], winner: Sequence[float | None], default: Sequence[float | None], *, minimize: bool
) -> Confirmation:
    """What the fresh seeds say: the winner is better only where the whole interval of the difference says so."""
    # They load statistics, and each screen loads this module.
    import statistics

    from mission_tui.fleet.comparison import whole_mean
    from mission_tui.fleet.statistics.intervals import difference, finite

    bare = Confirmation(seeds=tuple(seeds), winner=tuple(winner), default=tuple(default))
    says: Says
    one, other = whole_mean(winner), whole_mean(default)
    known = finite(winner), finite(default)
    apart = statistics.fmean(known[0]) - statistics.fmean(known[1]) if all(known) else None
    if one is None or other is None or apart is None:
        return structs.replace(bare, says="cannot tell", difference=apart)
    ends = difference(one, other)
    if ends is None:  # every run of each came to the same
        better = (apart < 0.0) == minimize and apart != 0.0
        says = "no verdict" if apart == 0.0 else "better" if better else "worse"
        return structs.replace(bare, says=says, difference=apart)
    low, high = ends
    says = "no verdict" if low <= 0.0 <= high else "better" if (apart < 0.0) == minimize else "worse"
    return structs.replace(bare, says=says, difference=apart, low=low, high=high)
