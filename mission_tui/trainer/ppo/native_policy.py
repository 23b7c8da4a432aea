"""An MLP policy on a CPU by the kernels: what `policy_evaluator` does with some forty operations of torch, in one call.

Small layers are multiplied in less time than torch needs to be asked. The kernels do a whole act and a whole minibatch:
the passes, the head, the loss, its gradient; and the step of Adam. Random numbers are drawn by torch, as many and in
the order in which SB3 draws them.
"""

from __future__ import annotations

from ctypes import addressof, byref
from typing import Any

import torch as th
from stable_baselines3.common import distributions
from stable_baselines3.common.policies import ActorCriticPolicy

from mission_tui.trainer.native import library as native
from mission_tui.trainer.ppo.heads import MlpStack, gradient_of
from mission_tui.trainer.ppo.losses import Losses, Objective
from mission_tui.trainer.ppo.optimizer import FlatAdam
from mission_tui.trainer.ppo.rollout_buffer import Minibatch, Observation

_WIDEST = 128
"""MKL multiplies wider layers as fast or faster, and on several cores."""
_STEPS = 64
"""For so many memory is taken at once."""
_THREADS = 2
"""The actor is computed by one and the critic by the other: nothing is summed in another order than by one alone."""


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
        features = _flat(observation)
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
        features = _flat(observation)
        values = th.empty(len(features), 1)
        self._library.mission_tui_value(self._at, len(features), features.data_ptr(), values.data_ptr())
        return values

    def learn_from(self, transitions: Minibatch) -> None:
        """Minibatches are of these from now on; all their arrays are of one length."""
        features = _flat(transitions.observations)
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


def _flat(observation: Observation) -> th.Tensor:
    assert isinstance(observation, th.Tensor)
    if observation.dtype is th.float32 and observation.dim() == 2 and observation.is_contiguous():
        return observation
    return observation.float().flatten(1).contiguous()
