"""From a spec to the arguments of SB3's classes: schedules, batch plan, and a policy whose classes were looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise, VectorizedActionNoise
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.type_aliases import Schedule as Sb3Schedule
from stable_baselines3.common.utils import LinearSchedule

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs import sb3_algorithms
from mission_tui.fleet.specs.algorithm import POLICIES
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import PpoSpec, Schedule, Spec, other_settings
from mission_tui.trainer.named_parts import check_contrib, check_kwargs, find_named
from mission_tui.trainer.sb3_algorithms import learner_class

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
_GIVEN = ("observation_space", "action_space", "lr_schedule")
"""What a policy is made with, in this order; that of ARS without the last."""


def learner_arguments(spec: Spec) -> dict[str, Any]:
    """Keyword arguments for what trains `spec`, without environment, seed and device. Raises `PresetError`."""
    other, settings = sb3_algorithms.other_algorithm(spec.run.algo), other_settings(spec)
    if other is None or settings is None:
        return ppo_arguments(spec)
    return _other_arguments(other, settings)


def _other_arguments(other: sb3_algorithms.OtherAlgorithm, settings: sb3_algorithms.AlgorithmSpec) -> dict[str, Any]:
    """The names are the class's own, so all that is written otherwise is named here.

    The noise of actions is still its settings: it is made once the actions are known (`action_noise`).
    """
    check_contrib(other.name)
    arguments = {name: getattr(settings, name) for name in settings.__struct_fields__ if name != "net_arch"}
    for name in other.scheduled:
        arguments[name] = _schedule(arguments[name])
    arguments["policy"] = _policy(settings.policy, f"{other.name}.policy", other.policies)
    aliases = learner_class(other).policy_aliases
    arguments["policy_kwargs"] = _policy_kwargs(settings, arguments["policy"], f"{other.name}.policy_kwargs", aliases)
    if isinstance(settings, sb3_algorithms.OffPolicySpec):
        if settings.train_freq == "episode":
            arguments["train_freq"] = (1, "episode")
        if settings.optimize_memory_usage:
            # SB3 cannot tell timeouts apart in one array for both observations, and wants to be told so.
            arguments["replay_buffer_kwargs"] = {"handle_timeout_termination": False}
    return arguments


def action_noise(noise: sb3_algorithms.ActionNoise | None, components: int, n_envs: int) -> Any:
    """SB3's object for `noise` on so many components of an action, in so many environments; None for none."""
    if noise is None:
        return None
    kind = NormalActionNoise if noise.kind == "normal" else OrnsteinUhlenbeckActionNoise
    one = kind(mean=np.zeros(components), sigma=noise.std * np.ones(components))
    # SB3 does the same, but only when a training begins: what it drew last has a place to go back to before.
    return one if n_envs == 1 else VectorizedActionNoise(one, n_envs)


def ppo_arguments(spec: Spec) -> dict[str, Any]:
    """Keyword arguments for `PPO` by its own names, without environment, seed and device. Raises `PresetError`."""
    ppo = spec.ppo
    plan = plan_batch(spec)
    arguments: dict[str, Any] = {name: getattr(ppo, name) for name in _SAME_NAME}
    arguments["policy"] = _policy(ppo.policy, "ppo.policy", POLICIES[ppo.algo])
    arguments["batch_size"] = plan.batch_size
    arguments["n_epochs"] = plan.n_epochs
    arguments["learning_rate"] = _schedule(ppo.learning_rate)
    arguments["clip_range"] = _schedule(ppo.clip_range)
    arguments["clip_range_vf"] = None if ppo.clip_range_vf is None else _schedule(ppo.clip_range_vf)
    arguments["policy_kwargs"] = _policy_kwargs(ppo, arguments["policy"], "ppo.policy_kwargs", PPO.policy_aliases)
    return arguments


def _schedule(value: float | Schedule) -> float | Sb3Schedule:
    if isinstance(value, Schedule):
        return LinearSchedule(value.start, value.end, end_fraction=1.0)
    return float(value)


def _policy(name: str, key: str, valid: tuple[str, ...]) -> Any:
    if name in valid:
        return name
    if ":" in name:
        found = find_named(name, key)
        if not (isinstance(found, type) and issubclass(found, BasePolicy)):
            base = "ActorCriticPolicy" if key == "ppo.policy" else "BasePolicy"
            raise PresetError(f"{key} = '{name}' is no policy; it must be a class derived from {base}")
        return found
    raise PresetError(f"{key} = '{name}' is none of {', '.join(valid)}{nearest(name, valid)}")


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


def _policy_kwargs(
    settings: PpoSpec | sb3_algorithms.AlgorithmSpec, policy: Any, where: str, aliases: Mapping[str, Any]
) -> dict[str, Any]:
    """Keyword arguments for `policy`, a class or one of SB3's names. Raises `PresetError` naming the key."""
    kwargs = dict(settings.policy_kwargs)
    for key, kind in _CLASS_KEYS.items():
        if isinstance(kwargs.get(key), str):
            kwargs[key] = _class_named(kwargs[key], f"{where}.{key}", kind)
        _check_arguments(kwargs, key, kind, kind.usual if isinstance(policy, str) else None, where)
    if isinstance(settings.net_arch, Mapping):
        kwargs["net_arch"] = {part: list(sizes) for part, sizes in settings.net_arch.items()}
    elif settings.net_arch is not None:
        kwargs["net_arch"] = list(settings.net_arch)
    cls = aliases.get(policy) if isinstance(policy, str) else policy
    if cls is not None:
        check_kwargs(cls, kwargs, where, given=2 if isinstance(settings, sb3_algorithms.ArsSpec) else len(_GIVEN))
    return kwargs


def _class_named(name: str, key: str, kind: _ClassKey) -> Any:
    found = find_named(name if ":" in name else f"{kind.module}:{name.rpartition('.')[2]}", key)
    if not (isinstance(found, type) and issubclass(found, kind.base)):
        base = f"{kind.base.__module__}.{kind.base.__name__}"
        raise PresetError(f"{key} = '{name}' must be a class derived from {base}, and it is {found!r}"[:300])
    return found


def _check_arguments(kwargs: Mapping[str, Any], key: str, kind: _ClassKey, usual: type | None, where: str) -> None:
    cls, arguments = kwargs.get(key, usual), kwargs.get(kind.arguments or "")
    if isinstance(cls, type) and isinstance(arguments, Mapping):
        check_kwargs(cls, arguments, f"{where}.{kind.arguments}", given=kind.given)
