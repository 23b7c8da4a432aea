"""The engine `fast`: the numbers of the reference, up to rounding, without its overhead.

What is saved: distributions that validate themselves, calls through modules, autograd, a buffer that is allocated,
transposed and copied anew, a pass over all infos at every step, a call per parameter for every optimizer operation, and
on a CPU torch's tanh. With `rounding` "sb3" the numbers are the reference's bit for bit, to prove that nothing else
differs.

With `precision` bf16 the policy's layers multiply in that. Parameters, gradients and Adam's moments stay float32, and
so does all that a layer hands on to a distribution: log-probabilities, entropies, values, advantages, losses. Rollout
and update go through the same layers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError
from mission_tui.trainer.failures import NonFiniteError
from mission_tui.trainer.ppo.cuda_graphs import GraphedCall, GraphedCalls
from mission_tui.trainer.ppo.losses import ClipRanges, Losses, LossGradient, Objective
from mission_tui.trainer.ppo.optimizer import FlatAdam, flattened
from mission_tui.trainer.ppo.policy_evaluator import (
    Evaluated,
    LayeredPolicy,
    NativePolicy,
    PolicyEvaluator,
    StackedPolicy,
    evaluator_of,
)
from mission_tui.trainer.ppo.reference import PPO, RolloutWatch
from mission_tui.trainer.ppo.rollout_buffer import Minibatch, Observation, ResidentBuffer
from mission_tui.trainer.ppo.signals import RolloutSignals, UpdateSignals, check_observations, check_parameters
from mission_tui.trainer.torch_compiler import compiled, compiling


class FastPPO(PPO):
    """The same signals, stops and checkpoints as `PPO`.

    With `precision` bf16 the policy's layers multiply in that. With `compiles` they are compiled in `warm_up`, which
    must then come before `collect`. `rounding` "sb3" is exact for policies without a bonus for entropy, with
    a features extractor such as that of `CnnPolicy` too, and slower.
    """

    rollout_buffer: ResidentBuffer
    _evaluator: PolicyEvaluator | NativePolicy
    _loss_gradient: LossGradient
    _under_way: _GraphedStep | None = None
    _env_s = 0.0

    def __init__(
        self,
        *args: Any,
        precision: Literal["fp32", "bf16"] = "fp32",
        compiles: bool = False,
        rounding: Literal["quick", "sb3"] = "quick",
        **kwargs: Any,
    ) -> None:
        self.precision, self.compiles, self.rounding = precision, compiles, rounding
        super().__init__(*args, **kwargs)

    def _setup_model(self) -> None:
        self.rollout_buffer_class = ResidentBuffer
        threads = th.get_num_threads()
        if self.rounding == "quick":
            # An orthogonal matrix comes out otherwise on several threads: a seed would not begin as it does on one.
            th.set_num_threads(1)
        try:
            super()._setup_model()
        finally:
            th.set_num_threads(threads)
        self.policy.optimizer = flattened(self.policy.optimizer)
        if self.precision == "bf16":
            _multiply_in_bf16(self.policy)
        by_hand = self.precision == "fp32" and not self.compiles
        prepare = compiled if self.compiles else None
        self._evaluator = evaluator_of(
            self.policy,
            by_hand=by_hand,
            quick=self.rounding == "quick",
            prepare=prepare,
            optimizer=self.policy.optimizer,
        )
        by_graphs = self.device.type == "cuda" and self.rounding == "quick"
        self._graphed: GraphedCalls[_GraphedStep] | None = None
        capturable = isinstance(self._evaluator, StackedPolicy) or (
            isinstance(self._evaluator, LayeredPolicy) and self._evaluator.capturable
        )
        if by_graphs and capturable and isinstance(self.policy.optimizer, FlatAdam):
            self._graphed = GraphedCalls()
        if self.compiles and not isinstance(self._evaluator, LayeredPolicy):
            raise PresetError(
                "run.compile = true: gSDE, and policies that override how they evaluate, cannot be compiled; "
                "use run.compile = false"
            )

    def warm_up(self, stop_asked: Callable[[], bool]) -> float:
        """Compile the policy for every shape that it will see, unless a stop is asked meanwhile; returns the seconds.

        Draws no random number and leaves no gradient. Raises `PresetError` when that cannot be done here.
        """
        assert isinstance(self._evaluator, LayeredPolicy)
        observations, actions = self.rollout_buffer.observations_and_actions()
        transitions = len(actions)
        largest = min(self.batch_size, transitions)
        with compiling() as seconds:
            self.policy.set_training_mode(False)
            self._evaluator.forward(_first(observations, self.n_envs))
            self.policy.set_training_mode(True)
            for size in {largest, transitions % largest} - {0}:
                if stop_asked():
                    break
                scalars = [actions.new_zeros(size, dtype=th.float32) for _ in range(4)]
                batch = Minibatch(_first(observations, size), actions[:size].clone(), *scalars)
                self._differentiate(self._losses(batch, self._clip_ranges()).loss)
                self.policy.optimizer.zero_grad()
            return seconds()

    def collect(self) -> RolloutSignals | None:
        try:
            signals = super().collect()
        except NonFiniteError:
            # Nothing was looked at while it was computed, so the cause is looked for now.
            check_parameters(self.policy)
            for observation in (*self.rollout_buffer.observations_by_step(), self._last_obs):
                check_observations(observation)
            raise
        return signals and replace(signals, env_s=self._env_s)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Step all environments `n_rollout_steps` times; False if `callback` ended that."""
        assert isinstance(rollout_buffer, ResidentBuffer)
        assert self._last_obs is not None
        assert self._last_episode_starts is not None
        self._set_training_mode(False)
        rollout_buffer.reset()
        self._evaluator.reset()
        if self.use_sde:
            self.policy.reset_noise(env.num_envs)
        # The names of variables are part of what callbacks are told: they are SB3's.
        asks_later, on_host = isinstance(callback, RolloutWatch), self.device.type == "cpu"
        clock, env_s = time.monotonic, 0.0
        callback.on_rollout_start()
        for n_steps in range(n_rollout_steps):
            if self.use_sde and self.sde_sample_freq > 0 and n_steps % self.sde_sample_freq == 0:
                self.policy.reset_noise(env.num_envs)
            obs_tensor = rollout_buffer.add_observations(n_steps, self._last_obs, self._last_episode_starts)
            if self.rounding == "sb3":
                # As the environments gave them: kernels for images sum by how those lie in memory.
                obs_tensor = self._on_device(self._last_obs)
            chosen = self._evaluator.act(obs_tensor)
            if not asks_later:
                values, log_probs = self.step_values(obs_tensor, chosen)
            actions = chosen.numpy() if on_host else chosen.cpu().numpy()
            clipped_actions = self._for_env(actions)
            begun_s = clock()
            new_obs, rewards, dones, infos = env.step(clipped_actions)
            env_s += clock() - begun_s
            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            if ended := dones.nonzero()[0].tolist():
                # Monitor says nothing of episodes that go on.
                self._update_info_buffer([infos[lane] for lane in ended], dones[ended])
                rewards = self._with_time_limits(rewards, infos, ended)
            rollout_buffer.add_rewards(n_steps, actions if on_host else chosen, rewards)
            self._last_obs, self._last_episode_starts = new_obs, dones  # type: ignore[assignment]
        self._env_s = env_s
        rollout_buffer.add_values(*self._evaluator.rollout_values(*rollout_buffer.observations_and_actions()))
        values = self._evaluator.predict_values(self._on_device(self._last_obs))
        rollout_buffer.compute_returns_and_advantage(values, dones)
        log_probs = th.as_tensor(rollout_buffer.log_probs[-1])
        n_steps, actions = n_rollout_steps, actions.reshape(-1, self.rollout_buffer.action_dim)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def step_values(self, observation: Observation, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Values, shape (lanes, 1), and log-probabilities, shape (lanes,), of the step of a rollout under way."""
        return self._evaluator.last_values(observation, actions)

    def _for_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Actions as the environments take them, within their bounds."""
        space = self.action_space
        actions = actions.reshape(-1, *(space.shape or ()))
        if not isinstance(space, spaces.Box):
            return actions
        if not np.isfinite(actions).all():
            raise NonFiniteError("an action became nan or infinite")
        if self.policy.squash_output:
            actions = self.policy.unscale_action(actions)
        else:
            actions = np.clip(actions, space.low, space.high)
        return actions

    def _with_time_limits(self, rewards: NDArray[Any], infos: list[dict[str, Any]], ended: list[int]) -> NDArray[Any]:
        """`rewards`, with the value of where they stood added for lanes whose episode only ran out of time."""
        cut = [
            lane
            for lane in ended
            if infos[lane].get("TimeLimit.truncated", False) and infos[lane].get("terminal_observation") is not None
        ]
        if not cut:
            return rewards
        rewards = rewards.copy()
        # One by one on a CPU, as SB3 does, because a batch is summed in another order; elsewhere each would be a wait.
        for lanes in [[lane] for lane in cut] if self.device.type == "cpu" else [cut]:
            finals = _stacked([infos[lane]["terminal_observation"] for lane in lanes])
            values = self._evaluator.predict_values(self._on_device(finals))
            rewards[lanes] += self.gamma * values.flatten().cpu().numpy()
        return rewards

    def _on_device(self, observation: Any) -> Observation:
        if isinstance(observation, dict):
            return {name: th.as_tensor(part, device=self.device) for name, part in observation.items()}
        return th.as_tensor(observation, device=self.device)

    def _set_training_mode(self, mode: bool) -> None:
        # The kernels' layers know no modes, and to tell every module takes as long as a gradient step.
        if not isinstance(self._evaluator, NativePolicy):
            super()._set_training_mode(mode)

    def _descend(self, clip: ClipRanges, signals: UpdateSignals) -> bool:
        if isinstance(self._evaluator, NativePolicy):
            self._evaluator.learn_from(self.rollout_buffer.transitions())
        return super()._descend(clip, signals)

    def _minibatches(self) -> Iterator[Any]:
        if isinstance(self._evaluator, NativePolicy):
            return self.rollout_buffer.orders(self.batch_size)
        if self._graphed is None or (self._steps_whole and not (self.target_kl is None and self.lr_warmup.over)):
            return super()._minibatches()
        return self.rollout_buffer.orders(self.batch_size)

    @property
    def _steps_whole(self) -> bool:
        """Whether a gradient step can only be captured as one, with nothing looked at or changed in its middle."""
        return not isinstance(self._evaluator, StackedPolicy)

    def _losses(self, batch: Any, clip: ClipRanges) -> Losses:
        if isinstance(self._evaluator, NativePolicy):
            objective = Objective(clip, self.ent_coef, self.vf_coef)
            return self._evaluator.losses(batch, objective, normalized=self.normalize_advantage)
        if isinstance(batch, th.Tensor):
            assert self._graphed is not None
            terms = (clip, self._coefficients())
            kind = _GraphedWholeStep if self._steps_whole else _GraphedHalves
            self._under_way = self._graphed.of(len(batch), terms, lambda: kind(self, len(batch), clip))
            return self._under_way.losses(batch)
        self._under_way = None
        return self._plain_losses(batch, clip)

    def _plain_losses(self, batch: Any, clip: ClipRanges) -> Losses:
        assert not isinstance(self._evaluator, NativePolicy)
        objective = Objective(clip, self.ent_coef, self.vf_coef)
        values, evaluation = self._evaluator.evaluate_actions(batch.observations, batch.actions)
        losses, self._loss_gradient = objective.of(batch, self._normalized(batch.advantages), values, evaluation)
        return losses

    def _differentiate(self, loss: th.Tensor) -> None:
        assert not isinstance(self._evaluator, NativePolicy)
        self._evaluator.backward(self._loss_gradient)

    def _coefficients(self) -> tuple[Any, ...]:
        """What a captured gradient step holds as numbers, besides the clip ranges."""
        group = self.policy.optimizer.param_groups[0]
        of_loss = (self.ent_coef, self.vf_coef, self.max_grad_norm, self.normalize_advantage)
        return (*of_loss, *group["betas"], group["eps"])

    def _step(self, loss: th.Tensor) -> th.Tensor:
        if self._under_way is not None:
            return self._under_way.descend()
        if isinstance(self._evaluator, NativePolicy):
            return self._evaluator.descend(self.max_grad_norm)
        optimizer = self.policy.optimizer
        if not isinstance(optimizer, FlatAdam):
            return super()._step(loss)
        optimizer.zero_grad()
        self._differentiate(loss)
        norm = optimizer.clip(self.max_grad_norm)
        optimizer.step()
        return norm


class _GraphedStep:
    """Gradient steps on minibatches of one size, which are captured."""

    def __init__(self, model: FastPPO, size: int, clip: ClipRanges) -> None:
        self._model, self._clip = model, clip
        self._order = th.zeros(size, dtype=th.int64, device=model.device)

    def losses(self, order: th.Tensor) -> Losses:
        """Of the transitions at `order`, shape (batch,), of the rollout buffer."""
        raise NotImplementedError

    def descend(self) -> th.Tensor:
        """The optimizer's step; the norm of the gradient before clipping."""
        raise NotImplementedError

    @property
    def _optimizer(self) -> FlatAdam:
        assert isinstance(self._model.policy.optimizer, FlatAdam)
        return self._model.policy.optimizer

    def _plain_losses(self) -> Losses:
        model = self._model
        return model._plain_losses(model.rollout_buffer.gathered(self._order), self._clip)

    def _descend_along(self, loss_gradient: LossGradient) -> th.Tensor:
        assert not isinstance(self._model._evaluator, NativePolicy)
        self._optimizer.zero_grad()
        self._model._evaluator.backward(loss_gradient)
        norm = self._optimizer.clip(self._model.max_grad_norm)
        self._optimizer.step_counted()
        return norm


class _GraphedHalves(_GraphedStep):
    """As two graphs, the losses and the descent: between them the host may look at how far the policy has moved."""

    def __init__(self, model: FastPPO, size: int, clip: ClipRanges) -> None:
        super().__init__(model, size, clip)
        self._graphed_losses = GraphedCall("the losses", self._evaluate)
        self._graphed_descent = GraphedCall("the descent", self._descend)

    def losses(self, order: th.Tensor) -> Losses:
        self._order.copy_(order)
        losses, self._loss_gradient, self._evaluated = self._graphed_losses()
        return _kept(losses)

    def descend(self) -> th.Tensor:
        self._optimizer.count_ahead()
        return self._graphed_descent().clone()

    def _evaluate(self) -> tuple[Losses, LossGradient, Evaluated | None]:
        model = self._model
        assert isinstance(model._evaluator, StackedPolicy)
        return self._plain_losses(), model._loss_gradient, model._evaluator.evaluated

    def _descend(self) -> th.Tensor:
        assert isinstance(self._model._evaluator, StackedPolicy)
        self._model._evaluator.evaluated = self._evaluated
        return self._descend_along(self._loss_gradient)


class _GraphedWholeStep(_GraphedStep):
    """As one graph, because autograd's own record of the losses is gone after a descent."""

    def __init__(self, model: FastPPO, size: int, clip: ClipRanges) -> None:
        super().__init__(model, size, clip)
        self._graphed_step = GraphedCall("the gradient step", self._step)

    def losses(self, order: th.Tensor) -> Losses:
        self._order.copy_(order)
        self._optimizer.count_ahead()
        losses, self._norm = self._graphed_step()
        return _kept(losses)

    def descend(self) -> th.Tensor:
        return self._norm.clone()

    def _step(self) -> tuple[Losses, th.Tensor]:
        return self._plain_losses(), self._descend_along(self._model._loss_gradient)


def _kept(losses: Losses) -> Losses:
    """A copy, because the next replay overwrites them."""
    loss, policy, value, entropy = th.stack(losses[:4]).unbind(0)
    heads = None if losses.heads is None else losses.heads.clone()
    return Losses(loss, policy, value, entropy, losses.log_ratio.clone(), heads)


def _first(observations: Observation, rows: int) -> Observation:
    if isinstance(observations, dict):
        return {name: part[:rows].clone() for name, part in observations.items()}
    return observations[:rows].clone()


def _stacked(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {name: np.stack([each[name] for each in observations]) for name in observations[0]}
    return np.stack(observations)


def _multiply_in_bf16(policy: ActorCriticPolicy) -> None:
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
