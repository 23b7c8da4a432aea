"""Where nan and infinity are caught: rewards as they come, the rollout before the update, parameters after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer

from mission_tui.trainer.failures import NonFiniteError

__all__ = ["check_observations", "check_parameters", "check_rewards", "check_rollout"]


def check_rewards(rewards: NDArray[np.floating[Any]]) -> None:
    """Raise `NonFiniteError` naming the first environment whose reward is nan or infinite."""
    finite = np.isfinite(rewards)
    if not finite.all():
        lane = int(np.flatnonzero(~finite)[0])
        raise NonFiniteError(f"the reward of environment {lane} became {rewards[lane]}")


def check_observations(observations: Any) -> None:
    """Raise `NonFiniteError` naming the first environment with a nan or infinite observation; dictionaries by key."""
    parts = observations if isinstance(observations, dict) else {"": observations}
    for key, part in parts.items():
        finite = np.isfinite(part).reshape(len(part), -1).all(axis=1)
        if not finite.all():
            where, lane = f" '{key}'" if key else "", int(np.flatnonzero(~finite)[0])
            raise NonFiniteError(f"the observation{where} of environment {lane} became nan or infinite")


def check_rollout(buffer: RolloutBuffer) -> None:
    """Raise `NonFiniteError` if what the policy said, or the advantages made of it and the rewards, is not finite."""
    for name in ("values", "log_probs", "advantages"):
        if not np.isfinite(getattr(buffer, name)).all():
            raise NonFiniteError(f"{name} of the rollout became nan or infinite")


def check_parameters(policy: th.nn.Module) -> None:
    """Raise `NonFiniteError` naming the first parameter that is nan or infinite."""
    for name, parameter in policy.named_parameters():
        if not bool(th.isfinite(parameter).all()):
            raise NonFiniteError(f"parameter {name} became nan or infinite")
