"""What a comparison and a search say in words, the same on the screen, in tables and reports: which setting is behind
the best; how far a search is, what mattered in it, and whether fresh seeds confirm its winner.
"""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING

from mission_tui.fleet.events.trials import signed_word
from mission_tui.present.numbers import DASH

if TYPE_CHECKING:
    from mission_tui.fleet.comparison import Comparison, Contrast, Ranked
    from mission_tui.fleet.comparison_sides import Result
    from mission_tui.fleet.events.findings import Severity
    from mission_tui.fleet.search import Confirmation, SearchResult, SearchTrial

Say = Callable[[float | None], str]


def standing(it: Ranked, say: Say) -> str:
    """Whether a setting is behind the best: `behind by 35 to 49`, `no verdict: -3 to 12`, `12 lower, no interval`."""
    if it.place == 1 or it.behind is None:
        return DASH
    if it.behind_interval is None:
        return f"{say(it.behind)} lower, no interval" if it.behind else "as high, no interval"
    ends = " to ".join(map(say, it.behind_interval))
    return f"behind by {ends}" if it.is_behind else f"no verdict: {ends}"


_COUNTED: tuple[Severity, ...] = ("critical", "warning")
"""Information asks for nothing, and is counted nowhere."""


def findings_words(result: Result) -> str:
    """`1/4 open`: as many as the list counts, of every incident of the whole run; `none` where there never was one."""
    number = sum(result.findings.get(kind, 0) for kind in _COUNTED)
    if result.open_findings is None or not number:
        return str(number or "none")
    return f"{result.open_findings}/{number} open"


def best_word(metric: str) -> str:
    """What the highest value of `metric` is called: of a loss or a KL the greatest is not the best."""
    from mission_tui.fleet.comparison import is_better_higher

    return "best" if is_better_higher(metric) else "greatest"


def has_seeds(found: Comparison) -> bool:
    """Whether a median over seeds says more than the mean: where every setting has one run they are its value."""
    return any(len(cohort.runs) > 1 for cohort in found.cohorts)


def contrast_word(it: Contrast) -> str:
    """What the interval of a difference says."""
    return ("higher" if it.difference > 0 else "lower") if it.sure else "no verdict: it contains 0"


def probability(share: float | None) -> str:
    """To a hundredth: `0.83`."""
    return DASH if share is None else f"{share:.2f}"


_LITTLE = 0.01
_PLACEHOLDER = "run.values."


def progress_words(result: SearchResult) -> str:
    """`12 of 40 trials are over (3 pruned, 1 failed), best so far 487.2 (trial 7)`."""
    counts = [(sum(it.state == state for it in result.trials), state) for state in ("pruned", "failed")]
    aside = ", ".join(f"{count} {state}" for count, state in counts if count)
    said = f"{result.over} of {result.wanted} trials are over{f' ({aside})' if aside else ''}"
    best = result.best_trial
    if best is not None:
        said += f", best{'' if result.ended else ' so far'} {value_word(best.value)} (trial {best.number})"
    return f"{said}; it gave up: {result.why}" if result.why else said


def value_word(value: float | None) -> str:
    """Four digits, and all of a whole number below a million."""
    return DASH if value is None else f"{value:,.0f}" if 9_999.5 <= abs(value) < 999_999.5 else f"{value:,.4g}"


def state_word(trial: SearchTrial) -> str:
    """`pruned at 34 %`."""
    return trial.state if trial.at is None else f"{trial.state} at {trial.at:.0%}"


def importance_words(result: SearchResult) -> str:
    """`what mattered: ppo.learning_rate 81%, ppo.n_epochs 19%`; empty until it is known. Only all of it reads 100%."""
    if not result.importance:
        return ""
    known = {key: share for key, share in result.importance.items() if share >= _LITTLE}
    shown = [f"{key} {100 if share >= 1.0 else min(99, round(100 * share))}%" for key, share in known.items()]
    others = ", the others less than 1%" if len(shown) < len(result.importance) else ""
    return f"what mattered: {', '.join(shown)}{others}"


def confirmation_words(confirmation: Confirmation) -> str:
    """What the fresh seeds say of the winner."""
    if confirmation.says == "same":
        return "the preset's own settings came out best: the search found nothing better"
    sides = [[value for value in side if value is not None] for side in (confirmation.winner, confirmation.default)]
    known, wanted = sum(map(len, sides)), 2 * len(confirmation.seeds)
    if confirmation.says is None:
        return f"the winner and the preset itself train with fresh seeds: {known} of {wanted} are over"
    if confirmation.says == "cannot tell" or confirmation.difference is None or not all(sides):
        why = f"{known} of {wanted} fresh runs have a result"
        if known == wanted:
            why = f"{len(confirmation.seeds)} fresh seeds each are too few for an interval, which needs 3 (--confirm 3)"
        return f"cannot tell whether the winner is better: {why}"
    means = [statistics.fmean(side) for side in sides]
    between = ""
    if confirmation.low is not None and confirmation.high is not None:
        between = f", {signed_word(confirmation.low)} to {signed_word(confirmation.high)}"
    apart = f"{signed_word(confirmation.difference)}{between}; {len(confirmation.seeds)} fresh seeds each"
    beginning = {"better": "better than the preset", "worse": "worse than the preset", "no verdict": "no verdict"}
    return f"{beginning[confirmation.says]}: {value_word(means[0])} against {value_word(means[1])} ({apart})"


def save_words(result: SearchResult) -> str:
    """The command that keeps the winner's settings; empty where there is no winner, or it is the preset itself."""
    best, confirmation = result.best_trial, result.confirmation
    if best is None or (confirmation is not None and confirmation.says == "same"):
        return ""
    if all(key.startswith(_PLACEHOLDER) for key in best.settings):
        return (
            f"its settings: {', '.join(f'{key.removeprefix(_PLACEHOLDER)}={it}' for key, it in best.settings.items())}"
        )
    changes = [word for key, value in best.settings.items() for word in ("--set", f"{key}={value}")]
    kept = shlex.join(["mission-tui", "presets", "save", result.preset, f"{result.preset}-best", *changes])
    shown = confirmation is not None and confirmation.says == "better"
    return f"to keep it: {kept}" if shown else f"to keep its settings although they were not shown to be better: {kept}"
