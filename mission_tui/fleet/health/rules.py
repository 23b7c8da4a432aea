"""The rules in force, besides `nan`, `hang` and `checkpoint-age`, which hear more than rows. Order is of no meaning."""

from __future__ import annotations

from mission_tui.fleet.health.actions_at_bound import ActionsAtBound
from mission_tui.fleet.health.clip_fraction import ClipFraction
from mission_tui.fleet.health.drawdown import Drawdown
from mission_tui.fleet.health.entropy import EntropyCollapse
from mission_tui.fleet.health.explained_variance import ExplainedVariance
from mission_tui.fleet.health.grad_norm import GradNorm
from mission_tui.fleet.health.kl import KlPersistent
from mission_tui.fleet.health.kl_creep import KlCreep
from mission_tui.fleet.health.kl_spike import KlSpike
from mission_tui.fleet.health.oscillation import RewardOscillation
from mission_tui.fleet.health.outcomes import Outcomes
from mission_tui.fleet.health.plateau import Plateau
from mission_tui.fleet.health.policy_frozen import PolicyFrozen
from mission_tui.fleet.health.policy_std import PolicyStd
from mission_tui.fleet.health.ratio import Ratio
from mission_tui.fleet.health.resume_probe import ResumeProbe
from mission_tui.fleet.health.rule import Rule
from mission_tui.fleet.health.stall import Stall
from mission_tui.fleet.health.throughput import Throughput
from mission_tui.fleet.health.value_loss import ValueLoss

__all__ = ["RULES"]

RULES: tuple[type[Rule], ...] = (
    KlPersistent,
    KlSpike,
    KlCreep,
    PolicyFrozen,
    ClipFraction,
    EntropyCollapse,
    PolicyStd,
    ActionsAtBound,
    ExplainedVariance,
    ValueLoss,
    GradNorm,
    Ratio,
    Drawdown,
    RewardOscillation,
    Stall,
    Outcomes,
    Throughput,
    Plateau,
    ResumeProbe,
)
