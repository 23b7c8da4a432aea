"""A policy as the two loops call it: to act, to value, to judge given actions, and to be differentiated.

SB3's own policies are taken apart, because calling modules and building distributions costs more than small layers do:
those without a features extractor into two MLP stacks, others into their head and what is below it. Policies that
override how they evaluate, and gSDE, are asked through their own methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, MlpExtractor, NatureCNN

from mission_tui.trainer.ppo.cuda_graphs import GraphedCall, GraphedCalls
from mission_tui.trainer.ppo.heads import Head, MlpStack, head_of, mlp_stack_of
from mission_tui.trainer.ppo.losses import ActionEvaluation, LossGradient, backprop
from mission_tui.trainer.ppo.native_policy import NativePolicy, native_policy_of
from mission_tui.trainer.ppo.rollout_buffer import Observation

Prepare = Callable[[Callable[..., Any]], Callable[..., Any]]

_ROWS = 2048
"""Rows that the critic values at once on a CPU: their activations stay in a core's second cache."""
_ROWS_OF_A_CARD = 32_768
_CAPTURABLE = {FlattenExtractor, NatureCNN, CombinedExtractor}
"""What these do is the same at each call; a user's extractor may look at what changes, which no graph would see."""
_OVERRIDABLE = ("forward", "evaluate_actions", "predict_values", "extract_features", "_get_action_dist_from_latent")


class PolicyEvaluator(Protocol):
    """Valid until the policy's parameters are replaced; changing them in place is fine."""

    def act(self, observation: Observation) -> th.Tensor:
        """Sampled actions, shape (lanes, ...)."""

    def last_values(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Values, shape (lanes, 1), and log-probabilities, shape (lanes,), of what `act` just saw and did."""

    def rollout_values(self, observations: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Values and log-probabilities, shape (steps * lanes,), of all that `act` saw and did since the last look."""

    def reset(self) -> None:
        """Drop what a rollout that was given up left behind."""

    def predict_values(self, observation: Observation) -> th.Tensor:
        """Values, shape (lanes, 1)."""

    def evaluate_actions(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        """Values, shape (batch, 1), and what the policy says of `actions`."""

    def backward(self, loss_gradient: LossGradient) -> None:
        """Turn the gradient on what `evaluate_actions` said last into gradients of parameters, which were cleared
        before.
        """


def evaluator_of(
    policy: ActorCriticPolicy,
    *,
    by_hand: bool = True,
    quick: bool = True,
    prepare: Prepare | None = None,
    optimizer: th.optim.Optimizer | None = None,
) -> PolicyEvaluator | NativePolicy:
    """The fastest evaluator that gives `policy`'s own numbers, to the last bit unless `quick`.

    With an `optimizer` of one vector it may be that of the kernels, which then takes its steps too.

    Unless `by_hand`, autograd differentiates its layers, whose forward passes go through `prepare` first.
    """
    head = head_of(policy)
    own = all(getattr(type(policy), name) is getattr(ActorCriticPolicy, name) for name in _OVERRIDABLE)
    if head is None or not own or type(policy.mlp_extractor) is not MlpExtractor:
        return _WholePolicy(policy)
    if not by_hand:
        return LayeredPolicy(policy, head, prepare)
    actor = mlp_stack_of([*policy.mlp_extractor.policy_net, policy.action_net], quick=quick)
    critic = mlp_stack_of([*policy.mlp_extractor.value_net, policy.value_net], quick=quick)
    if actor is not None and critic is not None and _only_flattens(policy):
        native = native_policy_of(policy, optimizer, actor, critic) if quick else None
        return native or StackedPolicy(actor, critic, head)
    return LayeredPolicy(policy, head)


class _Acts:
    """`act`, on a card by a graph for each shape of observations: what it returned before is overwritten then.

    `act` gives actions first, and what else it says of an observation.
    """

    graphed: ClassVar[bool] = True
    """False where somebody else draws the random numbers."""

    def __init__(self, act: Callable[[Observation], tuple[th.Tensor, ...]], *, capturable: bool) -> None:
        self._act, self._capturable = act, capturable
        self._calls = GraphedCalls[tuple[Observation, GraphedCall[tuple[th.Tensor, ...]]]]()

    @th.no_grad()
    def __call__(self, observation: Observation) -> tuple[th.Tensor, ...]:
        if not (self._capturable and self.graphed):
            return self._act(observation)
        parts = observation if isinstance(observation, dict) else {"": observation}
        shapes = tuple((name, part.shape, part.dtype) for name, part in parts.items())
        seen, call = self._calls.of(shapes, None, lambda: self._graphed(observation))
        for name, part in (seen if isinstance(seen, dict) else {"": seen}).items():
            part.copy_(parts[name])
        return call()

    def _graphed(self, like: Observation) -> tuple[Observation, GraphedCall[tuple[th.Tensor, ...]]]:
        if isinstance(like, dict):
            seen: Observation = {name: th.empty_like(part) for name, part in like.items()}
        else:
            seen = th.empty_like(like)
        return seen, GraphedCall("acting", lambda: self._act(seen))


class _Recorded:
    """What came with the actions is remembered, and what is judged is differentiated by autograd."""

    def __init__(self) -> None:
        self._values: list[th.Tensor] = []
        self._log_probs: list[th.Tensor] = []
        self._evaluated: tuple[th.Tensor, ActionEvaluation] | None = None

    def remember(self, values: th.Tensor, log_probs: th.Tensor) -> None:
        self._values.append(values.flatten())
        self._log_probs.append(log_probs)

    def last_values(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        return self._values[-1].unsqueeze(1), self._log_probs[-1]

    def rollout_values(self, observations: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        values, log_probs = th.cat(self._values), th.cat(self._log_probs)
        self.reset()
        return values, log_probs

    def reset(self) -> None:
        self._values.clear()
        self._log_probs.clear()

    def evaluate_actions(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        self._evaluated = self._evaluate(observation, actions)
        return self._evaluated

    def _evaluate(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        raise NotImplementedError

    def backward(self, loss_gradient: LossGradient) -> None:
        assert self._evaluated is not None
        (values, evaluation), self._evaluated = self._evaluated, None
        pairs = [(values, loss_gradient.values), (evaluation.log_prob, loss_gradient.log_prob)]
        if loss_gradient.entropy is not None:
            assert evaluation.entropy is not None
            pairs.append((evaluation.entropy, loss_gradient.entropy))
        backprop(pairs)


class _WholePolicy(_Recorded):
    """The policy's own methods."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        self._policy = policy

    @th.no_grad()
    def act(self, observation: Observation) -> th.Tensor:
        actions, values, log_probs = self._policy(observation)
        self.remember(values, log_probs)
        chosen: th.Tensor = actions
        return chosen

    @th.no_grad()
    def predict_values(self, observation: Observation) -> th.Tensor:
        return self._policy.predict_values(observation)

    def _evaluate(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        if not isinstance(self._policy.action_space, spaces.Discrete):
            actions = actions.float()
        values, log_prob, entropy = self._policy.evaluate_actions(observation, actions)
        return values, ActionEvaluation(log_prob, entropy)


class LayeredPolicy(_Recorded):
    """A features extractor and whatever else lies below the head, called as modules."""

    def __init__(self, policy: ActorCriticPolicy, head: Head, prepare: Prepare | None = None) -> None:
        super().__init__()
        self._policy, self._head = policy, head
        extractors = {type(policy.pi_features_extractor), type(policy.vf_features_extractor)}
        self.capturable = prepare is None and extractors <= _CAPTURABLE
        self._acts = _Acts(self._act, capturable=self.capturable and policy.device.type == "cuda")
        self._run_forward, self._run_evaluate = self._forward, self._evaluate_prepared
        if prepare is not None:
            self._run_forward, self._run_evaluate = prepare(self._forward), prepare(self._evaluate_prepared)

    @th.no_grad()
    def forward(self, observation: Observation) -> tuple[th.Tensor, th.Tensor]:
        """What the head turns into actions, shape (batch, ...), and values, shape (batch, 1); no random number is
        drawn.
        """
        return self._run_forward(self._input(observation))

    def act(self, observation: Observation) -> th.Tensor:
        actions, values, log_probs = self._acts(observation)
        self.remember(values.clone(), log_probs.clone())
        return actions

    def _act(self, observation: Observation) -> tuple[th.Tensor, ...]:
        output, values = self.forward(observation)
        actions = self._head.sample(output)
        return actions, values, self._head.log_prob(output, actions)

    @th.no_grad()
    def predict_values(self, observation: Observation) -> th.Tensor:
        return self._policy.predict_values(observation)

    def _evaluate(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        return self._run_evaluate(self._input(observation), actions)

    def _input(self, observation: Observation) -> Any:
        # Looks at spaces, which is no work for a compiler.
        space, scaled = self._policy.observation_space, self._policy.normalize_images
        return preprocess_obs(observation, space, normalize_images=scaled)

    def _evaluate_prepared(self, prepared: Any, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        output, values = self._forward(prepared)
        return values, self._head.evaluate(output, actions)

    def _forward(self, prepared: Any) -> tuple[th.Tensor, th.Tensor]:
        policy = self._policy
        for_actor = for_critic = policy.pi_features_extractor(prepared)
        if not policy.share_features_extractor:
            for_critic = policy.vf_features_extractor(prepared)
        output = policy.action_net(policy.mlp_extractor.forward_actor(for_actor))
        return output, policy.value_net(policy.mlp_extractor.forward_critic(for_critic))


class Evaluated(NamedTuple):
    """What a `StackedPolicy` needs for differentiating what it said last of a minibatch."""

    features: th.Tensor
    output: th.Tensor
    actions: th.Tensor
    evaluation: ActionEvaluation


class StackedPolicy:
    """Actor and critic on the flat observation, without autograd.

    While acting only the actor is asked. The critic sees the whole rollout at its end, in few large batches.
    """

    def __init__(self, actor: MlpStack, critic: MlpStack, head: Head) -> None:
        self._actor, self._critic, self._head = actor, critic, head
        self._outputs: list[th.Tensor] = []
        self._acts = _Acts(self._act, capturable=actor.device.type == "cuda")
        self.evaluated: Evaluated | None = None

    def act(self, observation: Observation) -> th.Tensor:
        actions, output = self._acts(observation)
        self._outputs.append(output.clone())
        return actions

    def _act(self, observation: Observation) -> tuple[th.Tensor, ...]:
        output = self._actor.forward(_flat(observation))
        return self._head.sample(output), output

    @th.no_grad()
    def last_values(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        return self.predict_values(observation).clone(), self._head.log_prob(self._outputs[-1], actions)

    @th.no_grad()
    def rollout_values(self, observations: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        lanes = len(self._outputs[0])
        # Matrix kernels sum the rows beyond a multiple of 4 in another order, so such lanes are valued step by step.
        rows = _ROWS if self._outputs[0].device.type == "cpu" else _ROWS_OF_A_CARD
        size = rows if lanes % 4 == 0 else lanes
        values = [self._critic.forward(rows).flatten().clone() for rows in th.split(_flat(observations), size)]
        log_probs = self._head.log_prob(th.cat(self._outputs), actions)
        self.reset()
        return th.cat(values), log_probs

    def reset(self) -> None:
        self._outputs.clear()

    def predict_values(self, observation: Observation) -> th.Tensor:
        return self._critic.forward(_flat(observation))

    @th.no_grad()
    def evaluate_actions(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, ActionEvaluation]:
        features = _flat(observation)
        output, values = self._actor.forward(features), self._critic.forward(features)
        evaluation = self._head.evaluate(output, actions)
        self.evaluated = Evaluated(features, output, actions, evaluation)
        return values, evaluation

    @th.no_grad()
    def backward(self, loss_gradient: LossGradient) -> None:
        assert self.evaluated is not None
        features, output, actions, evaluation = self.evaluated
        self._actor.backward(self._head.gradient(output, actions, evaluation, loss_gradient), features)
        self._critic.backward(loss_gradient.values, features)


def _flat(observation: Observation) -> th.Tensor:
    assert isinstance(observation, th.Tensor)
    return observation.float().flatten(1)


def _only_flattens(policy: ActorCriticPolicy) -> bool:
    """Whether the features are the observation itself, as one vector of floats."""
    space = policy.observation_space
    scaled = policy.normalize_images and is_image_space(space)
    extractors = {type(policy.pi_features_extractor), type(policy.vf_features_extractor)}
    return isinstance(space, spaces.Box) and not scaled and extractors == {FlattenExtractor}
