"""From a spec to the arguments of SB3's `PPO`: schedules, batch plan, network, and the words of `policy_kwargs`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.type_aliases import Schedule as Sb3Schedule
from stable_baselines3.common.utils import LinearSchedule

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.sizes import plan_batch
from mission_tui.fleet.spec import PpoSpec, Schedule, Spec
from mission_tui.trainer.env_ids import find_named

__all__ = ["POLICIES", "ppo_arguments"]

POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")

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
_CLASS_KEYS = {"activation_fn": "torch.nn", "optimizer_class": "torch.optim", "features_extractor_class": ""}
"""Keys of `policy_kwargs` that take a class, and the module in which a bare name is looked up."""


def ppo_arguments(spec: Spec) -> dict[str, Any]:
    """Keyword arguments for `PPO` by its own names, without environment, seed and device. Raises `PresetError`."""
    ppo = spec.ppo
    plan = plan_batch(spec)
    arguments: dict[str, Any] = {name: getattr(ppo, name) for name in _SAME_NAME}
    arguments["policy"] = _policy(ppo.policy)
    arguments["batch_size"] = plan.batch_size
    arguments["n_epochs"] = plan.n_epochs
    arguments["learning_rate"] = _schedule(ppo.learning_rate)
    arguments["clip_range"] = _schedule(ppo.clip_range)
    arguments["clip_range_vf"] = None if ppo.clip_range_vf is None else _schedule(ppo.clip_range_vf)
    arguments["policy_kwargs"] = _policy_kwargs(ppo)
    return arguments


def _schedule(value: float | Schedule) -> float | Sb3Schedule:
    if isinstance(value, Schedule):
        return LinearSchedule(value.start, value.end, end_fraction=1.0)
    return float(value)


def _policy(name: str) -> Any:
    if name in POLICIES:
        return name
    if ":" in name:
        return find_named(name, "ppo.policy")
    raise PresetError(f"ppo.policy = '{name}' is none of {', '.join(POLICIES)}{nearest(name, POLICIES)}")


def _policy_kwargs(ppo: PpoSpec) -> dict[str, Any]:
    kwargs = dict(ppo.policy_kwargs)
    for key, module in _CLASS_KEYS.items():
        if isinstance(kwargs.get(key), str):
            kwargs[key] = _class_named(kwargs[key], key, module)
    if isinstance(ppo.net_arch, Mapping):
        kwargs["net_arch"] = {part: list(sizes) for part, sizes in ppo.net_arch.items()}
    elif ppo.net_arch is not None:
        kwargs["net_arch"] = list(ppo.net_arch)
    return kwargs


def _class_named(name: str, key: str, module: str) -> Any:
    if ":" in name:
        return find_named(name, f"ppo.policy_kwargs.{key}")
    return find_named(f"{module}:{name.rpartition('.')[2]}", f"ppo.policy_kwargs.{key}")
