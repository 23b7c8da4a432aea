"""The zip that SB3's `save` writes, as far as it can be looked at without torch: its members, and the JSON in it.

Every size is checked before anything is read; serialized objects in the JSON stay text, and the
tables of a preset are made of its words alone.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from mission_tui.errors import CheckpointError, PresetError
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, OffPolicySpec, OtherAlgorithm
from mission_tui.plain_files import open_named
from mission_tui.records.sb3_run.zoo_settings import called

_BY_MODULE = ("sac", "tqc", "crossq", "dqn", "qrdqn", "ars")
_SIGMA = re.compile(r"\[?\s*([0-9.]+(?:e[-+]?\d+)?)")
_SPELLED = frozenset(
    {"policy", "net_arch", "policy_kwargs", "learning_rate", "delta_std", "action_noise", "train_freq"}
)
"""Fields that the zip says in words of its own."""
_POLICY_KINDS = (("MultiInput", "MultiInputPolicy"), ("Cnn", "CnnPolicy"), ("Linear", "LinearPolicy"))
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
    table["policy"] = next((policy for word, policy in _POLICY_KINDS if word in named), "MlpPolicy")
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


FILE_BYTES = 1 << 30
"""The largest zip that is looked at: weights and two moments of ninety million parameters."""

DATA_BYTES = 16 << 20
"""Of the JSON, and of the structure of one file of tensors; real ones have some kilobytes."""

_DATA, _POLICY = "data", "policy.pth"
_IGNORED = frozenset({"pytorch_variables.pth", "_stable_baselines3_version", "system_info.txt"})
_PLAIN = (
    "n_steps", "batch_size", "n_epochs", "gamma", "gae_lambda", "normalize_advantage", "ent_coef", "vf_coef",
    "max_grad_norm", "use_sde", "sde_sample_freq", "target_kl",
)  # fmt: skip
_SCHEDULES = ("learning_rate", "clip_range", "clip_range_vf")
_OF_PPO = frozenset(("n_steps", "clip_range", "n_epochs"))
_POLICIES = {
    "ActorCriticPolicy": ("ppo", "MlpPolicy"),
    "ActorCriticCnnPolicy": ("ppo", "CnnPolicy"),
    "MultiInputActorCriticPolicy": ("ppo", "MultiInputPolicy"),
    "MaskableActorCriticPolicy": ("maskable_ppo", "MlpPolicy"),
    "MaskableActorCriticCnnPolicy": ("maskable_ppo", "CnnPolicy"),
    "MaskableMultiInputActorCriticPolicy": ("maskable_ppo", "MultiInputPolicy"),
    "RecurrentActorCriticPolicy": ("recurrent_ppo", "MlpLstmPolicy"),
    "RecurrentActorCriticCnnPolicy": ("recurrent_ppo", "CnnLstmPolicy"),
    "RecurrentMultiInputActorCriticPolicy": ("recurrent_ppo", "MultiInputLstmPolicy"),
}
"""The algorithm and the name of the policy, by the class that was saved."""
_MADE_BY = re.compile(r"<function (\w+)\.__init__")
_NUMBER = r"([-+]?\d{1,20}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)"
_CONSTANT = re.compile(rf"ConstantSchedule\(val={_NUMBER}\)")
_LINEAR = re.compile(rf"LinearSchedule\(start={_NUMBER}, end={_NUMBER}, end_fraction={_NUMBER}\)")
ACTIVATION = "Tanh"
"""What SB3's policies of PPO have between their layers where nothing else is asked for."""
_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>")


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip at `path`, its members checked. Raises `CheckpointError` naming what does not belong into an SB3 zip,
    also for what goes wrong while it is read.
    """
    try:
        size = path.stat().st_size
        if not path.is_file() or size > FILE_BYTES:
            raise CheckpointError(f"{path} is not a file of at most {FILE_BYTES >> 20} MiB, so it is not opened")
        with os.fdopen(open_named(path), "rb") as file, zipfile.ZipFile(file) as archive:
            members = checked_members(archive.infolist(), size, path.name)
            # Each file of tensors is a zip itself, whose list of members is found where the outer one is missing.
            if members and min(member.header_offset for member in members) > 0:
                raise CheckpointError(f"{path.name} is cut short, as by a copy that was not finished: copy it again")
            _check_names(members, path.name)
            yield archive
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} is not a zip that Stable-Baselines3 writes: {error}") from error
    except (MemoryError, RecursionError) as error:
        raise CheckpointError(f"{path} asks for more memory than a model of its size needs; it was not read") from error


def settings_of_zip(path: Path) -> dict[str, Any]:
    """The JSON in the zip at `path`. Raises `CheckpointError`."""
    with opened_zip(path) as archive:
        return read_data(archive, path.name)


def read_data(archive: zipfile.ZipFile, where: str) -> dict[str, Any]:
    """The JSON in an open zip called `where`. Raises `CheckpointError`."""
    if archive.getinfo(_DATA).file_size > DATA_BYTES:
        raise CheckpointError(f"{where}: {_DATA} is larger than {DATA_BYTES >> 20} MiB")
    data = json.loads(archive.read(_DATA))
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: data is not a JSON object")
    return data


def checked_members(members: Iterable[zipfile.ZipInfo], size: int, where: str) -> list[zipfile.ZipInfo]:
    """Members that are plain, stored, of different names, and together no larger than the file that holds them.

    Raises `CheckpointError` for others; `where` names the file in it.
    """
    listed = list(members)
    for member in listed:
        mode = member.external_attr >> 16
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
            raise CheckpointError(f"{where} holds a compressed or encrypted member; Stable-Baselines3 writes neither")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise CheckpointError(f"{where} holds a member that is no plain file, such as a link")
    if len({member.filename for member in listed}) < len(listed):
        raise CheckpointError(f"{where} holds two members of one name")
    if sum(member.file_size for member in listed) > size:
        raise CheckpointError(f"{where} claims to hold more than its own size")
    return listed


def _check_names(members: list[zipfile.ZipInfo], where: str) -> None:
    names = {member.filename for member in members}
    optimizers = names.intersection(OPTIMIZERS)
    if missing := {_DATA, _POLICY} - names:
        raise CheckpointError(f"{where} has no {min(missing)}: it is not what `PPO.save` writes")
    if odd := names - {_DATA, _POLICY, *optimizers} - _IGNORED:
        raise CheckpointError(f"{where} holds {min(odd)[:60]!r}, which `PPO.save` does not write")


def tables_of_zip(data: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, dict[str, Any]]:
    """The settings in `data` of the zip called `where`; what cannot be read as text is added to `notes`.

    Raises `PresetError` for the model of another algorithm.
    """
    if (other := algorithm_in(data)) is not None:
        return _of_other(other, data, where, notes)
    if missing := _OF_PPO - data.keys():
        raise PresetError(
            f"{where}: is no model of PPO (its settings have no {min(missing)}), nor of {', '.join(OTHERS)}; only "
            "those are taken over"
        )
    ppo = {name: data[name] for name in _PLAIN if isinstance(data.get(name), int | float)}
    for name in _SCHEDULES:
        value = _schedule(data.get(name))
        if value is not None:
            ppo[name] = value
        elif data.get(name) is not None:
            notes.append(unopened(where, name))
    ppo |= _policy(data, where, notes)
    return {"env": _env(data), "ppo": ppo, "run": _totals(data)}


def _of_other(
    other: OtherAlgorithm, data: Mapping[str, Any], where: str, notes: list[str]
) -> dict[str, dict[str, Any]]:
    kwargs = _kwargs(data, where, notes)
    tables = tables_of_other(other, data, _schedule, kwargs, where, notes)
    return {**tables, "env": _env(data), "run": tables["run"] | _totals(data)}


def _env(data: Mapping[str, Any]) -> dict[str, Any]:
    return {"n_envs": data["n_envs"]} if type(data.get("n_envs")) is int else {}


def _totals(data: Mapping[str, Any]) -> dict[str, Any]:
    # A model that was saved without having learned here, such as an export of ours, has a total of 0.
    totals = {"total_timesteps": data.get("_total_timesteps") or None, "seed": data.get("seed")}
    return {name: it for name, it in totals.items() if type(it) is int and it >= 0}


def unopened(where: str, name: str) -> str:
    """The note on a schedule that the zip called `where` holds as a function."""
    return (
        f"{where}: {name} was a function, which is not opened: SB3's default is taken, and --set ppo.{name}=... says "
        "another"
    )


def _schedule(value: object) -> object:
    """A number, or what the description of a schedule says; None for anything that is not written out."""
    if isinstance(value, int | float):
        return value
    said = str(value.get("value_schedule", "")) if isinstance(value, Mapping) else ""
    if match := _CONSTANT.search(said):
        return float(match[1])
    if (match := _LINEAR.search(said)) and float(match[3]) == 1.0:
        return {"start": float(match[1]), "end": float(match[2])}
    if isinstance(value, Mapping) and {"start", "end", "end_fraction"} <= value.keys():
        return _schedule(
            {"value_schedule": "LinearSchedule(start={start}, end={end}, end_fraction={end_fraction})".format(**value)}
        )
    return None


def _policy(data: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    made = data.get("policy_class")
    match = _MADE_BY.match(str(made.get("__init__", ""))) if isinstance(made, Mapping) else None
    if match is not None and match[1] in _POLICIES:
        said["algo"], said["policy"] = _POLICIES[match[1]]
    elif match is not None:
        notes.append(f"{where}: its policy is a {match[1]}; say which with --set ppo.policy=package.module:{match[1]}")
    kept = _kwargs(data, where, notes)
    if "net_arch" in kept:
        said["net_arch"] = kept.pop("net_arch")
    return said | ({"policy_kwargs": kept} if kept else {})


def _kwargs(data: Mapping[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """The policy's arguments, as far as they are data."""
    kwargs = data.get("policy_kwargs")
    kept: dict[str, Any] = {}
    for name, value in kwargs.items() if isinstance(kwargs, Mapping) else ():
        if name.startswith(":") or name == "use_sde":
            continue
        read = _described(value)
        if read is None and value not in (None, "None"):
            notes.append(f"{where}: policy_kwargs.{name} is more than data, and is not taken over")
        elif read is not None:
            kept[name] = read
    return kept


def activation_of(data: Mapping[str, Any]) -> str | None:
    """The class of the policy's activation, without its module: SB3's own where the zip says none, None if unclear."""
    kwargs = data.get("policy_kwargs")
    said = kwargs.get("activation_fn", ACTIVATION) if isinstance(kwargs, Mapping) else ACTIVATION
    match = _CLASS.fullmatch(str(said))
    return ACTIVATION if said == ACTIVATION else match[1][:60] if match else None


def _described(value: object) -> object:
    """Beside something that was pickled everything is written as `str` gave it."""
    if not isinstance(value, str):
        return value
    if match := _CLASS.fullmatch(value):
        return match[1]
    return called(value)
