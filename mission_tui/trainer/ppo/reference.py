"""SB3's PPO with its numbers untouched, an update that can be given up half way, and every signal health reads.

The operations on parameters, their order and their use of random numbers are those of `stable_baselines3` 2.9; a test
compares parameters bit for bit. Signals are only read from what the update computes anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import update_learning_rate
from torch.nn.functional import mse_loss

from mission_tui.fleet.events.outcome import Phase
from mission_tui.trainer.callbacks import Callbacks
from mission_tui.trainer.learner import Advanced, Learner, timed
from mission_tui.trainer.ppo.losses import ActionEvaluation, ClipRanges, Losses
from mission_tui.trainer.ppo.optimizer import LrWarmup
from mission_tui.trainer.ppo.signals import (
    RolloutSignals,
    UpdateSignals,
    check_observations,
    check_parameters,
    check_rewards,
    check_rollout,
    head_entropies,
)
from mission_tui.trainer.vec_env.episodes import EpisodeTally

_OURS = (
    "stop_asked",
    "episodes",
    "lr_warmup",
    "callbacks",
    "precision",
    "compiles",
    "rollout_buffer_class",
    "_evaluator",
    "_loss_gradient",
    "_graphed",
    "_under_way",
    "_env_s",
)


def never() -> bool:
    """The answer where nothing can ask for a stop."""
    return False


class PPO(Learner, stable_baselines3.PPO):
    """`stop_asked` is looked at before every environment step and every minibatch; `episodes` counts what ended.

    `lr_warmup` is what a resume does to the learning rate for a while, `callbacks` are those of the preset.
    """

    algo: ClassVar[str] = "ppo"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.stop_asked: Callable[[], bool] = never
        self.episodes = EpisodeTally()
        self.lr_warmup = LrWarmup()
        self.callbacks: Callbacks | None = None

    def advance(self, enter: Callable[[Phase], None], remaining: Callable[[int], float]) -> Advanced | None:
        enter("rollout")
        rollout, rollout_s = timed(self.collect)
        if rollout is None:
            return None
        self._current_progress_remaining = remaining(self.num_timesteps)
        enter("update")
        update, update_s = timed(self.update)
        if update is None:
            return None
        return Advanced(rollout.metrics | update.read(self), rollout_s, update_s, rollout.env_s)

    def collect(self) -> RolloutSignals | None:
        """Fill the rollout buffer; None if a stop was asked or a callback ended it, and the buffer is then worthless.

        Raises `CallbackError`, `EnvError` and `NonFiniteError`.
        """
        assert self.env is not None
        watch = RolloutWatch(self.callbacks)
        watch.init_callback(self)
        try:
            if not self.collect_rollouts(self.env, watch, self.rollout_buffer, self.n_steps):
                return None
        except ValueError:
            # torch's distributions refuse nan parameters with a ValueError that says nothing of where they came from.
            check_parameters(self.policy)
            check_observations(self._last_obs)
            raise
        check_rollout(self.rollout_buffer)
        return RolloutSignals.read(self)

    def update(self) -> UpdateSignals | None:
        """One PPO update on the rollout buffer; None if a stop was asked meanwhile.

        The parameters are then half way between two updates, and only an earlier boundary may be saved. Raises
        `NonFiniteError`.
        """
        self._set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        clip = self._clip_ranges()
        signals = UpdateSignals(self.rollout_buffer.buffer_size * self.n_envs, self.batch_size, clip.policy)
        try:
            finished = self._descend(clip, signals)
        except ValueError:
            check_parameters(self.policy)
            raise
        if not finished:
            return None
        signals.check_finite()
        check_parameters(self.policy)
        self.lr_warmup.updated()
        return signals

    def _set_training_mode(self, mode: bool) -> None:
        self.policy.set_training_mode(mode)

    def train(self) -> None:
        """SB3's own entry to the update, so that its `learn` works on this class too."""
        self.update()

    def _descend(self, clip: ClipRanges, signals: UpdateSignals) -> bool:
        """All epochs over the buffer, fewer if `target_kl` is passed; False if a stop was asked."""
        # An easing that ends within this update gives the steps after its end the scheduled rate.
        eased, scheduled = not self.lr_warmup.over, self.policy.optimizer.param_groups[0]["lr"]
        for _ in range(self.n_epochs):
            signals.begin_epoch()
            beyond = False
            for batch in self._minibatches():
                if self.stop_asked():
                    return False
                losses = self._losses(batch, clip)
                signals.add(losses)
                beyond = self._beyond_target(losses.log_ratio)
                if beyond:
                    break
                if eased:
                    update_learning_rate(self.policy.optimizer, scheduled * self.lr_warmup.factor)
                    self.lr_warmup.stepped()
                signals.add_step(self._step(losses.loss))
            self._n_updates += 1
            if beyond:
                break
        return True

    def _minibatches(self) -> Iterator[Any]:
        """Those of one epoch, shuffled."""
        yield from self.rollout_buffer.get(self.batch_size)

    def _losses(self, batch: Any, clip: ClipRanges) -> Losses:
        values, evaluation = self._evaluate_batch(batch)
        advantages = self._normalized(batch.advantages)
        log_ratio = evaluation.log_prob - batch.old_log_prob
        ratio = th.exp(log_ratio)
        clipped = th.clamp(ratio, 1 - clip.policy, 1 + clip.policy)
        policy_loss = -th.min(advantages * ratio, advantages * clipped).mean()
        value_loss = self._value_loss(batch.returns, _value_prediction(values.flatten(), batch.old_values, clip))
        # Without a closed form SB3 estimates the entropy by the mean of -log_prob.
        entropy_loss = -th.mean(-evaluation.log_prob if evaluation.entropy is None else evaluation.entropy)
        if not self.ent_coef:
            # Zero times its gradient is zero: backward need not go there.
            entropy_loss = entropy_loss.detach()
        return Losses(
            loss=policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss,
            policy_gradient=policy_loss.detach(),
            value=value_loss.detach(),
            entropy=entropy_loss.detach(),
            log_ratio=log_ratio.detach(),
            heads=evaluation.heads,
            ceilings=evaluation.ceilings,
        )

    def _evaluate_batch(self, batch: Any) -> tuple[th.Tensor, ActionEvaluation]:
        """Values, shape (batch, 1), and what the policy says of the batch's actions."""
        discrete = isinstance(self.action_space, spaces.Discrete)
        actions = batch.actions.long().flatten() if discrete else batch.actions
        values, log_prob, entropy = self.policy.evaluate_actions(batch.observations, actions)
        return values, ActionEvaluation(log_prob, entropy, head_entropies(self.policy.action_dist))

    def _normalized(self, advantages: th.Tensor) -> th.Tensor:
        if self.normalize_advantage and len(advantages) > 1:
            return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        return advantages

    def _value_loss(self, returns: th.Tensor, predicted: th.Tensor) -> th.Tensor:
        return mse_loss(returns, predicted)

    def _beyond_target(self, log_ratio: th.Tensor) -> bool:
        if self.target_kl is None:
            return False
        approx_kl = th.mean((th.exp(log_ratio) - 1) - log_ratio)
        # In single precision, as SB3 compares.
        return bool(approx_kl.cpu().numpy() > 1.5 * self.target_kl)

    def _step(self, loss: th.Tensor) -> th.Tensor:
        """One optimizer step; returns the norm of the gradient before clipping."""
        self.policy.optimizer.zero_grad()
        self._differentiate(loss)
        norm = th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()
        return norm

    def _differentiate(self, loss: th.Tensor) -> None:
        loss.backward()  # type: ignore[no-untyped-call]

    def _clip_ranges(self) -> ClipRanges:
        progress = self._current_progress_remaining
        value = None if self.clip_range_vf is None else self.clip_range_vf(progress)  # type: ignore[operator]
        return ClipRanges(self.clip_range(progress), value)  # type: ignore[operator]

    def _update_info_buffer(self, infos: list[dict[str, Any]], dones: np.ndarray | None = None) -> None:
        super()._update_info_buffer(infos, dones)
        self.episodes.add(infos)

    def _excluded_save_params(self) -> list[str]:
        """What SB3's `save` leaves out: what its own `PPO` does not have."""
        return [*super()._excluded_save_params(), *_OURS]

    def _maybe_recommend_cpu(self, mlp_class_name: str = "ActorCriticPolicy") -> None:
        """SB3 warns when an MLP is trained on a GPU; here the device was asked for or chosen, and is recorded."""


def _value_prediction(values: th.Tensor, old_values: th.Tensor, clip: ClipRanges) -> th.Tensor:
    if clip.value is None:
        return values
    return old_values + th.clamp(values - old_values, -clip.value, clip.value)


class RolloutWatch(BaseCallback):
    """Between environment steps: ends the rollout when a stop is asked, and stops at the first bad reward.

    `others` hear everything too, and may end it as well.
    """

    def __init__(self, others: Callbacks | None = None) -> None:
        super().__init__()
        self.others = others

    def _on_rollout_start(self) -> None:
        if self.others is not None:
            self.others.on_rollout_start()

    def _on_step(self) -> bool:
        assert isinstance(self.model, Learner)
        # As they came: one nan would be in all of them once the normalizer's statistics have it.
        normalizer = self.model.get_vec_normalize_env()
        check_rewards(self.locals["rewards"] if normalizer is None else normalizer.get_original_reward())
        goes_on = not self.model.stop_asked()
        return (self.others is None or self.others.on_step()) and goes_on

    def _on_rollout_end(self) -> None:
        if self.others is not None:
            self.others.on_rollout_end()

    def update_locals(self, locals_: dict[str, Any]) -> None:
        """Take what a rollout knows and pass it on; unlike SB3's callbacks, without copying all of it."""
        self.locals = locals_
        if self.others is not None:
            self.others.update_locals(locals_)
