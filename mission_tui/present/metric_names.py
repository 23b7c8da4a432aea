"""What people call a metric: short on the screen, and with its unit on the axis of a figure."""

from __future__ import annotations

from collections.abc import Mapping

from mission_tui.fleet.text import clean

TITLES: Mapping[str, str] = {
    "rollout/ep_rew_mean": "return",
    "rollout/ep_len_mean": "episode length",
    "steps_per_s": "steps/s",
    "train/approx_kl": "approx KL",
    "train/clip_fraction": "clip fraction",
    "policy/entropy_ratio": "entropy / max",
    "policy/std": "action std",
    "train/explained_variance": "explained variance",
    "train/learning_rate": "learning rate",
    "train/value_loss": "value loss",
    "train/grad_norm": "gradient norm",
    "train/entropy_loss": "entropy loss",
    "train/clip_range": "clip range",
}

_LONG: Mapping[str, str] = {
    "rollout/ep_rew_mean": "mean episode return",
    "rollout/success_rate": "success rate",
    "eval/mean_reward": "mean evaluation return",
    "eval/success_rate": "evaluation success rate",
    "steps_per_s": "speed",
    "rollout_s": "time of a rollout",
    "update_s": "time of an update",
    "train/approx_kl": "approximate KL",
    "policy/entropy_ratio": "entropy, share of the greatest",
    "policy/std": "standard deviation of actions",
}
_UNITS: Mapping[str, str] = {
    "rollout/ep_len_mean": "steps",
    "steps_per_s": "timesteps/s",
    "rollout_s": "s",
    "update_s": "s",
    "train/approx_kl": "nats",
    "train/approx_kl_all": "nats",
    "train/entropy_loss": "nats",
}


def axis_name(tag: str) -> str:
    """`mean episode return`, `episode length (steps)`: a number without a unit has none, an unknown tag is its own."""
    name = _LONG.get(tag) or TITLES.get(tag) or clean(tag, 60)
    return f"{name} ({_UNITS[tag]})" if tag in _UNITS else name
