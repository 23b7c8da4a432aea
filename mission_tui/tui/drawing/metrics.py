"""Metrics as they are shown: the handful beside the return, the names people say aloud, and each curve's colour."""

from __future__ import annotations

from rich.style import Style

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.present import numbers
from mission_tui.present.numbers import TITLES
from mission_tui.tui.drawing import colours
from mission_tui.tui.drawing.strips import Part

_VITALS = (
    ("KL", "train/approx_kl"),
    ("clip", "train/clip_fraction"),
    ("H", "policy/entropy_ratio"),
    ("std", "policy/std"),
    ("EV", "train/explained_variance"),
    ("lr", "train/learning_rate"),
    ("value loss", "train/value_loss"),
    ("critic loss", "train/critic_loss"),
    ("actor loss", "train/actor_loss"),
    ("ent coef", "train/ent_coef"),
    ("exploration", "rollout/exploration_rate"),
    ("grad", "train/grad_norm"),
)
_COLUMNS = {"rollout/ep_rew_mean": "return", "rollout/ep_len_mean": "length", "timesteps": "steps"}
_P = colours.PALETTE
_HUES = (_P.live, _P.warn, _P.good, _P.paused, _P.key, _P.bold)
MOST_CURVES = len(_HUES)
"""More curves than this cannot be told apart."""
COHORT_HUES = (_P.live, _P.warn, _P.good, _P.paused, _P.key, _P.alarm, _P.bold)
"""A colour for each setting of a comparison, in order; a curve's letter names it without colours."""
_FAINT = 0.45


def key_metrics(view: RunView, width: int) -> list[Part]:
    """Short names and readings of those metrics that this run has, as many as fit `width` cells."""
    parts: list[Part] = []
    for name, tag in _VITALS:
        if tag in view.metrics:
            reading = numbers.reading_of(tag, view.metrics[tag])
            width -= len(name) + len(reading) + 1
            if width < 0:
                break
            parts += [(f"{name} ", colours.QUIET), (reading, colours.INK), ("   ", colours.INK)]
            width -= 3
    return parts


def column_title(tag: str) -> str:
    """The shortest name that is no other metric's, for a column of a table."""
    return _COLUMNS.get(tag) or next((name for name, known in _VITALS if known == tag), tag.rpartition("/")[2])


def metric_title(tag: str) -> str:
    """What people call the metric; an unknown tag is its own title."""
    return TITLES.get(tag, tag)


def letter(slot: int) -> str:
    """What the curve in `slot` is called: it says which one it is without colours."""
    return chr(ord("A") + slot)


def hue(slot: int) -> Style:
    """The colour of the curve in `slot`."""
    return Style(color=_HUES[slot % MOST_CURVES])


def faint(slot: int) -> Style:
    """The same colour, nearly sunk in the ground."""
    over, under = _parts(_HUES[slot % MOST_CURVES]), _parts(_P.ground)
    mixed = (round(_FAINT * one + (1 - _FAINT) * other) for one, other in zip(over, under, strict=True))
    return Style(color="#" + "".join(f"{part:02x}" for part in mixed))


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
