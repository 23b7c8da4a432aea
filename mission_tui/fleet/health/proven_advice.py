"""Which advice cured trainings that were made sick: written by `make health-advice`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping

FOLLOWED: Mapping[tuple[str, str], tuple[int, int, int]] = {
    ("actions-at-bound", "ppo.ent_coef"): (2, 0, 2),
    ("actions-at-bound", "ppo.policy_kwargs.log_std_init"): (0, 0, 4),
    ("drawdown", "ppo.gamma"): (1, 0, 1),
    ("drawdown", "ppo.target_kl"): (1, 1, 5),
    ("ent-coef", "ppo.ent_coef"): (20, 0, 20),
    ("entropy-collapse", "ppo.ent_coef"): (3, 0, 10),
    ("entropy-collapse", "ppo.learning_rate"): (5, 1, 21),
    ("explained-variance", "ppo.gamma"): (39, 1, 41),
    ("explained-variance", "ppo.learning_rate"): (1, 0, 1),
    ("explained-variance", "ppo.vf_coef"): (29, 0, 31),
    ("grad-norm", "env.normalize"): (5, 1, 9),
    ("kl-persistent", "ppo.clip_range"): (2, 0, 2),
    ("kl-persistent", "ppo.gamma"): (1, 0, 1),
    ("kl-persistent", "ppo.learning_rate"): (75, 1, 76),
    ("kl-persistent", "ppo.target_kl"): (3, 0, 8),
    ("kl-spike", "ppo.gamma"): (1, 0, 1),
    ("kl-spike", "ppo.learning_rate"): (1, 0, 1),
    ("kl-spike", "ppo.target_kl"): (1, 0, 3),
    ("policy-frozen", "ppo.ent_coef"): (1, 0, 3),
    ("policy-frozen", "ppo.learning_rate"): (82, 2, 88),
    ("policy-frozen", "ppo.max_grad_norm"): (1, 0, 1),
    ("policy-std", "ppo.ent_coef"): (9, 0, 9),
    ("policy-std", "ppo.learning_rate"): (1, 0, 1),
    ("stall", "env.kwargs.shaping"): (0, 0, 8),
    ("value-loss", "env.normalize"): (2, 3, 11),
}
"""By rule and setting: sick trainings that followed it, as how many did better, worse, and in all."""
