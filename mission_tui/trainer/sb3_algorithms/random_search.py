"""sb3-contrib's ARS, which has no gradients: in each iteration candidates around the weights play whole episodes, and
the weights move towards those that came to more. A round of a period is one iteration, of sb3-contrib's own operations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.callbacks import BaseCallback

from mission_tui.trainer.ppo.reference import RolloutWatch
from mission_tui.trainer.running_time import unstopped_s
from mission_tui.trainer.sb3_algorithms.periods import Period, PeriodLearner
from mission_tui.trainer.sb3_algorithms.replay import StopAskedError

_LOGGED = ("train/iterations", "train/delta_std", "train/learning_rate", "train/step_size", "rollout/return_std")
_TOLD = {"rewards": "rewards", "dones": "dones", "infos": "infos", "actions": "actions", "new_obs": "new_observations"}
"""What callbacks know of a step, by SB3's word in a rollout, and what `evaluate_policy` calls it."""


class SearchLearner(PeriodLearner):
    """Goes in front of `ARS`. A stop drops the iteration that is under way: its candidates are drawn again."""

    _played_s = 0.0

    def _round(self, watch: RolloutWatch, period: Period) -> bool:
        model: Any = self
        # ARS keeps the weights as one vector besides; a checkpoint and a clone put back those of the policy.
        model.weights = th.nn.utils.parameters_to_vector(self.policy.parameters()).detach()
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        try:
            model._do_one_update(watch, None)
        except StopAskedError:
            return False
        period.update_s += unstopped_s() - self._played_s
        period.take({tag: self.logger.name_to_value[tag] for tag in _LOGGED})
        return True

    def evaluate_candidates(self, candidate_weights: th.Tensor, callback: BaseCallback, async_eval: None) -> th.Tensor:
        """Their returns, as ARS has them; what it does with them is the update."""
        above: Any = super()
        returns: th.Tensor = above.evaluate_candidates(candidate_weights, callback, async_eval)
        self._played_s = unstopped_s()
        return returns

    def _trigger_callback(
        self, _locals: dict[str, Any], _globals: dict[str, Any], callback: BaseCallback, n_envs: int
    ) -> None:
        """After each step of a candidate. ARS does not ask what callbacks answer, nor what its environment says of an
        episode beyond return and length.
        """
        callback.update_locals({name: _locals[theirs] for name, theirs in _TOLD.items()})
        self._update_info_buffer([_locals["info"]], np.array([_locals["done"]]))
        self.num_timesteps += n_envs
        if not callback.on_step():
            raise StopAskedError

    def _mimic_monitor_wrapper(self, episode_rewards: np.ndarray, episode_lengths: np.ndarray) -> None:
        """Environments here say when an episode has ended; see `_trigger_callback`."""

    def _excluded_save_params(self) -> list[str]:
        # `load` makes the weights anew of the policy's.
        return [*super()._excluded_save_params(), "weights", "_played_s"]
