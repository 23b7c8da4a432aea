"""How far an update moved the policy, measured against PPO's own trust region.

u = KL / (clip_range^2 / 2), with the clip range of that update: at clip range 0.2, u = 1 is a KL of 0.02. Healthy runs
have a median u of 0.2 to 1.2 and a 95th percentile of at most 2.6 (health guide, section 2).
"""

from __future__ import annotations

import math

from mission_tui.fleet.health.rule import Row
from mission_tui.fleet.health.settings import Settings

__all__ = ["radius_of", "u_of"]

SMALLEST_CLIP, LARGEST_CLIP = 0.05, 0.5
"""A clip range annealed to nothing would make any KL infinite, and one that means "no clipping" every policy frozen."""


def u_of(row: Row, settings: Settings) -> float | None:
    """The u of `row`'s update; None when the row says no KL."""
    kl = row.metrics.get("train/approx_kl")
    if kl is None or math.isnan(kl):
        return None
    return kl / radius_of(row, settings)


def radius_of(row: Row, settings: Settings) -> float:
    """The KL at the edge of the clip range: clip_range^2 / 2, with a clip range of at least 0.05 and at most 0.5."""
    clip = row.metrics.get("train/clip_range", settings.clip_range)
    clip = min(clip, LARGEST_CLIP) if clip > SMALLEST_CLIP else SMALLEST_CLIP  # NaN too, which passes no comparison
    return clip * clip / 2.0
