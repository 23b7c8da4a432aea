"""A policy as the two loops call it: to act, to value, to judge given actions, and to be differentiated.

SB3's own policies are taken apart, because calling modules and building distributions costs more than small layers do:
those without a features extractor into two MLP stacks, others into their head and what is below it. Policies that
override how they evaluate, and gSDE, are asked through their own methods.

For a small MLP on a CPU the kernels do in one call what takes some forty operations of torch: small layers are
multiplied in less time than torch needs to be asked. They do a whole act and a whole minibatch: the passes, the head,
the loss, its gradient; and the step of Adam. Random numbers are drawn by torch, as many and in the order in which SB3
draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, byref
from typing import Any, ClassVar, NamedTuple, Protocol

import torch as th
from gymnasium import spaces
from stable_baselines3.common import distributions
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor, MlpExtractor, NatureCNN

from mission_tui.trainer.native import library as native
from mission_tui.trainer.ppo.cuda_graphs import GraphedCall, GraphedCalls
from mission_tui.trainer.ppo.heads import Head, MlpStack, gradient_of, head_of, mlp_stack_of
from mission_tui.trainer.ppo.losses import ActionEvaluation, Losses, LossGradient, Objective, backprop
from mission_tui.trainer.ppo.optimizer import FlatAdam
from mission_tui.trainer.ppo.rollout_buffer import Minibatch, Observation

Prepare = Callable[[Callable[..., Any]], Callable[..., Any]]

_ROWS = 2048
"""Rows that the critic values at once on a CPU: their activations stay in a core's second cache."""
_ROWS_OF_A_CARD = 32_768
_CAPTURABLE = {FlattenExtractor, NatureCNN, CombinedExtractor}
"""What these do is the same at each call; a user's extractor may look at what changes, which no graph would see."""
_OVERRIDABLE = ("forward", "evaluate_actions", "predict_values", "extract_features", "_get_action_dist_from_latent")

_WIDEST = 128
"""MKL multiplies wider layers as fast as the kernels or faster, and on several cores."""
_STEPS = 64
"""For so many the kernels take memory at once."""
_THREADS = 2
"""Of the kernels: the actor is computed by one and the critic by the other, so nothing is summed in another order than
by one alone.
"""


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


class NativePolicy:
    """Acts as a `PolicyEvaluator` does, and learns too.

    Parameters are changed in place, and not between `reset` and the end of a rollout.
    """

    def __init__(
        self,
        library: Any,
        policy: ActorCriticPolicy,
        optimizer: FlatAdam,
        actor: MlpStack,
        critic: MlpStack,
        threads: int = 1,
    ) -> None:
        self._library, self._optimizer = library, optimizer
        self._step = native.Adam(*(part.data_ptr() for part in optimizer.vectors), optimizer.vectors[0].numel())
        self._rollout = native.Rollout()
        self._learned_from: tuple[th.Tensor, ...] = ()
        self._kept: list[Any] = []
        self._plan = native.Plan()
        self._discrete = not isinstance(policy.action_dist, distributions.DiagGaussianDistribution)
        outputs = self._fill(self._plan.actor, actor)
        self._fill(self._plan.critic, critic)
        self._sizes = _sizes(policy.action_dist)
        self._actions = len(self._sizes) if self._discrete else outputs
        self._several = isinstance(policy.action_dist, distributions.MultiCategoricalDistribution)
        self._one_head = th.empty(self._actions)
        plan = self._plan
        plan.head = native.CATEGORICAL if self._discrete else native.GAUSSIAN
        plan.choices, plan.actions = outputs, self._actions
        plan.sizes = self._keep(th.tensor(self._sizes or [0], dtype=th.int64))
        if not self._discrete:
            plan.log_std = policy.log_std.data_ptr()
            plan.log_std_gradient = gradient_of(policy.log_std).data_ptr()
        self._add_memory(plan)
        if threads > 1:
            twin = native.Plan.from_buffer_copy(plan)
            self._add_memory(twin)
            plan.twin = addressof(twin)
            self._kept.append(twin)
        self._at = byref(plan)
        self._log_probs: list[th.Tensor] = []
        self._rows: list[tuple[th.Tensor, th.Tensor, int, int]] = []
        self._lanes = 0
        self._noise: list[th.Tensor] = []
        self._noise_at = 0

    def _fill(self, net: Any, stack: MlpStack) -> int:
        """Describe `stack`; returns its outputs."""
        net.depth = len(stack.layers)
        for layer, (module, activation) in zip(net.layers, stack.layers, strict=False):
            layer.outputs, layer.inputs = module.weight.shape
            layer.inputs_room, layer.outputs_room = _room(layer.inputs), _room(layer.outputs)
            layer.activation = native.ACTIVATIONS[activation]
            layer.weight, layer.bias = module.weight.data_ptr(), module.bias.data_ptr()
            layer.weight_gradient = gradient_of(module.weight).data_ptr()
            layer.bias_gradient = gradient_of(module.bias).data_ptr()
            layer.packed = self._keep(th.zeros(layer.inputs, layer.outputs_room))
            layer.padded = self._keep(th.zeros(layer.outputs, layer.inputs_room))
            layer.packed_bias = self._keep(th.zeros(layer.outputs_room))
            layer.weight_sum = self._keep(th.zeros(layer.outputs_room, layer.inputs_room))
            layer.bias_sum = self._keep(th.zeros(layer.outputs_room))
        return int(net.layers[net.depth - 1].outputs)

    def _add_memory(self, plan: Any) -> None:
        """What one thread writes of a block of rows while it goes through the layers."""
        for net in (plan.actor, plan.critic):
            for layer in net.layers[: net.depth]:
                layer.output = self._keep(th.zeros(native.BLOCK, layer.outputs_room))
                layer.slope = self._keep(th.zeros(native.BLOCK, layer.outputs_room))
        plan.features = self._keep(th.zeros(native.BLOCK, plan.actor.layers[0].inputs_room))
        plan.critic_features = self._keep(th.zeros(native.BLOCK, plan.critic.layers[0].inputs_room))

    def _keep(self, tensor: th.Tensor) -> int:
        self._kept.append(tensor)
        return tensor.data_ptr()

    def reset(self) -> None:
        """A rollout begins: what an earlier one left is dropped, and the parameters are taken as they are now."""
        self._log_probs.clear()
        self._library.mission_tui_pack(self._at)

    def act(self, observation: Observation) -> th.Tensor:
        features = _contiguous(observation)
        lanes = features.size(0)
        if not self._rows or self._lanes != lanes:
            self._make_room(lanes)
        actions, log_probs, actions_at, log_probs_at = self._rows.pop()
        self._library.mission_tui_act(self._at, lanes, features.data_ptr(), self._draw(), actions_at, log_probs_at)
        self._log_probs.append(log_probs)
        return actions

    def _make_room(self, lanes: int) -> None:
        """Take memory for the actions of some steps, their log-probabilities and their random numbers, and note where
        each lies: to ask torch at every step takes longer than the kernel.
        """
        width = [self._actions] if self._several or not self._discrete else []
        actions = th.empty((_STEPS, lanes, *width), dtype=th.int64 if self._discrete else th.float32).unbind(0)
        log_probs = th.empty(_STEPS, lanes).unbind(0)
        pairs = zip(actions, log_probs, strict=True)
        self._rows = [(chosen, said, chosen.data_ptr(), said.data_ptr()) for chosen, said in pairs]
        if self._lanes == lanes:
            return
        self._lanes = lanes
        widths = self._sizes if self._discrete else [self._actions]
        noise = th.empty(lanes * sum(widths))
        self._noise = [part.view(lanes, -1) for part in th.split(noise, [lanes * width for width in widths])]
        self._noise_at = noise.data_ptr()

    def _draw(self) -> int:
        """Random numbers for the actions of all lanes, drawn as SB3's distributions draw them; where they lie."""
        for part in self._noise:
            if self._discrete:
                part.exponential_(1.0)
            else:
                part.normal_()
        return self._noise_at

    def last_values(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        return self._values(observation), self._log_probs[-1]

    def rollout_values(self, observations: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        log_probs = th.cat(self._log_probs)
        self._log_probs.clear()
        return self._values(observations).flatten(), log_probs

    def predict_values(self, observation: Observation) -> th.Tensor:
        self._library.mission_tui_pack(self._at)
        return self._values(observation)

    def _values(self, observation: Observation) -> th.Tensor:
        features = _contiguous(observation)
        values = th.empty(len(features), 1)
        self._library.mission_tui_value(self._at, len(features), features.data_ptr(), values.data_ptr())
        return values

    def learn_from(self, transitions: Minibatch) -> None:
        """Minibatches are of these from now on; all their arrays are of one length."""
        features = _contiguous(transitions.observations)
        parts = (features, *transitions[2:], transitions.actions)
        assert all(part.is_contiguous() for part in parts)
        self._rollout = native.Rollout(*(part.data_ptr() for part in parts))
        self._learned_from = parts

    def losses(self, order: th.Tensor, objective: Objective, *, normalized: bool) -> Losses:
        """What `Objective.of` says of the transitions at `order`, shape (batch,), and what `UpdateSignals` makes of it;
        every parameter's gradient is written as well.
        """
        rows = order.size(0)
        numbers, log_ratios = th.empty(7), th.empty(rows)
        heads = th.empty(self._actions) if self._several else self._one_head
        batch = native.Minibatch(addressof(self._rollout), order.data_ptr(), rows)
        clip = objective.clip
        aim = native.Objective(
            clip.policy, -1.0 if clip.value is None else clip.value, objective.ent_coef, objective.vf_coef, normalized
        )
        said = native.Losses(numbers.data_ptr(), log_ratios.data_ptr(), heads.data_ptr())
        self._library.mission_tui_learn(self._at, byref(batch), byref(aim), byref(said))
        policy_gradient, value, entropy, loss, *_ = numbers.unbind(0)
        return Losses(
            loss, policy_gradient, value, entropy, log_ratios, heads if self._several else None, numbers=numbers
        )

    def descend(self, max_norm: float) -> th.Tensor:
        """Clip the gradients and step; returns their norm before."""
        group, number, step = self._optimizer.param_groups[0], self._optimizer.count_step(), self._step
        beta1, beta2 = group["betas"]
        step.max_norm, step.rate, step.epsilon = max_norm, group["lr"], group["eps"]
        step.beta1, step.beta2 = beta1, beta2
        step.correction1, step.correction2 = 1 - beta1**number, (1 - beta2**number) ** 0.5
        return th.scalar_tensor(self._library.mission_tui_descend(byref(step)))


def native_policy_of(
    policy: ActorCriticPolicy, optimizer: th.optim.Optimizer | None, actor: MlpStack, critic: MlpStack
) -> NativePolicy | None:
    """The kernels' evaluator of `policy`; None where they do not fit it, or are not here."""
    known = (
        distributions.CategoricalDistribution,
        distributions.MultiCategoricalDistribution,
        distributions.DiagGaussianDistribution,
    )
    layers = [*actor.layers, *critic.layers]
    if policy.device.type != "cpu" or not isinstance(optimizer, FlatAdam) or type(policy.action_dist) not in known:
        return None
    if max(len(actor.layers), len(critic.layers)) > native.MOST_LAYERS:
        return None
    threads = th.get_num_threads()
    # What the torch path would spread over more cores is left to it.
    if max(max(module.weight.shape) for module, _ in layers) > _WIDEST or threads > _THREADS:
        return None
    library = native.kernels()
    return None if library is None else NativePolicy(library, policy, optimizer, actor, critic, threads)


def _sizes(distribution: Any) -> list[int]:
    """The choices of each component of an action."""
    if isinstance(distribution, distributions.MultiCategoricalDistribution):
        return [int(size) for size in distribution.action_dims]
    return [int(distribution.action_dim)] if isinstance(distribution, distributions.CategoricalDistribution) else []


def _room(features: int) -> int:
    return -(-features // native.LANE) * native.LANE


def _contiguous(observation: Observation) -> th.Tensor:
    assert isinstance(observation, th.Tensor)
    if observation.dtype is th.float32 and observation.dim() == 2 and observation.is_contiguous():
        return observation
    return observation.float().flatten(1).contiguous()
