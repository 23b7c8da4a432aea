"""The newest values of a run beside the levels that rules compare them with, in the run's own limits.

Only what one row can tell is here: a rule also asks for how long, and for what the return does meanwhile, so a reading
over its level is no finding yet. A value that the row lacks has no reading.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.fleet.health.episode_endings import kind_of
from mission_tui.fleet.health.judge import acts
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.trust_region import StepScale, radius_of
from mission_tui.fleet.specs.thresholds import Limits

Standing = Literal["ok", "warning", "critical"]

FEWEST_SPEEDS = 5
"""Steps per second of fewer updates have no median that is worth comparing with."""


class Reading(Struct, frozen=True):
    """`label` is what the value is called, `tag` the series it belongs to, `unit` that series' value at reading 1.

    `warning` and `critical` are levels of the reading; `below` says that trouble lies below them. `held` says how long
    the rule wants to see it. `level` is None where nothing can be compared (the value is NaN).
    """

    rule: str
    label: str
    tag: str
    value: float
    warning: float | None = None
    critical: float | None = None
    below: bool = False
    held: str = ""
    unit: float | None = 1.0

    @property
    def level(self) -> Standing | None:
        """Which level the newest value alone has passed."""
        if math.isnan(self.value):
            return None
        if self._passed(self.critical):
            return "critical"
        return "warning" if self._passed(self.warning) else "ok"

    def _passed(self, level: float | None) -> bool:
        return level is not None and (self.value < level if self.below else self.value > level)

    def on_curve(self, level: float | None) -> float | None:
        """Where `level` lies on the curve of `tag`; None where the two have no common scale."""
        return None if level is None or self.unit is None else level * self.unit


def readings(
    metrics: Mapping[str, Metric],
    settings: Settings,
    limits: Limits,
    *,
    speeds: Sequence[Metric | None] = (),
    outcomes: Mapping[str, int] | None = None,
) -> tuple[Reading, ...]:
    """The readings of the newest row, for the rules that `limits` let judge.

    `speeds` are the newest steps per second, oldest first; `outcomes` counts recent episodes by how they ended.
    """
    known = {tag: value for tag, metric in metrics.items() if (value := number(metric)) is not None}
    found = (
        *_trust_region(known, settings, limits),
        *_policy(known, limits),
        *_values(known, settings, limits),
        *_pace(speeds, limits),
        *_episodes(outcomes or {}, limits),
    )
    return tuple(reading for reading in found if acts(limits, reading.rule) != "off")


def _trust_region(known: Mapping[str, float], settings: Settings, limits: Limits) -> Iterator[Reading]:
    kl, tag = known.get("train/approx_kl"), "train/approx_kl"
    row, scale = Row(attempt=0, update=0, timesteps=0, metrics=known), StepScale(settings)
    scale.update(row)
    if kl is not None:
        radius, edge = radius_of(row, settings), scale.radius
        high, low = limits.kl_persistent, limits.policy_frozen
        held = f"{high.needed} of {high.window} updates"
        yield Reading("kl-persistent", "KL u", tag, kl / edge, high.warning, high.critical, held=held, unit=edge)
        frozen, held = low.critical_kl / radius, f"{low.updates} updates"
        yield Reading("policy-frozen", "KL u (frozen)", tag, kl / radius, low.u, frozen, True, held, radius)
    first, precision = known.get("train/ratio_first"), limits.ratio
    if first is not None:
        off = precision.first_reduced if settings.reduced_precision else precision.first
        yield Reading("ratio", "first ratio, off 1", "train/ratio_first", first, None, off, held="1 update")
    clip, levels = known.get("train/clip_fraction"), limits.clip_fraction
    if clip is not None:
        held = f"{levels.needed} of {levels.window} updates"
        tag, share, unit = "train/clip_fraction", scale.clipped(clip), None if scale.narrowed else 1.0
        # Beside it the screen has the share that the clip range of now clips, under the plain name.
        label = f"clip fraction at {scale.clip_range:.2g}" if scale.narrowed else "clip fraction"
        yield Reading("clip-fraction", label, tag, share, levels.warning, levels.critical, held=held, unit=unit)


def _policy(known: Mapping[str, float], limits: Limits) -> Iterator[Reading]:
    entropy, collapse = known.get("policy/entropy_ratio"), limits.entropy_collapse
    if entropy is not None:
        held = f"{collapse.critical_updates} updates"
        yield Reading(
            "entropy-collapse", "entropy / max", "policy/entropy_ratio", entropy, None, collapse.critical, True, held
        )
    std = limits.policy_std
    for tag, label, warning, critical, below in (
        ("policy/std_min_ratio", "std / start, least", std.warning_low, std.critical_low, True),
        ("policy/std_max_ratio", "std / start, most", std.warning_high, std.critical_high, False),
    ):
        if tag in known:
            held = f"{std.updates} updates"
            yield Reading("policy-std", label, tag, known[tag], warning, critical, below, held)
    bound, levels = known.get("policy/actions_at_bound"), limits.actions_at_bound
    if bound is not None:
        held = f"{levels.updates} updates"
        yield Reading(
            "actions-at-bound", "actions at bound", "policy/actions_at_bound", bound, levels.warning, held=held
        )


def _values(known: Mapping[str, float], settings: Settings, limits: Limits) -> Iterator[Reading]:
    tag, levels = "train/explained_variance", limits.explained_variance
    if tag in known:
        held = f"{levels.needed} of {levels.window} updates"
        yield Reading(
            "explained-variance", "explained variance", tag, known[tag], levels.warning, levels.critical, True, held
        )
    tag, norm, unit = "train/grad_norm", limits.grad_norm, settings.max_grad_norm
    if tag in known and unit > 0.0:
        held = f"{norm.updates} updates"
        yield Reading(
            "grad-norm", "gradient / its cap", tag, known[tag] / unit, norm.warning, norm.critical, held=held, unit=unit
        )


def _pace(speeds: Sequence[Metric | None], limits: Limits) -> Iterator[Reading]:
    known = [speed for speed in _finite(speeds) if speed > 0.0]
    if len(known) >= FEWEST_SPEEDS:
        median, levels = statistics.median(known), limits.throughput
        held = f"{levels.updates} updates"
        yield Reading(
            "throughput", "speed / median", "steps_per_s", known[-1] / median, levels.warning, None, True, held, median
        )


def _episodes(outcomes: Mapping[str, int], limits: Limits) -> Iterator[Reading]:
    total = sum(outcomes.values())
    if total:
        share = sum(count for name, count in outcomes.items() if kind_of(name) == "idle") / total
        yield Reading("outcomes", "idle endings", "", share, limits.outcomes.bad_share, held="and rising", unit=None)


def _finite(values: Iterable[Metric | None]) -> list[float]:
    known = (number(value) for value in values)
    return [value for value in known if value is not None and math.isfinite(value)]
