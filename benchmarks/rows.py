"""Rows out of rounds: ours beside a peer's, ratios taken round by round, and whether the goal was met.

A goal is judged by where the median of the ratios (or of the figure itself, where there is no peer) can lie, never by
one round: where that reaches to both sides of the goal, it is too close to say.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Literal

from benchmarks.results import Row, Spread

__all__ = ["Verdict", "best_of", "bounded", "compared", "unmeasured", "verdict_of"]

Verdict = Literal["met", "missed", "too close to say"]


def best_of(*series: Sequence[float]) -> list[float]:
    """The highest of several peers in each round, so that a noisy round spares none of them."""
    return [max(together) for together in zip(*series, strict=True)]


def compared(
    what: str,
    unit: str,
    ours: Sequence[float],
    against: str,
    theirs: Sequence[float],
    at_least: float | None,
    note: str = "",
) -> Row:
    """Ours beside a peer's, where more is better; without `at_least` the row has no goal and judges nothing."""
    ratio = Spread.of([mine / their for mine, their in zip(ours, theirs, strict=True)])
    return Row(
        what,
        unit,
        Spread.of(ours),
        "" if at_least is None else f">= {at_least:g} x",
        None if at_least is None else ratio.median >= at_least,
        against,
        Spread.of(theirs),
        ratio,
        note,
    )


def bounded(
    what: str,
    unit: str,
    values: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    against: str = "",
    theirs: Sequence[float] = (),
    note: str = "",
) -> Row:
    """A figure with a bound of its own, in `unit`; `theirs` stands beside it and judges nothing."""
    spread = Spread.of(values)
    bounds = [(sign, bound) for sign, bound in (("<=", at_most), (">=", at_least)) if bound is not None]
    holds = {"<=": operator.le, ">=": operator.ge}
    return Row(
        what,
        unit,
        spread,
        ", ".join(f"{sign} {bound:,g} {unit}" for sign, bound in bounds),
        all(holds[sign](spread.median, bound) for sign, bound in bounds) if bounds else None,
        against,
        Spread.of(theirs) if theirs else None,
        note=note,
    )


def unmeasured(what: str, goal: str, why: str, against: str = "") -> Row:
    """A row that says why there is nothing in it."""
    return Row(what, "", None, goal, None, against, note=f"not measured: {why}")


def verdict_of(row: Row) -> Verdict | None:
    """Whether the row's goal is met, by the interval of its median; None where it has none or nothing was measured."""
    if row.met is None:
        return None
    by_median: Verdict = "met" if row.met else "missed"
    spread, bound = row.ratio or row.ours, re.fullmatch(r"(<=|>=) ([\d,.]+)(?: [^,]*)?", row.goal)
    if spread is None or bound is None:
        return by_median
    holds = operator.le if bound[1] == "<=" else operator.ge
    least = spread.low if spread.least is None else spread.least
    most = spread.high if spread.most is None else spread.most
    within = {holds(edge, float(bound[2].replace(",", ""))) for edge in (least, spread.median, most)}
    return by_median if len(within) == 1 else "too close to say"
