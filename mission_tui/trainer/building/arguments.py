"""From a spec to the arguments of SB3's `PPO`: schedules, batch plan and policy."""

from __future__ import annotations

from typing import Any

from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule as Sb3Schedule
from stable_baselines3.common.utils import LinearSchedule

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs.algorithm import POLICIES
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import PpoSpec, Schedule, Spec
from mission_tui.trainer.building.policy_kwargs import policy_kwargs
from mission_tui.trainer.named_classes import find_named

__all__ = ["ppo_arguments"]

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
    arguments["policy_kwargs"] = policy_kwargs(ppo, arguments["policy"])
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
