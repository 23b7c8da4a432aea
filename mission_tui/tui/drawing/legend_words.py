"""What the help says of symbols and of metrics: each sign that the lists draw, each short name of a number."""

from __future__ import annotations

from collections.abc import Iterator

from mission_tui.tui.drawing.glyphs import OUTCOME_SHAPES, SEVERITY_SHAPES, STATE_SHAPES

_SEVERITIES = {"critical": "critical: act now", "warning": "warning: look at it", "info": "information"}

METRICS: tuple[tuple[str, str], ...] = (
    ("return", "mean sum of rewards of the last 100 episodes: what the policy is trained for"),
    ("length", "mean steps of those episodes"),
    ("st/s", "environment steps per second of the newest update, over all environments"),
    ("KL", "how far an update moved the policy (approx_kl); 0.005 to 0.02 is usual with a clip range of 0.2"),
    ("u", "KL divided by half of the squared clip range: 1 is as far as PPO means to go, whatever the clip range"),
    ("clip", "share of samples whose probability left the clip range; 0.05 to 0.3 is usual"),
    ("H", "entropy over that of the first update: 1 explores as at first, 0 always does the same"),
    ("std", "standard deviation of continuous actions: it falls as the policy becomes sure"),
    ("EV", "explained variance: 1 where values predict returns, 0 where they know no more than the mean"),
    ("lr", "the learning rate of the newest update"),
    ("value loss", "mean squared error of the values, in units of squared rewards"),
    ("gradient", "norm of the gradient before it is clipped to max_grad_norm"),
    ("pressure", "of an update: gradient steps x learning rate, over that of SB3's defaults: typical is 1 to 4"),
    ("EMA", "moving average of a curve; } smooths more, { less"),
)
"""By the short name that stands on the screen."""


def symbols() -> Iterator[tuple[str, str]]:
    """Each sign with its meaning: states, ends, severities, marks of a row."""
    for word, sign in STATE_SHAPES.items():
        if word != "ended":
            yield sign, word
    for outcome, sign in OUTCOME_SHAPES.items():
        yield sign, f"ended: {outcome}"
    for severity, sign in SEVERITY_SHAPES.items():
        yield sign, _SEVERITIES[severity]
    yield "ok ·", "nothing asks for action; · there is information, h shows it"
    yield "(KL)", "acknowledged: it is known, and opens again if it gets worse"
    yield "✓", "marked: keys apply to all that are"
    yield ">", "chosen"
