"""What a comparison says in words, the same on the screen, in tables and reports: which setting is behind the best."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mission_tui.present.numbers import DASH

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Comparison, Contrast, Ranked, Result
    from mission_tui.fleet.events.findings import Severity

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


def has_seeds(found: Comparison) -> bool:
    """Whether a median over seeds says more than the mean: where every setting has one run they are its value."""
    return any(len(cohort.runs) > 1 for cohort in found.cohorts)


def contrast_word(it: Contrast) -> str:
    """What the interval of a difference says."""
    return ("higher" if it.difference > 0 else "lower") if it.sure else "no verdict: it contains 0"


def probability(share: float | None) -> str:
    """To a hundredth: `0.83`."""
    return DASH if share is None else f"{share:.2f}"
