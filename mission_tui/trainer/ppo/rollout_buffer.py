"""The rollout where it is learned from: every array is allocated once, on the device, and never transposed.

On a CPU the tensors and the NumPy arrays that environments and signals speak are the same memory. Minibatches hold the
transitions that SB3's `RolloutBuffer` would put into them, in its order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import RolloutBuffer

Observation = th.Tensor | dict[str, th.Tensor]

_SIGNED: dict[Any, th.dtype] = {np.dtype(np.uint16): th.int32, np.dtype(np.uint32): th.int64}
"""torch stores these types but cannot select from them."""


class Minibatch(NamedTuple):
    """Transitions drawn for one optimizer step, under the names of SB3's `RolloutBufferSamples`."""

    observations: Observation
    actions: th.Tensor
    old_values: th.Tensor
    old_log_prob: th.Tensor
    advantages: th.Tensor
    returns: th.Tensor


class _StepArray:
    """One array of a rollout, shape (steps, lanes, *shape), filled from the host step by step."""

    def __init__(self, steps: int, lanes: int, shape: tuple[int, ...], dtype: th.dtype, device: th.device) -> None:
        self.tensor = th.zeros((steps, lanes, *shape), dtype=dtype, device=device)
        self._rows, self._shape = self.tensor.unbind(0), (lanes, *shape)
        # One staging row is enough: before it is written again, the actions of its step have been read back.
        self._stage = (
            None if device.type == "cpu" else th.zeros((lanes, *shape), dtype=dtype, pin_memory=device.type == "cuda")
        )
        self._array = (self.tensor if self._stage is None else self._stage).numpy()

    def put(self, step: int, values: NDArray[Any] | th.Tensor) -> th.Tensor:
        """Keep `values` as row `step`; returns the row."""
        row = self._rows[step]
        if isinstance(values, th.Tensor):
            row.copy_(values.view(row.shape))
        elif self._stage is None:
            self._array[step] = values if values.shape == self._shape else values.reshape(self._shape)
        else:
            self._array[...] = values.reshape(self._shape)
            row.copy_(self._stage, non_blocking=True)
        return row

    def select(self, order: th.Tensor) -> th.Tensor:
        return self.tensor.flatten(0, 1).index_select(0, order)


class ResidentBuffer(RolloutBuffer):
    """SB3's `RolloutBuffer` by its interface to `PPO`; filled by `add_observations`, `add_rewards` and `add_values`
    instead of `add`.

    `values`, `log_probs`, `advantages`, `returns` and `rewards` are host arrays of shape (steps, lanes).
    """

    _observed: _StepArray | dict[str, _StepArray]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._allocated = False
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        self.pos, self.full = 0, False
        if self._allocated:
            return
        self._allocated = True
        steps, lanes, on_host = self.buffer_size, self.n_envs, self.device.type == "cpu"
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            self._observed = {name: self._step_array(part) for name, part in space.spaces.items()}
        else:
            self._observed = self._step_array(space)
        chosen = th.int64 if isinstance(self.action_space, spaces.Discrete | spaces.MultiDiscrete) else th.float32
        self._chosen = _StepArray(steps, lanes, (self.action_dim,), chosen, self.device)
        self._scalars = th.zeros((4, steps, lanes), device=self.device)
        self._host = self._scalars if on_host else th.zeros((4, steps, lanes), pin_memory=self.device.type == "cuda")
        self.values, self.log_probs, self.advantages, self.returns = self._host.numpy()
        self.rewards = np.zeros((steps, lanes), dtype=np.float32)
        self.episode_starts = np.zeros((steps, lanes), dtype=np.float32)
        # SB3 numbers transitions lane by lane; here they lie step by step.
        self._places = np.arange(steps * lanes).reshape(steps, lanes).T.ravel()

    def _step_array(self, space: spaces.Space[Any]) -> _StepArray:
        kind = np.dtype(space.dtype)
        dtype = _SIGNED.get(kind) or th.from_numpy(np.zeros(0, dtype=kind)).dtype
        return _StepArray(self.buffer_size, self.n_envs, space.shape or (), dtype, self.device)

    def add_observations(self, step: int, observation: Any, episode_starts: NDArray[Any]) -> Observation:
        """Keep what the environments show before `step`, shape (lanes, ...), and `episode_starts`, shape (lanes,);
        returns the observations on the device.
        """
        self.episode_starts[step] = episode_starts
        if isinstance(self._observed, dict):
            return {name: part.put(step, observation[name]) for name, part in self._observed.items()}
        return self._observed.put(step, observation)

    def add_rewards(self, step: int, actions: NDArray[Any] | th.Tensor, rewards: NDArray[Any]) -> None:
        """Keep what was done at `step`, shape (lanes, ...), and what it earned, time-limit values included.

        On a card actions are best given as they were chosen there.
        """
        self._chosen.put(step, actions)
        self.rewards[step] = rewards
        self.pos = step + 1
        self.full = self.pos == self.buffer_size

    def observations_and_actions(self) -> tuple[Observation, th.Tensor]:
        """All observations and actions, shape (steps * lanes, ...), step by step, on the device."""
        actions = self._chosen.tensor.flatten(0, 1)
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.flatten()
        if isinstance(self._observed, dict):
            return {name: part.tensor.flatten(0, 1) for name, part in self._observed.items()}, actions
        return self._observed.tensor.flatten(0, 1), actions

    def transitions(self) -> Minibatch:
        """All of them, step by step."""
        return Minibatch(*self.observations_and_actions(), *self._scalars.flatten(1).unbind(0))

    def add_values(self, values: th.Tensor, log_probs: th.Tensor) -> None:
        """Keep what the policy thought of `observations_and_actions`, each of shape (steps * lanes,)."""
        self._scalars[0].copy_(values.view(self._scalars[0].shape))
        self._scalars[1].copy_(log_probs.view(self._scalars[1].shape))

    def observations_by_step(self) -> Iterator[Any]:
        """The observations of every step, on the host."""
        for step in range(self.pos):
            if isinstance(self._observed, dict):
                yield {name: part.tensor[step].cpu().numpy() for name, part in self._observed.items()}
            else:
                yield self._observed.tensor[step].cpu().numpy()

    def compute_returns_and_advantage(self, last_values: th.Tensor, dones: NDArray[Any]) -> None:
        """GAE(lambda), https://arxiv.org/abs/1506.02438, by SB3's operations; all but its recursion is done at once."""
        self.actions = self._chosen.tensor.cpu().numpy()
        self._host[:2].copy_(self._scalars[:2])
        going_on = 1.0 - np.concatenate([self.episode_starts[1:], dones[None].astype(np.float32)])
        following = np.concatenate([self.values[1:], last_values.cpu().numpy().reshape(1, -1)])
        deltas = self.rewards + self.gamma * following * going_on - self.values
        decay = self.gamma * self.gae_lambda * going_on
        last = np.zeros(self.n_envs, dtype=np.float32)
        for step in reversed(range(self.buffer_size)):
            last = np.add(deltas[step], decay[step] * last, out=self.advantages[step])
        np.add(self.advantages, self.values, out=self.returns)
        if self._host is not self._scalars:
            self._scalars[2:].copy_(self._host[2:], non_blocking=True)

    def get(self, batch_size: int | None = None) -> Generator[Any, None, None]:
        """Minibatches of one epoch, shuffled with NumPy's global generator as SB3 does."""
        total = self.buffer_size * self.n_envs
        order = th.from_numpy(self._places[np.random.permutation(total)]).to(self.device)
        # Observations are selected per minibatch: a shuffled copy of a rollout of images might not fit beside it.
        scalars = self._scalars.flatten(1).index_select(1, order)
        actions = self._chosen.select(order)
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.flatten()
        size = batch_size or total
        for start in range(0, total, size):
            chosen = slice(start, start + size)
            yield Minibatch(self._observations(order[chosen]), actions[chosen], *scalars[:, chosen].unbind(0))

    def orders(self, batch_size: int) -> Iterator[th.Tensor]:
        """The places, shape (batch,), among all `transitions`, of those of each minibatch that `get` would yield."""
        total = self.buffer_size * self.n_envs
        order = th.from_numpy(self._places[np.random.permutation(total)]).to(self.device)
        for start in range(0, total, batch_size):
            yield order[start : start + batch_size]

    def gathered(self, order: th.Tensor) -> Minibatch:
        """The transitions at `order`, shape (batch,), of `orders`."""
        actions = self._chosen.select(order)
        if isinstance(self.action_space, spaces.Discrete):
            actions = actions.flatten()
        scalars = self._scalars.flatten(1).index_select(1, order)
        return Minibatch(self._observations(order), actions, *scalars.unbind(0))

    def _observations(self, order: th.Tensor) -> Observation:
        if isinstance(self._observed, dict):
            return {name: part.select(order) for name, part in self._observed.items()}
        return self._observed.select(order)
