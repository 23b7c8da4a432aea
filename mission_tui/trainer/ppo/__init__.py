"""PPO in two forms with the same numbers: SB3's own operations one by one, and the same without their overhead."""

from __future__ import annotations

from mission_tui.trainer.ppo.fast import FastPPO
from mission_tui.trainer.ppo.losses import Losses
from mission_tui.trainer.ppo.reference import PPO

__all__ = ["PPO", "FastPPO", "Losses"]
