"""From a spec to the arguments of SB3's `PPO`: schedules, batch plan, and a policy whose classes were looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule as Sb3Schedule
from stable_baselines3.common.utils import LinearSchedule

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs.algorithm import POLICIES
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import PpoSpec, Schedule, Spec
from mission_tui.trainer.named_parts import check_kwargs, find_named

_SAME_NAME = (
    "n_steps",
    "gamma",
    "gae_lambda",
    "normalize_advantage",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
    "use_sde",
    "sde_sample_freq",
    "target_kl",
    "stats_window_size",
)
_KEY = "ppo.policy_kwargs"
_SPACES_AND_SCHEDULE = 3
"""A policy is made with observation space, action space and learning rate, in this order."""


def ppo_arguments(spec: Spec) -> dict[str, Any]:
    """Keyword arguments for `PPO` by its own names, without environment, seed and device. Raises `PresetError`."""
    ppo = spec.ppo
    plan = plan_batch(spec)
    arguments: dict[str, Any] = {name: getattr(ppo, name) for name in _SAME_NAME}
    arguments["policy"] = _policy(ppo)
    arguments["batch_size"] = plan.batch_size
    arguments["n_epochs"] = plan.n_epochs
    arguments["learning_rate"] = _schedule(ppo.learning_rate)
    arguments["clip_range"] = _schedule(ppo.clip_range)
    arguments["clip_range_vf"] = None if ppo.clip_range_vf is None else _schedule(ppo.clip_range_vf)
    arguments["policy_kwargs"] = _policy_kwargs(ppo, arguments["policy"])
    return arguments


def _schedule(value: float | Schedule) -> float | Sb3Schedule:
    if isinstance(value, Schedule):
        return LinearSchedule(value.start, value.end, end_fraction=1.0)
    return float(value)


def _policy(ppo: PpoSpec) -> Any:
    name, valid = ppo.policy, POLICIES[ppo.algo]
    if name in valid:
        return name
    if ":" in name:
        found = find_named(name, "ppo.policy")
        if not (isinstance(found, type) and issubclass(found, BasePolicy)):
            raise PresetError(f"ppo.policy = '{name}' is no policy; it must be a class derived from ActorCriticPolicy")
        return found
    raise PresetError(f"ppo.policy = '{name}' is none of {', '.join(valid)}{nearest(name, valid)}")


@dataclass(frozen=True, slots=True)
class _ClassKey:
    """A key that takes a class derived from `base`: a bare name is looked up in `module`. The key `arguments` says with
    what that class is made, besides `given` positional ones.
    """

    module: str
    base: type
    arguments: str | None = None
    given: int = 0
    usual: type | None = None


_CLASS_KEYS = {
    "activation_fn": _ClassKey("torch.nn", th.nn.Module),
    "optimizer_class": _ClassKey("torch.optim", th.optim.Optimizer, "optimizer_kwargs", 2, th.optim.Adam),
    "features_extractor_class": _ClassKey(
        "stable_baselines3.common.torch_layers", BaseFeaturesExtractor, "features_extractor_kwargs", 1
    ),
}


def _policy_kwargs(ppo: PpoSpec, policy: Any) -> dict[str, Any]:
    """Keyword arguments for `policy`, a class or one of SB3's names. Raises `PresetError` naming the key."""
    kwargs = dict(ppo.policy_kwargs)
    for key, kind in _CLASS_KEYS.items():
        if isinstance(kwargs.get(key), str):
            kwargs[key] = _class_named(kwargs[key], f"{_KEY}.{key}", kind)
        _check_arguments(kwargs, key, kind, kind.usual if isinstance(policy, str) else None)
    if isinstance(ppo.net_arch, Mapping):
        kwargs["net_arch"] = {part: list(sizes) for part, sizes in ppo.net_arch.items()}
    elif ppo.net_arch is not None:
        kwargs["net_arch"] = list(ppo.net_arch)
    cls = PPO.policy_aliases.get(policy) if isinstance(policy, str) else policy
    if cls is not None:
        check_kwargs(cls, kwargs, _KEY, given=_SPACES_AND_SCHEDULE)
    return kwargs


def _class_named(name: str, key: str, kind: _ClassKey) -> Any:
    found = find_named(name if ":" in name else f"{kind.module}:{name.rpartition('.')[2]}", key)
    if not (isinstance(found, type) and issubclass(found, kind.base)):
        base = f"{kind.base.__module__}.{kind.base.__name__}"
        raise PresetError(f"{key} = '{name}' must be a class derived from {base}, and it is {found!r}"[:300])
    return found


def _check_arguments(kwargs: Mapping[str, Any], key: str, kind: _ClassKey, usual: type | None) -> None:
    cls, arguments = kwargs.get(key, usual), kwargs.get(kind.arguments or "")
    if isinstance(cls, type) and isinstance(arguments, Mapping):
        check_kwargs(cls, arguments, f"{_KEY}.{kind.arguments}", given=kind.given)
