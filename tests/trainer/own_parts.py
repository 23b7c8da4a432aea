"""What a user brings along for the trainer: callbacks, a policy, a features extractor."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

TOLD = ("actions", "rewards", "dones", "new_obs", "values", "log_probs", "clipped_actions", "n_steps", "obs_tensor")


class Diary(BaseCallback):
    """Writes down every call with what it was told, into `pages`, which outlives it."""

    pages: ClassVar[list[dict[str, Any]]] = []

    def _on_training_start(self) -> None:
        self._write("training_start", total=self.locals["total_timesteps"], envs=self.training_env.num_envs)

    def _on_rollout_start(self) -> None:
        self._write("rollout_start")

    def _on_step(self) -> bool:
        infos = [{key: value for key, value in info.items() if key != "episode"} for info in self.locals["infos"]]
        self._write("step", infos=[sorted(info) for info in infos], **self._told())
        return True

    def _on_rollout_end(self) -> None:
        self._write("rollout_end", progress=self.model._current_progress_remaining, **self._told())

    def _on_training_end(self) -> None:
        self._write("training_end")

    def _told(self) -> dict[str, Any]:
        assert all(name in self.locals and self.locals.get(name) is not None for name in TOLD)
        assert self.locals.get("nothing", 3) == 3
        told = {name: self.locals[name] for name in TOLD}
        return {name: value.tolist() if hasattr(value, "tolist") else value for name, value in told.items()}

    def _write(self, hook: str, **more: Any) -> None:
        self.pages.append({"hook": hook, "n_calls": self.n_calls, "num_timesteps": self.num_timesteps, **more})


class Logging(BaseCallback):
    """Logs under names of its own, under one of the trainer's, and what is no number."""

    def _on_step(self) -> bool:
        self.logger.record("mine/calls", self.n_calls)
        self.logger.record_mean("mine/mean", float(self.locals["n_steps"]))
        self.logger.record("train/approx_kl", 77.0)
        self.logger.record("mine/word", "seven")
        return True


class Raising(BaseCallback):
    """Raises in one hook."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self.hook = hook

    def _init_callback(self) -> None:
        self._raise_in("init_callback")

    def _on_training_start(self) -> None:
        self._raise_in("on_training_start")

    def _on_rollout_start(self) -> None:
        self._raise_in("on_rollout_start")

    def _on_step(self) -> bool:
        if self.num_timesteps > 128:
            self._raise_in("on_step")
        return True

    def _on_rollout_end(self) -> None:
        self._raise_in("on_rollout_end")

    def _on_training_end(self) -> None:
        self._raise_in("on_training_end")

    def _raise_in(self, hook: str) -> None:
        if hook == self.hook:
            np.linalg.inv(np.zeros((2, 2)))  # the line that is to be named


class Ending(BaseCallback):
    """Ends a training after some calls, by an answer of its choice."""

    def __init__(self, calls: int, answer: bool | None = False) -> None:
        super().__init__()
        self.calls, self.answer = calls, answer

    def _on_step(self) -> bool:
        return True if self.n_calls < self.calls else self.answer  # type: ignore[return-value]


class Forgetful(BaseCallback):
    """Whoever wrote it forgot to return anything."""

    def _on_step(self) -> bool:  # type: ignore[return]
        self.n = 1


class Counting(BaseCallback):
    """Counts in every way that a checkpoint can keep, and in one that it cannot."""

    seen: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, every: int = 10) -> None:
        super().__init__()
        self.every = every
        self.steps, self.history, self.by_name = 0, [0.0], {"odd": 0}
        self.total = np.zeros(2)
        self.unkept = {1, 2}

    def _on_training_start(self) -> None:
        held = {name: getattr(self, name) for name in ("n_calls", "every", "steps", "history", "by_name")}
        self.seen.append(deepcopy(held) | {"total": self.total.tolist(), "unkept": set(self.unkept)})

    def _on_step(self) -> bool:
        self.steps += 1
        self.by_name["odd"] += self.n_calls % 2
        self.total += 1.0
        self.unkept.add(3)
        if self.n_calls % self.every == 0:
            self.history.append(float(self.n_calls))
        return True


class Extractor(BaseFeaturesExtractor):
    """One layer of a width of one's choice."""

    def __init__(self, observation_space: spaces.Box, width: int = 6) -> None:
        super().__init__(observation_space, width)
        self.layer = th.nn.Linear(observation_space.shape[0], width)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        features: th.Tensor = th.sin(self.layer(observations))
        return features


class Doubting(ActorCriticPolicy):
    """Values everything at twice what its network says, by `forward` and by `evaluate_actions`."""

    def __init__(self, *args: Any, doubt: float = 2.0, **kwargs: Any) -> None:
        self.doubt = doubt
        super().__init__(*args, **kwargs)

    def forward(self, obs: Any, deterministic: bool = False) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        actions, values, log_prob = super().forward(obs, deterministic)
        return actions, self.doubt * values, log_prob

    def evaluate_actions(self, obs: Any, actions: th.Tensor) -> tuple[th.Tensor, th.Tensor, th.Tensor | None]:
        values, log_prob, entropy = super().evaluate_actions(obs, actions)
        return self.doubt * values, log_prob, entropy

    def predict_values(self, obs: Any) -> th.Tensor:
        return self.doubt * super().predict_values(obs)
