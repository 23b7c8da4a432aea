"""What the losses of a log tell about `vf_coef` and `ent_coef`, where its settings are not known.

SB3's `train/loss` is that of the last minibatch, policy + vf_coef x value - ent_coef x entropy; beside it stand means
of the parts over the whole update. Where it stays next to that of the policy although values miss by far, the value
loss has no weight. Where it lies far below that of the policy, entropy is paid for, and by at least so much: no value
loss is negative. Whether a value loss that is small has a weight cannot be told: rare large errors make its mean, and
the last minibatch seldom has them.
"""

from __future__ import annotations

import math
import statistics

from mission_tui.fleet.health.rule import Hysteresis, Row
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.windows import Numbers

LOSS, POLICY_LOSS = "train/loss", "train/policy_gradient_loss"
VALUE_LOSS, ENTROPY_LOSS = "train/value_loss", "train/entropy_loss"
NEEDED, LOOKS = 12, 16
LEAST_WEIGHT = 0.02
"""Published settings of PPO have a `vf_coef` of 0.19 and more; the last minibatch's loss may lie far below the mean."""
LEAST_LOSS = 0.3
"""Below it the entropy bonus and the noise of the policy's loss are as large as a healthy value loss."""
MOST_ENTROPY_COEF = 0.1
"""Published settings of PPO have an `ent_coef` of up to 0.01."""
LEAST_PAID = 0.1
"""By chance a loss lies so far below that of its policy in at most 1 of 16 updates, measured in 590 trainings; in all
of them where the bonus is 1 and rewards are normalised.
"""


class LossParts:
    """Follows one attempt. Of settings that are known it says what they are, and looks at no loss."""

    def __init__(self, settings: Settings) -> None:
        self._vf_coef, self._ent_coef = settings.vf_coef, settings.ent_coef
        self._policy_alone, self._paid = Hysteresis(NEEDED, LOOKS), Hysteresis(NEEDED, LOOKS)
        self._bonuses = Numbers(LOOKS)

    def update(self, row: Row) -> None:
        """Take in one update."""
        if self._vf_coef is not None and self._ent_coef is not None:
            return
        total, policy = row.metrics.get(LOSS, math.nan), row.metrics.get(POLICY_LOSS, math.nan)
        if not (math.isfinite(total) and math.isfinite(policy)):
            return
        value, entropy = row.metrics.get(VALUE_LOSS, math.nan), -row.metrics.get(ENTROPY_LOSS, math.nan)
        if value >= LEAST_LOSS:
            share = abs(total - policy) / value
            self._policy_alone.update(over=share < LEAST_WEIGHT, calm=share >= LEAST_WEIGHT)
        if 0.0 < entropy < math.inf:
            paid = policy - total
            much = paid > max(LEAST_PAID, MOST_ENTROPY_COEF * entropy)
            self._paid.update(over=much, calm=not much)
            self._bonuses.append(paid / entropy)

    @property
    def values_are_untaught(self) -> bool:
        """Whether the value loss has no weight: known, or seen in 12 of 16 updates."""
        return self._policy_alone.on if self._vf_coef is None else self._vf_coef == 0.0

    @property
    def bonus(self) -> float | None:
        """What `ent_coef` is at least, where that is not known and more than anybody sets; else None."""
        return statistics.median(self._bonuses) if self._paid.on and self._ent_coef is None else None

    @property
    def told_bonus(self) -> str:
        """The same in words; "" where the losses do not show it."""
        return "" if self.bonus is None else f"by train/loss ppo.ent_coef is at least {self.bonus:.2g}"
