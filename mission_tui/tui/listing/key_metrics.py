"""The handful of metrics a pane or detail shows beside the return, with the short names people say aloud."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.strips import Part

__all__ = ["column_title", "key_metrics", "metric_title"]

_VITALS = (
    ("KL", "train/approx_kl"),
    ("clip", "train/clip_fraction"),
    ("H", "policy/entropy_ratio"),
    ("std", "policy/std"),
    ("EV", "train/explained_variance"),
    ("lr", "train/learning_rate"),
    ("value loss", "train/value_loss"),
    ("grad", "train/grad_norm"),
)
_COLUMNS = {"rollout/ep_rew_mean": "return", "rollout/ep_len_mean": "length", "timesteps": "steps"}
_TITLES = {
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


def key_metrics(view: RunView, width: int) -> list[Part]:
    """Short names and readings of those metrics that this run has, as many as fit `width` cells."""
    parts: list[Part] = []
    for name, tag in _VITALS:
        if tag in view.metrics:
            reading = numbers.reading(view.metrics[tag])
            width -= len(name) + len(reading) + 1
            if width < 0:
                break
            parts += [(f"{name} ", colours.QUIET), (reading, colours.INK), ("   ", colours.INK)]
            width -= 3
    return parts


def column_title(tag: str) -> str:
    """The shortest name that is still told from others, for a column of a table."""
    return _COLUMNS.get(tag) or next((name for name, known in _VITALS if known == tag), tag.rpartition("/")[2])


def metric_title(tag: str) -> str:
    """What people call the metric; an unknown tag is its own title."""
    return _TITLES.get(tag, tag)
