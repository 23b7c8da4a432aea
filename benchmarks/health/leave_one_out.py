"""Would another environment have given another threshold? Every constant that was chosen is chosen again without it.

For each environment in turn the constant is picked on all others, from a grid around the shipped value, and then scored
on the one that was left out. A constant that only fits the environments it was chosen on shows here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from benchmarks.health.cases import Case, judged
from benchmarks.health.scoring import Scored, false_rate, found
from mission_tui.fleet.specs.thresholds import Limits

__all__ = ["CONSTANTS", "Constant", "LeftOut", "leave_one_out"]


@dataclass(frozen=True, slots=True)
class Constant:
    """A field of a rule's limits, and the values it might have had; the shipped one is among them."""

    rule: str
    field: str
    grid: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What a constant comes to without each environment, and what that choice does on the environments left out."""

    constant: Constant
    shipped: float
    chosen: dict[float, int]
    shipped_false: float
    chosen_false: float
    shipped_recall: float | None
    chosen_recall: float | None


CONSTANTS = (
    Constant("kl-persistent", "warning", (1.5, 2.0, 2.5, 3.0)),
    Constant("kl-spike", "fall_share", (0.1, 0.15, 0.25)),
    Constant("clip-fraction", "warning", (0.3, 0.35, 0.4)),
    Constant("policy-frozen", "u", (0.01, 0.02, 0.05)),
    Constant("entropy-collapse", "critical", (0.01, 0.02, 0.05)),
    Constant("entropy-collapse", "best_share", (0.8, 0.9, 0.95)),
    Constant("policy-std", "updates", (3, 5, 10)),
    Constant("actions-at-bound", "warning", (0.4, 0.5, 0.6)),
    Constant("explained-variance", "warning", (0.0, 0.05, 0.1)),
    Constant("explained-variance", "best_share", (0.8, 0.9, 0.95)),
    Constant("value-loss", "fall_share", (0.25, 0.4, 0.6)),
    Constant("grad-norm", "warning_rise", (2.0, 3.0, 5.0)),
    Constant("stall", "length_rise", (0.1, 0.2, 0.3)),
    Constant("outcomes", "bad_share", (0.5, 0.6, 0.7)),
    Constant("outcomes", "rise", (0.05, 0.1, 0.2)),
    Constant("drawdown", "warning", (0.4, 0.5, 0.6)),
    Constant("reward-oscillation", "share", (0.2, 0.3, 0.4)),
    Constant("reward-oscillation", "errors", (3.0, 4.0, 5.0)),
    Constant("throughput", "warning", (0.5, 0.6, 0.7)),
    Constant("throughput", "machine_s", (10.0, 30.0, 60.0)),
)
"""What was chosen or added here, and the guide's own levels beside it; windows and counts such as 5 of 8 are given."""


def leave_one_out(cases: Sequence[Case], constants: Sequence[Constant] = CONSTANTS) -> tuple[LeftOut, ...]:
    """Every constant, chosen without each environment of `cases` in turn."""
    return tuple(_leave_one_out(cases, constant) for constant in constants)


def only(rule: str, **fields: Any) -> Limits:
    """Limits under which `rule` alone judges, with `fields` of its own changed."""
    limits = Limits()
    off = {
        name: structs.replace(getattr(limits, name), act="off")
        for name in limits.__struct_fields__
        if name != rule.replace("-", "_")
    }
    name = rule.replace("-", "_")
    return structs.replace(limits, **off, **{name: structs.replace(getattr(limits, name), **fields)})


def _leave_one_out(cases: Sequence[Case], constant: Constant) -> LeftOut:
    cases = [case for case in cases if case.sick_from is None or not case.rules or constant.rule in case.rules]
    shipped = getattr(getattr(Limits(), constant.rule.replace("-", "_")), constant.field)
    by_value: dict[float, list[Scored]] = {}
    for value in constant.grid:
        limits = only(constant.rule, **{constant.field: value})
        by_value[value] = [Scored(case, judged(case, limits)) for case in cases]
    chosen: Counter[float] = Counter()
    kept: list[Scored] = []
    for env in dict.fromkeys(case.env for case in cases):
        best = max(constant.grid, key=lambda value: (_merit(by_value[value], without=env), value == shipped))
        chosen[best] += 1
        kept += [one for one in by_value[best] if one.case.env == env]
    return LeftOut(
        constant=constant,
        shipped=shipped,
        chosen=dict(sorted(chosen.items())),
        shipped_false=_false(by_value[shipped]),
        chosen_false=_false(kept),
        shipped_recall=_recall(by_value[shipped]),
        chosen_recall=_recall(kept),
    )


def _merit(scored: Sequence[Scored], without: str) -> float:
    """Recall less false incidents per 1,000 healthy updates: half of the warnings' target costs half of the recall."""
    rest = [one for one in scored if one.case.env != without]
    return round((_recall(rest) or 0.0) - _false(rest), 4)


def _false(scored: Sequence[Scored]) -> float:
    return false_rate(scored, ("warning", "critical")).per_1000


def _recall(scored: Sequence[Scored]) -> float | None:
    counted = [one for one in found([one for one in scored if one.case.rules]) if one.positives]
    positives = sum(one.positives for one in counted)
    return sum(one.hits for one in counted) / positives if positives else None
