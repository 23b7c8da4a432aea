"""A policy as the two loops call it: to act, to value, and to judge given actions.

SB3's own policies are taken apart into their layers, because calling modules and building distributions costs more
than small layers do. Policies that override how they evaluate, and gSDE, are asked through their own methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from torch.nn.functional import linear

from mission_tui.trainer.ppo.buffer import Observation
from mission_tui.trainer.ppo.heads import Head, Judged, head_of

__all__ = ["Evaluator", "evaluator_of"]

Layer = Callable[[th.Tensor], th.Tensor]

_OVERRIDABLE = ("forward", "evaluate_actions", "predict_values", "extract_features", "_get_action_dist_from_latent")


class Evaluator(Protocol):
    """Valid until the policy's parameters are replaced; changing them in place is fine."""

    def act(self, observation: Observation) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        """Sampled actions (lanes, ...), values (lanes, 1), log-probabilities (lanes,)."""

    def value(self, observation: Observation) -> th.Tensor:
        """Values, shape (lanes, 1)."""

    def judge(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, Judged]:
        """Values, shape (batch, 1), and what the policy says of `actions`."""


def evaluator_of(policy: ActorCriticPolicy) -> Evaluator:
    """The fastest evaluator that gives `policy`'s own numbers."""
    head = head_of(policy)
    own = all(getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _OVERRIDABLE)
    if head is None or not own or type(policy.mlp_extractor) is not MlpExtractor:
        return _WholePolicy(policy)
    return _Layers(policy, head)


class _WholePolicy:
    """The policy's own methods."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        self._policy = policy

    def act(self, observation: Observation) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        with th.no_grad():
            actions, values, log_probs = self._policy(observation)
        return actions, values, log_probs

    def value(self, observation: Observation) -> th.Tensor:
        with th.no_grad():
            return self._policy.predict_values(observation)

    def judge(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, Judged]:
        if not isinstance(self._policy.action_space, spaces.Discrete):
            actions = actions.float()
        values, log_prob, entropy = self._policy.evaluate_actions(observation, actions)
        return values, Judged(log_prob, entropy)


class _Layers:
    """The two towers of SB3's `ActorCriticPolicy`, called layer by layer."""

    def __init__(self, policy: ActorCriticPolicy, head: Head) -> None:
        self._policy, self._head = policy, head
        self._shared = policy.share_features_extractor
        self._actor = _layers([*policy.mlp_extractor.policy_net, policy.action_net])
        self._critic = _layers([*policy.mlp_extractor.value_net, policy.value_net])
        self._flat = _only_flattens(policy)

    @th.inference_mode()
    def act(self, observation: Observation) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        for_actor, for_critic = self._features(observation)
        actions, log_probs = self._head.sample(_through(self._actor, for_actor))
        return actions, _through(self._critic, for_critic), log_probs

    @th.inference_mode()
    def value(self, observation: Observation) -> th.Tensor:
        return _through(self._critic, self._features(observation)[1])

    def judge(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, Judged]:
        for_actor, for_critic = self._features(observation)
        judged = self._head.judge(_through(self._actor, for_actor), actions)
        return _through(self._critic, for_critic), judged

    def _features(self, observation: Any) -> tuple[th.Tensor, th.Tensor]:
        if self._flat:
            features = observation.float().flatten(1)
            return features, features
        extracted: Any = self._policy.extract_features(observation)
        return (extracted, extracted) if self._shared else extracted


def _only_flattens(policy: ActorCriticPolicy) -> bool:
    """Whether the features are the observation itself, as one vector of floats."""
    space = policy.observation_space
    scaled = policy.normalize_images and is_image_space(space)
    extractors = {type(policy.pi_features_extractor), type(policy.vf_features_extractor)}
    return isinstance(space, spaces.Box) and not scaled and extractors == {FlattenExtractor}


def _layers(modules: Iterable[th.nn.Module]) -> list[Layer]:
    return [_layer(module) for module in modules]


def _layer(module: th.nn.Module) -> Layer:
    if type(module) is th.nn.Linear:
        weight, bias = module.weight, module.bias
        return lambda batch: linear(batch, weight, bias)
    if type(module) is th.nn.Tanh:
        return th.tanh
    if type(module) is th.nn.ReLU:
        return th.relu
    return module


def _through(layers: list[Layer], batch: th.Tensor) -> th.Tensor:
    for layer in layers:
        batch = layer(batch)
    return batch
