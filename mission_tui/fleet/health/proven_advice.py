"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int]] = {
    ("kl-persistent", "ppo.learning_rate"): (5, 5),
    ("kl-persistent", "ppo.target_kl"): (0, 1),
    ("reward-oscillation", "ppo.learning_rate"): (1, 1),
}
"""By rule and setting: how many of the sick trainings that followed it did better than without, and how many did."""
