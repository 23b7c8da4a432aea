"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int, int]] = {
    ("any", "ppo.ent_coef"): (38, 0, 38),
    ("any", "ppo.gamma"): (39, 0, 43),
    ("any", "ppo.learning_rate"): (143, 2, 149),
    ("any", "ppo.max_grad_norm"): (1, 0, 1),
    ("any", "ppo.vf_coef"): (25, 0, 25),
    ("drawdown", "ppo.target_kl"): (0, 0, 7),
    ("entropy-collapse", "ppo.ent_coef"): (4, 0, 11),
    ("entropy-collapse", "ppo.learning_rate"): (2, 1, 18),
    ("explained-variance", "ppo.vf_coef"): (2, 0, 6),
    ("grad-norm", "env.normalize"): (5, 1, 8),
    ("grad-norm", "ppo.learning_rate"): (1, 0, 1),
    ("kl-persistent", "ppo.clip_range"): (2, 0, 2),
    ("kl-persistent", "ppo.target_kl"): (3, 0, 10),
    ("kl-spike", "ppo.learning_rate"): (1, 0, 1),
    ("kl-spike", "ppo.target_kl"): (1, 0, 3),
    ("policy-frozen", "ppo.ent_coef"): (1, 0, 3),
    ("policy-frozen", "ppo.learning_rate"): (28, 0, 28),
    ("stall", "env.kwargs.shaping"): (0, 0, 8),
    ("value-loss", "ppo.learning_rate"): (1, 0, 1),
}
"""By rule and setting: sick trainings that followed it, as how many did better, worse, and in all.

`any` is a usual setting in place of one that nobody learns with, whichever rule advised it.
"""
