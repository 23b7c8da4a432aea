"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int]] = {
    ("drawdown", "ppo.gamma"): (1, 1),
    ("entropy-collapse", "ppo.learning_rate"): (0, 1),
    ("explained-variance", "ppo.vf_coef"): (1, 1),
    ("grad-norm", "env.normalize"): (0, 1),
    ("kl-persistent", "ppo.learning_rate"): (5, 5),
    ("kl-persistent", "ppo.target_kl"): (1, 2),
    ("policy-frozen", "ppo.learning_rate"): (1, 1),
    ("reward-oscillation", "ppo.learning_rate"): (1, 1),
}
"""By rule and setting: how many of the sick trainings that followed it did better than without, and how many did."""
