"""A policy whose layers multiply in bf16 while everything that is learned or judged stays float32.

Parameters, gradients and Adam's moments are float32; so is all that a layer hands on to a distribution, and with it
log-probabilities, entropies, values, advantages and losses. Rollout and update go through the same layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy

__all__ = ["multiply_in_bf16"]


def multiply_in_bf16(policy: ActorCriticPolicy) -> None:
    """Let features extractors, towers and the two last layers of `policy` compute under autocast, for good.

    The names and types of its parameters stay, so checkpoints do not know the difference.
    """
    towers = policy.mlp_extractor
    extractors = {policy.pi_features_extractor, policy.vf_features_extractor}
    parts = [*((module, "forward") for module in (*extractors, towers, policy.action_net, policy.value_net))]
    # SB3 calls these two by name.
    parts += [(towers, "forward_actor"), (towers, "forward_critic")]
    for module, name in parts:
        setattr(module, name, _cast(getattr(module, name), policy.device.type))


def _cast(compute: Callable[..., Any], device: str) -> Callable[..., Any]:
    def computed(*inputs: Any) -> Any:
        with th.autocast(device, dtype=th.bfloat16):
            outputs = compute(*inputs)
        return tuple(each.float() for each in outputs) if isinstance(outputs, tuple) else outputs.float()

    return computed
