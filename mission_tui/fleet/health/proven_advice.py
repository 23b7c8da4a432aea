"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int]] = {
    ("entropy-collapse", "ppo.learning_rate"): (0, 1),
    ("explained-variance", "env.normalize"): (2, 2),
    ("explained-variance", "ppo.ent_coef"): (1, 1),
    ("explained-variance", "ppo.gamma"): (1, 1),
    ("explained-variance", "ppo.vf_coef"): (3, 3),
    ("grad-norm", "env.normalize"): (0, 1),
    ("kl-persistent", "ppo.learning_rate"): (6, 6),
    ("kl-persistent", "ppo.target_kl"): (1, 2),
    ("kl-spike", "ppo.target_kl"): (1, 1),
    ("policy-frozen", "ppo.learning_rate"): (7, 7),
    ("reward-oscillation", "ppo.learning_rate"): (1, 1),
    ("value-loss", "env.normalize"): (0, 1),
}
"""By rule and setting: how many of the sick trainings that followed it did better than without, and how many did."""
