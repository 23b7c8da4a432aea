"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int, int]] = {
    ("any", "ppo.ent_coef"): (31, 0, 31),
    ("any", "ppo.gamma"): (3, 0, 4),
    ("any", "ppo.learning_rate"): (139, 2, 145),
    ("any", "ppo.max_grad_norm"): (1, 0, 1),
    ("any", "ppo.vf_coef"): (2, 0, 2),
    ("drawdown", "ppo.target_kl"): (2, 3, 8),
    ("entropy-collapse", "ppo.ent_coef"): (3, 0, 10),
    ("entropy-collapse", "ppo.learning_rate"): (1, 1, 17),
    ("explained-variance", "ppo.gamma"): (34, 0, 36),
    ("explained-variance", "ppo.vf_coef"): (22, 0, 24),
    ("grad-norm", "env.normalize"): (7, 2, 16),
    ("kl-persistent", "ppo.clip_range"): (2, 0, 2),
    ("kl-persistent", "ppo.target_kl"): (3, 0, 9),
    ("kl-spike", "ppo.learning_rate"): (1, 0, 1),
    ("kl-spike", "ppo.target_kl"): (1, 0, 3),
    ("policy-frozen", "ppo.ent_coef"): (1, 0, 3),
    ("policy-frozen", "ppo.learning_rate"): (28, 0, 28),
    ("stall", "env.kwargs.shaping"): (0, 0, 8),
}
"""By rule and setting: sick trainings that followed it, as how many did better, worse, and in all.

`any` is a usual setting in place of one that nobody learns with, whichever rule advised it.
"""
