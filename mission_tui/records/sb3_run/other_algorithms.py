"""The zip of SAC, DQN and the other algorithms beside PPO: which it is, and its settings as a preset's tables.

The class of the policy and the names of the settings tell it; two that write alike are told by what they fix. Nothing
that was pickled is opened: of such a setting the default is taken, and a note says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, OffPolicySpec, OtherAlgorithm

_BY_MODULE = ("sac", "tqc", "crossq", "dqn", "qrdqn", "ars")
_SIGMA = re.compile(r"\[?\s*([0-9.]+(?:e[-+]?\d+)?)")
_SPELLED = frozenset(
    {"policy", "net_arch", "policy_kwargs", "learning_rate", "delta_std", "action_noise", "train_freq"}
)
"""Fields that the zip says in words of its own."""
_POLICIES = (("MultiInput", "MultiInputPolicy"), ("Cnn", "CnnPolicy"), ("Linear", "LinearPolicy"))
OPTIMIZERS = ("policy.optimizer.pth", "actor.optimizer.pth", "critic.optimizer.pth", "ent_coef_optimizer.pth")
"""The members that hold moments; each algorithm has some of them."""
MADE_BY_ITSELF: Mapping[str, frozenset[str]] = {
    "ddpg": frozenset({"n_critics"}),
    "a2c": frozenset({"optimizer_class", "optimizer_kwargs"}),
    "qrdqn": frozenset({"optimizer_class", "optimizer_kwargs"}),
}
"""Arguments of the policy that the algorithm itself gives, whoever trains with it."""


def algorithm_in(data: Mapping[str, Any]) -> OtherAlgorithm | None:
    """The algorithm whose model has such JSON; None for PPO and what is not known."""
    made = data.get("policy_class")
    module = str(made.get("__module__", "")) if isinstance(made, Mapping) else ""
    for name in _BY_MODULE:
        if module.endswith(f".{name}.policies"):
            return OTHERS[name]  # type: ignore[index]
    if module.endswith(".td3.policies"):
        # DDPG fixes what it has not: no delay, and next to no noise of the target.
        noise = data.get("target_policy_noise")
        is_ddpg = data.get("policy_delay") == 1 and data.get("target_noise_clip") == 0 and noise in (0, 0.1)
        return OTHERS["ddpg" if is_ddpg else "td3"]
    if "cg_max_steps" in data:
        return OTHERS["trpo"]
    rolled = "gae_lambda" in data and "n_epochs" not in data
    return OTHERS["a2c"] if rolled and module.endswith("common.policies") else None


def tables_of_other(
    other: OtherAlgorithm,
    data: Mapping[str, Any],
    schedule_in: Callable[[object], object],
    policy_kwargs: Mapping[str, Any],
    where: str,
    notes: list[str],
) -> dict[str, dict[str, Any]]:
    """The settings in `data` of the zip called `where`; `policy_kwargs` are read already, and `schedule_in` says what
    a schedule's description does, None where it is not written out.
    """
    table: dict[str, Any] = {}
    for field in msgspec.structs.fields(other.table):
        value = data.get(field.name)
        if field.name not in _SPELLED and isinstance(value, bool | int | float | str):
            table[field.name] = value
    for name in other.scheduled:
        # Of `delta_std` ARS keeps only what it made of it.
        said = data.get(name, data.get(f"{name}_schedule"))
        if (read := schedule_in(said)) is not None:
            table[name] = read
        elif said is not None:
            notes.append(_unopened(where, other.name, name))
    if issubclass(other.table, OffPolicySpec) and isinstance(data.get("train_freq"), Mapping):
        notes.append(_unopened(where, other.name, "train_freq"))
    if (noise := _noise(data.get("action_noise"))) is not None:
        table["action_noise"] = noise
    made = data.get("policy_class")
    named = str(made.get("__init__", "")) if isinstance(made, Mapping) else ""
    table["policy"] = next((policy for word, policy in _POLICIES if word in named), "MlpPolicy")
    kwargs = {name: it for name, it in policy_kwargs.items() if name not in MADE_BY_ITSELF.get(other.name, ())}
    if "net_arch" in kwargs:
        table["net_arch"] = kwargs.pop("net_arch")
    if kwargs:
        table["policy_kwargs"] = kwargs
    return {other.name: table, "run": {"algo": other.name}}


def _noise(said: object) -> dict[str, Any] | None:
    if not isinstance(said, Mapping):
        return None
    match = _SIGMA.match(str(said.get("_sigma", "")))
    kind = "ornstein-uhlenbeck" if "OrnsteinUhlenbeck" in str(said.get(":type:", "")) else "normal"
    return None if match is None or float(match[1]) <= 0.0 else {"kind": kind, "std": float(match[1])}


def _unopened(where: str, table: str, name: str) -> str:
    return (
        f"{where}: {name} was an object, which is not opened: SB3's default is taken, and --set {table}.{name}=... "
        "says another"
    )


def check_same(others: Sequence[OtherAlgorithm | None], where: str) -> OtherAlgorithm | None:
    """The one algorithm of all. Raises `PresetError` where models of several are in one folder."""
    names = {None if it is None else it.called for it in others}
    if len(names) > 1:
        said = ", ".join(sorted(name or "PPO" for name in names))
        raise PresetError(f"{where}: holds models of several algorithms ({said}); give each a folder of its own")
    return others[0] if others else None
