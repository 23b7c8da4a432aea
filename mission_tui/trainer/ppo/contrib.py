"""sb3-contrib's MaskablePPO and RecurrentPPO with their numbers untouched, and all that our PPO offers around them.

Policies, buffers and rollouts are sb3-contrib's own; the update is the reference's, which does the same operations in
the same order. With masks, entropy is compared with the most that the allowed actions left, not with that of all
actions. Padded sequences count by their real transitions; what the LSTMs remember of the episodes under way belongs to
a boundary like the environments' state.
"""

from __future__ import annotations

from typing import Any, ClassVar

import sb3_contrib
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.envs.masks import choices
from mission_tui.trainer.ppo.losses import ActionEvaluation, ClipRanges, Losses
from mission_tui.trainer.ppo.reference import PPO
from mission_tui.trainer.ppo.signals import head_entropies
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env.build import MaskedVecEnv
from mission_tui.trainer.vec_env.episodes import Act

_SCALARS = ("old_values", "old_log_prob", "advantages", "returns")


class MaskablePPO(PPO):
    """A `PPO` whose environments say at every step which of their discrete actions are allowed."""

    algo: ClassVar[str] = "maskable_ppo"
    policy_aliases: ClassVar[Any] = sb3_contrib.MaskablePPO.policy_aliases
    policy: Any

    def _setup_model(self) -> None:
        sb3_contrib.MaskablePPO._setup_model(self)
        assert self.env is not None
        self._masked = MaskedVecEnv(self.env)

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Step all environments `n_rollout_steps` times; False if `callback` ended that. Raises `EnvError`."""
        asked = self._masked if env is self._masked.venv else MaskedVecEnv(env)
        filled = sb3_contrib.MaskablePPO.collect_rollouts(
            self, asked, callback, rollout_buffer, n_rollout_steps, use_masking
        )
        return bool(filled)

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """SB3's `predict`; with `action_masks`, of shape (n_envs, choices of all heads), one of the allowed actions."""
        predicted: tuple[NDArray[Any], tuple[NDArray[Any], ...] | None] = self.policy.predict(
            observation, state, episode_start, deterministic, action_masks=action_masks
        )
        return predicted

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_masked"]

    def player(self, env: VecEnv, *, deterministic: bool) -> Act:
        masked = MaskedVecEnv(env)
        return lambda observations, _: self.policy.predict(
            observations, deterministic=deterministic, action_masks=masked.masks()
        )[0]

    def _evaluate_batch(self, batch: Any) -> tuple[th.Tensor, ActionEvaluation]:
        discrete = isinstance(self.action_space, spaces.Discrete)
        actions = batch.actions.long().flatten() if discrete else batch.actions
        values, log_prob, entropy = self.policy.evaluate_actions(
            batch.observations, actions, action_masks=batch.action_masks
        )
        return values, ActionEvaluation(log_prob, entropy, *self._of_heads(batch.action_masks))

    @th.no_grad()
    def _of_heads(self, masks: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Mean entropy of each head, and the mean of the most that it could be."""
        judged = self.policy.action_dist
        heads = [judged.distribution] if isinstance(self.action_space, spaces.Discrete) else judged.distributions
        allowed = th.split(masks.float(), choices(self.action_space), dim=1)
        return (
            th.stack([head.entropy().mean() for head in heads]),
            th.stack([part.sum(dim=1).log().mean() for part in allowed]),
        )


class RecurrentPPO(PPO):
    """A `PPO` whose actor and critic remember, in LSTMs, the episode so far."""

    algo: ClassVar[str] = "recurrent_ppo"
    policy_aliases: ClassVar[Any] = sb3_contrib.RecurrentPPO.policy_aliases
    policy: Any
    _last_lstm_states: Any = None

    def _setup_model(self) -> None:
        sb3_contrib.RecurrentPPO._setup_model(self)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """Step all environments `n_rollout_steps` times; False if `callback` ended that."""
        filled = sb3_contrib.RecurrentPPO.collect_rollouts(self, env, callback, rollout_buffer, n_rollout_steps)
        return bool(filled)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_last_lstm_states"]

    def player(self, env: VecEnv, *, deterministic: bool) -> Act:
        states: Any = None

        def act(observations: Any, starts: Any) -> Any:
            nonlocal states
            actions, states = self.predict(observations, states, starts, deterministic)
            return actions

        return act

    def memory(self) -> Tree | None:
        """Hidden and cell states of both LSTMs, each of shape (layers, n_envs, hidden units)."""
        actor, critic = self._last_lstm_states
        return {
            name: [part.detach().cpu().numpy().copy() for part in states]
            for name, states in {"pi": actor, "vf": critic}.items()
        }

    def remember(self, memory: Tree) -> None:
        actor, critic = (tuple(th.tensor(part, device=self.device) for part in memory[name]) for name in ("pi", "vf"))
        self._last_lstm_states = RNNStates(actor, critic)

    def _losses(self, batch: Any, clip: ClipRanges) -> Losses:
        # Sequences are padded to one length; what was added there is nobody's transition.
        real = batch.mask > 1e-8
        kept = {name: getattr(batch, name)[real] for name in _SCALARS}
        return super()._losses(batch._replace(mask=real, **kept), clip)

    def _evaluate_batch(self, batch: Any) -> tuple[th.Tensor, ActionEvaluation]:
        discrete = isinstance(self.action_space, spaces.Discrete)
        # As floats, which is what switches are judged by; sb3-contrib 2.9.2 hands them on as bytes and fails.
        actions = batch.actions.long().flatten() if discrete else batch.actions.float()
        values, log_prob, entropy = self.policy.evaluate_actions(
            batch.observations, actions, batch.lstm_states, batch.episode_starts
        )
        real = batch.mask
        heads = head_entropies(self.policy.action_dist, real)
        return values.flatten()[real], ActionEvaluation(
            log_prob[real], None if entropy is None else entropy[real], heads
        )

    def _value_loss(self, returns: th.Tensor, predicted: th.Tensor) -> th.Tensor:
        # As sb3-contrib writes it: its gradient is rounded otherwise than that of `mse_loss`.
        return ((returns - predicted) ** 2).mean()
