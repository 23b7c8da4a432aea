"""What one rollout and one update say about learning, by SB3's tags and ours; `docs/signals.md` defines each number.

Scalars of minibatches stay on the device until the update is over and are read once. A signal that does not exist for
this policy, or is not defined for this update, is absent. Nan and infinity are caught here: in rewards as they come, in
the rollout before the update, in parameters after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common import distributions
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import RolloutBuffer

from mission_tui.trainer.failures import NonFiniteEnvError, NonFiniteError
from mission_tui.trainer.ppo.optimizer import FlatAdam

if TYPE_CHECKING:
    from mission_tui.trainer.ppo import PPO, Losses


_SQUASHED_BOUND = 0.999
"""A tanh-squashed action never reaches 1; from here on the bound holds it."""
_EVERY = slice(None)


@dataclass(frozen=True, slots=True)
class RolloutSignals:
    """Read between rollout and update, while the buffer is as it was collected.

    `env_s` are the seconds in which environments were stepped; None where they were not timed.
    """

    metrics: dict[str, float]
    env_s: float | None = None

    @classmethod
    def read(cls, model: PPO) -> RolloutSignals:
        """The signals of the rollout that `model` has just collected."""
        metrics = episode_means(model)
        buffer = model.rollout_buffer
        returns = buffer.returns.astype(np.float64)
        if np.var(returns) > 0.0:
            metrics["train/explained_variance"] = float(1.0 - np.var(returns - buffer.values) / np.var(returns))
        if isinstance(model.action_space, spaces.Box):
            metrics["policy/actions_at_bound"] = share_at_bound(
                buffer.actions.reshape(-1, *model.action_space.shape), model.action_space, model.policy.squash_output
            )
        return cls(metrics)


def episode_means(model: BaseAlgorithm) -> dict[str, float]:
    """Of the last 100 episodes, as SB3 has them."""
    means: dict[str, float] = {}
    if model.ep_info_buffer:
        means["rollout/ep_rew_mean"] = float(np.mean([episode["r"] for episode in model.ep_info_buffer]))
        means["rollout/ep_len_mean"] = float(np.mean([episode["l"] for episode in model.ep_info_buffer]))
    if model.ep_success_buffer:
        means["rollout/success_rate"] = float(np.mean(model.ep_success_buffer))
    return means


def share_at_bound(actions: NDArray[Any], space: spaces.Box, squashed: bool) -> float:
    """Share of action components, shape (n, *space.shape), that lie on or beyond a bound before clipping."""
    if squashed:
        return float(np.mean(np.abs(actions) >= _SQUASHED_BOUND))
    return float(np.mean((actions <= space.low) | (actions >= space.high)))


class UpdateSignals:
    """Gathers the minibatches of one update over `transitions` transitions; nothing is computed before it is over."""

    _SCALARS = ("policy_gradient", "value", "entropy", "loss")
    _OF_RATIOS = ("clip_fraction", "approx_kl", "ratio_error")

    def __init__(self, transitions: int, batch_size: int, clip_range: float) -> None:
        self._minibatches_per_epoch = math.ceil(transitions / batch_size)
        self._clip_range = clip_range
        self._minibatches: list[Losses] = []
        self._norms: list[th.Tensor] = []
        self._last_epoch_start = 0

    def begin_epoch(self) -> None:
        """An epoch over the buffer starts."""
        self._last_epoch_start = len(self._minibatches)

    def add(self, losses: Losses) -> None:
        """Take one minibatch."""
        # Without its graph, which would keep every activation of the update alive.
        self._minibatches.append(losses._replace(loss=losses.loss.detach()))

    def add_step(self, gradient_norm: th.Tensor) -> None:
        """Take the gradient norm, before clipping, of the optimizer step that followed."""
        self._norms.append(gradient_norm.detach())

    def check_finite(self) -> None:
        """Raise `NonFiniteError` naming the first loss or gradient norm that is nan or infinite."""
        watched = {
            "policy gradient loss": self._column("policy_gradient"),
            "value loss": self._column("value"),
            "entropy loss": self._column("entropy"),
            "gradient norm": self._gradient_norms,
        }
        for name, values in watched.items():
            bad = np.flatnonzero(~np.isfinite(values))
            if bad.size:
                raise NonFiniteError(f"the {name} became {values[bad[0]]} in minibatch {bad[0] + 1} of the update")

    def read(self, model: PPO) -> dict[str, float]:
        """All signals of the update by tag."""
        kl = self._column("approx_kl")
        metrics = {
            "train/approx_kl": float(kl[self._last_epoch_start :].mean()),
            "train/approx_kl_all": float(kl.mean()),
            "train/clip_fraction": float(self._column("clip_fraction").mean()),
            "train/entropy_loss": float(self._column("entropy").mean()),
            "train/policy_gradient_loss": float(self._column("policy_gradient").mean()),
            "train/value_loss": float(self._column("value").mean()),
            "train/loss": float(self._column("loss")[-1]),
            "train/ratio_first": float(self._column("ratio_error")[0]),
            "train/ratio_max": 1.0 + float(self._column("ratio_error").max()),
            "train/n_epochs_done": len(self._norms) / self._minibatches_per_epoch,
            "train/n_updates": float(model._n_updates),
        }
        return metrics | self._of_gradient(model.max_grad_norm) | self._of_schedules(model) | self._of_policy(model)

    def _of_gradient(self, max_norm: float) -> dict[str, float]:
        norms = self._gradient_norms
        if not norms.size:
            return {}
        return {
            "train/grad_norm": float(norms.mean()),
            "train/grad_norm_max": float(norms.max()),
            "train/grad_clipped_share": float((norms > max_norm).mean()),
        }

    def _of_schedules(self, model: PPO) -> dict[str, float]:
        progress = model._current_progress_remaining
        metrics = {
            "train/learning_rate": float(model.policy.optimizer.param_groups[0]["lr"]),
            "train/clip_range": model.clip_range(progress),  # type: ignore[operator]
        }
        if model.clip_range_vf is not None:
            metrics["train/clip_range_vf"] = model.clip_range_vf(progress)  # type: ignore[operator]
        return metrics

    def _of_policy(self, model: PPO) -> dict[str, float]:
        metrics = _spread(model.policy)
        ratios = self._entropy_ratios(model.action_space)
        if ratios:
            metrics["policy/entropy_ratio"] = min(ratios)
        return metrics

    def _entropy_ratios(self, space: spaces.Space[Any]) -> list[float]:
        """Entropy over its maximum, per head of a discrete action space; heads without a choice have none."""
        entropies: Sequence[float]
        if heads := [losses.heads for losses in self._minibatches if losses.heads is not None]:
            entropies = th.stack(heads).double().mean(dim=0).tolist()
        elif isinstance(space, spaces.Discrete):
            entropies = [-float(self._column("entropy").mean())]
        else:
            return []
        pairs = zip(entropies, self._ceilings(space, len(entropies)), strict=True)
        return [entropy / ceiling for entropy, ceiling in pairs if ceiling > 0.0]

    def _ceilings(self, space: spaces.Space[Any], heads: int) -> list[float]:
        """The most that each head's mean entropy could be: log n of its choices, of those that were allowed if some."""
        if allowed := [losses.ceilings for losses in self._minibatches if losses.ceilings is not None]:
            ceilings: list[float] = th.stack(allowed).double().mean(dim=0).tolist()
            return ceilings
        match space:
            case spaces.Discrete():
                sizes = [int(space.n)]
            case spaces.MultiDiscrete():
                sizes = [int(n) for n in space.nvec]
            case _:
                sizes = [2] * heads
        return [math.log(n) for n in sizes]

    @cached_property
    def _table(self) -> NDArray[np.float64]:
        """One row per minibatch; the first look at it ends the gathering."""
        if numbers := [losses.numbers for losses in self._minibatches if losses.numbers is not None]:
            return np.asarray(th.stack(numbers).double().numpy())
        scalars = [th.stack([getattr(losses, name) for losses in self._minibatches]) for name in self._SCALARS]
        return np.asarray(th.stack([*scalars, *self._of_ratios()], dim=1).double().cpu().numpy())

    @th.no_grad()
    def _of_ratios(self) -> th.Tensor:
        """Clip fraction, approximate KL and largest distance of a ratio from 1; shape (3, minibatches)."""
        log_ratios = [losses.log_ratio for losses in self._minibatches]
        gathered = th.empty((len(self._OF_RATIOS), len(log_ratios)), device=log_ratios[0].device)
        sizes = [len(log_ratio) for log_ratio in log_ratios]
        for size in set(sizes):
            places = [place for place, other in enumerate(sizes) if other == size]
            rows = th.stack([log_ratios[place] for place in places])
            change = th.exp(rows) - 1
            distance = change.abs()
            gathered[0, places] = (distance > self._clip_range).float().mean(dim=1)
            gathered[1, places] = (change - rows).mean(dim=1)
            gathered[2, places] = distance.amax(dim=1)
        return gathered

    def _column(self, name: str) -> NDArray[np.float64]:
        column: NDArray[np.float64] = self._table[:, (*self._SCALARS, *self._OF_RATIOS).index(name)]
        return column

    @cached_property
    def _gradient_norms(self) -> NDArray[np.float64]:
        return np.asarray(th.stack(self._norms).double().cpu().numpy()) if self._norms else np.empty(0)


def head_entropies(distribution: Any, rows: th.Tensor | slice = _EVERY) -> th.Tensor | None:
    """Mean entropy of each head over `rows` of the batch, shape (heads,), for distributions with several."""
    with th.no_grad():
        if isinstance(distribution, distributions.MultiCategoricalDistribution):
            return th.stack([head.entropy()[rows].mean() for head in distribution.distribution])  # type: ignore[no-untyped-call]
        if isinstance(distribution, distributions.BernoulliDistribution):
            heads: th.Tensor = distribution.distribution.entropy()[rows].mean(dim=0)  # type: ignore[no-untyped-call]
            return heads
    return None


@th.no_grad()
def _spread(policy: Any) -> dict[str, float]:
    """Standard deviation of a Gaussian policy's actions, and for a state-independent one its ratio to the start."""
    if isinstance(policy.action_dist, distributions.StateDependentNoiseDistribution):
        return {
            "train/std": float(th.exp(policy.log_std).mean()),
            "policy/std": float(policy.action_dist.distribution.stddev.mean()),
        }
    if not isinstance(policy.action_dist, distributions.DiagGaussianDistribution):
        return {}
    std = th.exp(policy.log_std.detach())
    ratio = std / math.exp(policy.log_std_init)
    return {
        "train/std": float(std.mean()),
        "policy/std": float(std.mean()),
        "policy/std_min_ratio": float(ratio.min()),
        "policy/std_max_ratio": float(ratio.max()),
    }


def check_rewards(rewards: NDArray[np.floating[Any]]) -> None:
    """Raise `NonFiniteEnvError` naming the first environment whose reward is nan or infinite."""
    finite = np.isfinite(rewards)
    if 0 in finite.tobytes():  # asked at every step, and twice as fast as `all`
        lane = int(np.flatnonzero(~finite)[0])
        raise NonFiniteEnvError(f"the reward of environment {lane} became {rewards[lane]}")


def check_observations(observations: Any) -> None:
    """Raise `NonFiniteEnvError` naming the first environment with a nan or infinite observation, and its key."""
    parts = observations if isinstance(observations, dict) else {"": observations}
    for key, part in parts.items():
        finite = np.isfinite(part).reshape(len(part), -1).all(axis=1)
        if not finite.all():
            where, lane = f" '{key}'" if key else "", int(np.flatnonzero(~finite)[0])
            raise NonFiniteEnvError(f"the observation{where} of environment {lane} became nan or infinite")


def check_rollout(buffer: RolloutBuffer) -> None:
    """Raise `NonFiniteError` if what the policy said, or the advantages made of it and the rewards, is not finite."""
    for name in ("values", "log_probs", "advantages"):
        if not np.isfinite(getattr(buffer, name)).all():
            raise NonFiniteError(f"{name} of the rollout became nan or infinite")


def check_parameters(policy: th.nn.Module) -> None:
    """Raise `NonFiniteError` naming the first parameter that is nan or infinite."""
    optimizer = getattr(policy, "optimizer", None)
    # The others get no gradient, so one look at the vector does for what an update changed.
    if isinstance(optimizer, FlatAdam) and bool(th.isfinite(optimizer.vectors[0]).all()):
        return
    for name, parameter in policy.named_parameters():
        if not bool(th.isfinite(parameter).all()):
            raise NonFiniteError(f"parameter {name} became nan or infinite")
