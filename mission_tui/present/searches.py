"""What a search says in words, the same in the table of the command and on the screen."""

from __future__ import annotations

import shlex
import statistics
from typing import TYPE_CHECKING

from mission_tui.present.numbers import DASH

if TYPE_CHECKING:
    from mission_tui.fleet.search.result import Confirmation, SearchResult, SearchTrial


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
    """Four digits."""
    return DASH if value is None else f"{value:,.4g}"


def state_word(trial: SearchTrial) -> str:
    """`pruned at 34 %`."""
    return trial.state if trial.at is None else f"{trial.state} at {trial.at:.0%}"


def importance_words(result: SearchResult) -> str:
    """`what mattered: ppo.learning_rate 81 %, ppo.n_epochs 19 %`; empty until it is known."""
    if not result.importance:
        return ""
    shown = [f"{key} {share:.0%}" for key, share in result.importance.items() if share >= _LITTLE]
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
        return f"cannot tell whether the winner is better: {known} of {wanted} fresh runs have a result"
    means = [statistics.fmean(side) for side in sides]
    between = ""
    if confirmation.low is not None and confirmation.high is not None:
        between = f", {confirmation.low:+.3g} to {confirmation.high:+.3g}"
    apart = f"{confirmation.difference:+.3g}{between}; {len(confirmation.seeds)} fresh seeds each"
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
