"""What moved the policy too far in one update, and the one change of settings that would move it less.

Shared by every rule about the trust region, so that the same trouble gets the same advice from all of them.
"""

from __future__ import annotations

import math

from mission_tui.fleet.health.phrases import halved_learning_rate, learning_rate_of, pressure_of, rounded
from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.trust_region import radius_of

__all__ = ["HIGH_PRESSURE", "changes_between", "smaller_update_advice"]

HIGH_PRESSURE = 2.0
"""Update pressure from which on the settings themselves explain large steps."""

MANY_EPOCHS = 8
TARGET_RADII = 1.5
"""SB3 ends an update beyond 1.5 x `target_kl`; the health guide's range for it is 1 to 1.5 radii."""

CHANGED = 1.5
WATCHED = (
    ("train/learning_rate", "learning rate"),
    ("policy/std", "standard deviation of the actions"),
    ("train/std", "standard deviation of the actions"),
    ("policy/entropy_ratio", "entropy as a share of its maximum"),
    ("train/grad_norm", "gradient norm"),
)


def smaller_update_advice(settings: Settings, row: Row) -> tuple[str, tuple[str, ...]]:
    """One advice and its assignments: fewer epochs where there are many, else a `target_kl`, else half the rate."""
    pressure, epochs = pressure_of(settings, learning_rate_of(row, settings)), settings.n_epochs
    if pressure is not None and pressure >= HIGH_PRESSURE and epochs is not None and epochs >= MANY_EPOCHS:
        return "go through each rollout half as often", (f"ppo.n_epochs={epochs // 2}",)
    if settings.target_kl is None:
        target = TARGET_RADII * radius_of(row, settings)
        return "end an update once it has moved far enough", (f"ppo.target_kl={target:.2g}",)
    return "halve the learning rate", halved_learning_rate(settings, row)


def changes_between(before: Row, after: Row) -> str:
    """What changed by more than half between two updates and bears on how far one goes; empty when nothing did."""
    changes: dict[str, str] = {}
    for tag, name in WATCHED:
        old, new = before.metrics.get(tag), after.metrics.get(tag)
        if old is None or new is None or not (0.0 < old < math.inf and 0.0 < new < math.inf):
            continue
        if max(old, new) > CHANGED * min(old, new):
            changes.setdefault(name, f"{name} {rounded(old)} -> {rounded(new)}")
    return ", ".join(changes.values())
