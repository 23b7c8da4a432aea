"""Which curves share a scale: two axes have numbers beside the picture, and a curve that fits neither has its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mission_tui.tui.plot.curve import Curve
from mission_tui.tui.plot.scale import Scale, scale_of

__all__ = ["Side", "Sided", "side_by_side"]

Side = Literal["left", "right", "own"]

_LEAST_SHARE = 1 / 3
"""Of the height of an axis: a curve that would have less is read on another one."""


@dataclass(frozen=True, slots=True)
class Sided:
    """A curve with the scale that it is drawn on; those on one side share theirs."""

    curve: Curve
    scale: Scale
    side: Side


def side_by_side(
    curves: Sequence[Curve], *, log: bool, beside: Mapping[str, Sequence[float]] | None = None
) -> list[Sided]:
    """Each curve that has something to draw with its scale, in order; `beside` are further values on a tag's axis."""
    beside = beside or {}
    alone = len(curves) == 1
    values = {
        curve.tag: [value for value in (*curve.values(spans=alone), *beside.get(curve.tag, ())) if math.isfinite(value)]
        for curve in curves
    }
    known = [curve for curve in curves if curve.shown]
    groups: list[list[Curve]] = []
    for curve in known:
        fitting = (group for group in groups[:2] if _fit([values[it.tag] for it in (*group, curve)], log=log))
        group = next(fitting, None)
        if group is None:
            groups.append([curve])
        else:
            group.append(curve)
    found: dict[str, Sided] = {}
    for at, group in enumerate(groups):
        scale = scale_of([value for it in group for value in values[it.tag]], log=log)
        side: Side = ("left", "right")[at] if at < 2 else "own"
        if scale is not None:
            found |= {it.tag: Sided(it, scale, side) for it in group}
    return [found[curve.tag] for curve in known if curve.tag in found]


def _fit(columns: Sequence[Sequence[float]], *, log: bool) -> bool:
    """Whether none is squeezed: each that has a span has a good part of the common one."""
    spans = [_span(column, log=log) for column in columns]
    whole = _span([value for column in columns for value in column], log=log)
    return all(span >= _LEAST_SHARE * whole for span in spans if span > 0)


def _span(values: Sequence[float], *, log: bool) -> float:
    bent = [math.log10(value) if log else value for value in values if value > 0 or not log]
    return max(bent) - min(bent) if bent else 0.0
