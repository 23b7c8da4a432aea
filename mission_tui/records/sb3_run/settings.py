"""What an SB3 run folder says of the settings it was trained with, as the tables of a preset.

The zoo's `config.yml` and `args.yml` count most, then the JSON in the newest model's zip, then the columns of the log,
and of CleanRL's log its table of arguments.
What none of them says is SB3's default.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mission_tui.errors import CheckpointError, PresetError, UsageError
from mission_tui.fleet.events.metrics import UpdateDone
from mission_tui.fleet.specs.env_ids import package_of
from mission_tui.fleet.specs.sb3_algorithms import OtherAlgorithm, other_algorithm
from mission_tui.fleet.specs.spec import PpoSpec, Schedule
from mission_tui.plain_files import open_named
from mission_tui.records.logs.event_files import cleanrl_arguments
from mission_tui.records.logs.log import LogError, recognize_in_rows, settings_in
from mission_tui.records.sb3_run.folder import Sb3Folder
from mission_tui.records.sb3_run.normalizer_file import normalize_of
from mission_tui.records.sb3_run.zip_file import algorithm_in, check_same, settings_of_zip, tables_of_zip, unopened
from mission_tui.records.sb3_run.zoo_settings import (
    YamlError,
    arguments_table,
    atari_packages,
    read_yaml,
    tables_of_zoo,
)

Tables = dict[str, dict[str, Any]]
_YAML_CHARACTERS = 1 << 20


class FoundSettings(Struct, frozen=True):
    """Tables of a preset; `source` is the file that said most of it; `notes` are what could not be taken over."""

    tables: Tables
    source: Path
    notes: tuple[str, ...] = field(default=())


def find_settings(folder: Sb3Folder, updates: Sequence[UpdateDone], *, zips: bool, env: bool = True) -> FoundSettings:
    """The settings; with `zips` models are asked too, without `env` the environment is not looked for.

    Raises `PresetError` naming the file that cannot be used, and for a folder that does not say on which environment
    it was trained.
    """
    notes: list[str] = []
    models = _models(folder.zips) if zips else {}
    newest = max(models, key=lambda path: _steps(models[path]), default=None)
    layers: list[Tables] = [_of_cleanrl(folder.events), _of_log(updates)]
    unread: list[str] = []
    if newest is not None:
        layers.append(tables_of_zip(models[newest], newest.name, unread))
    arguments = _yaml(folder.arguments)
    if folder.settings is not None:
        layers.append(tables_of_zoo(_yaml(folder.settings), str(folder.settings), notes))
    layers.append(arguments_table(arguments, str(folder.arguments), notes))
    tables: Tables = {"env": {}, "ppo": {}, "run": {}}
    for layer in layers:
        for name, values in layer.items():
            tables[name] = tables.get(name, {}) | values
    if (other := _other(tables, updates, [models[path] for path in models], folder)) is not None:
        return _of_other(other, tables, folder, updates, notes + unread, newest, zips=zips, env=env)
    if newest is not None:
        said = {unopened(newest.name, name) for name in tables["ppo"]}
        notes[:0] = [note for note in unread if note not in said]
    if env and "id" not in tables["env"]:
        tables["env"]["id"] = _env_of(folder)
    _complete(tables, folder, updates, notes, zips=zips)
    source = folder.settings or newest or folder.table or folder.path
    return FoundSettings(tables, source, tuple(notes))


def _other(
    tables: Tables, updates: Sequence[UpdateDone], models: Sequence[Mapping[str, Any]], folder: Sb3Folder
) -> OtherAlgorithm | None:
    """The algorithm beside PPO that trained, by the zoo's `args.yml`, the models, or what the log tells."""
    if (said := other_algorithm(tables["run"].get("algo"))) is not None:
        return said
    if models:
        return check_same([algorithm_in(data) for data in models], str(folder.path))
    told = recognize_in_rows(updates)
    name = None if told is None or told.algorithm is None else told.algorithm.name.lower()
    return other_algorithm(name)


def _of_other(
    other: OtherAlgorithm,
    tables: Tables,
    folder: Sb3Folder,
    updates: Sequence[UpdateDone],
    notes: list[str],
    newest: Path | None,
    *,
    zips: bool,
    env: bool,
) -> FoundSettings:
    """The settings of another algorithm: what the zip says, else its defaults."""
    if folder.settings is not None:
        source = "its defaults" if newest is None else newest.name
        notes.append(f"{folder.settings.name} is not read for {other.called}: settings are those of {source}")
    elif newest is None:
        notes.append(
            f"the log does not say with which settings {other.called} was trained: SB3's defaults stand for them"
        )
    found: Tables = {name: tables.get(name, {}) for name in ("env", "run", other.name)}
    found["run"]["algo"] = other.name
    if env and "id" not in found["env"]:
        found["env"]["id"] = _env_of(folder)
    if "n_envs" not in found["env"]:
        found["env"]["n_envs"] = max(1, len(folder.monitors))
    if "total_timesteps" not in found["run"] and updates:
        found["run"]["total_timesteps"] = updates[-1].timesteps
    if "normalize" not in found["env"] and folder.statistics:
        found["env"]["normalize"] = normalize_of(folder.statistics[-1]) if zips else True
    return FoundSettings(found, newest or folder.table or folder.path, tuple(notes))


def _complete(
    tables: Tables, folder: Sb3Folder, updates: Sequence[UpdateDone], notes: list[str], *, zips: bool
) -> None:
    """What only the rest of the folder tells: how many environments, the rollout, the budget, and the normalizer."""
    env, ppo, run = tables["env"], tables["ppo"], tables["run"]
    rollout = settings_in(updates).rollout
    if "n_envs" not in env:
        env["n_envs"] = max(1, len(folder.monitors))
    is_count = type(env["n_envs"]) is int and env["n_envs"] > 0  # anything else is refused as every preset's is
    if "n_steps" not in ppo and rollout is not None and is_count:
        if rollout % env["n_envs"] or not folder.monitors:
            env["n_envs"] = 1
            notes.append(
                f"how many environments there were is not said: the log's updates of {rollout:,} steps are taken as 1 "
                "environment's; --set env.n_envs and ppo.n_steps say it better"
            )
        ppo["n_steps"] = rollout // env["n_envs"]
    _fit_minibatch(env, ppo, notes)
    if "total_timesteps" not in run:
        last = updates[-1].timesteps if updates else 0
        if last:
            run["total_timesteps"] = last
    if "normalize" not in env and folder.statistics:
        # Its moments are of use to weights alone.
        env["normalize"] = normalize_of(folder.statistics[-1]) if zips else True
    if (package := package_of(str(env.get("id")))) is not None:
        # The zoo imports it without a word in its settings.
        env["imports"] = list(dict.fromkeys((*env.get("imports", ()), package, *atari_packages(env))))


def _fit_minibatch(env: Mapping[str, Any], ppo: dict[str, Any], notes: list[str]) -> None:
    """A minibatch larger than the rollout is the whole rollout: SB3 takes one slice, which ends with the rollout."""
    n_envs, n_steps, size = env["n_envs"], ppo.get("n_steps", PpoSpec().n_steps), ppo.get("batch_size")
    if not all(type(it) is int and it > 0 for it in (n_envs, n_steps, size)) or size <= n_envs * n_steps:
        return
    ppo["batch_size"] = n_envs * n_steps
    notes.append(
        f"batch_size = {size:,} is larger than the rollout of {n_envs * n_steps:,}, which SB3 then takes as "
        f"one minibatch: taken over as {n_envs * n_steps:,}"
    )


def _env_of(folder: Sb3Folder) -> str:
    """By a monitor's first line, or the zoo's name of the folder (`CartPole-v1_3`, with settings in `CartPole-v1`)."""
    for path in folder.monitors:
        try:
            with os.fdopen(open_named(path), encoding="utf-8", errors="replace") as file:
                said = json.loads(file.readline(4096).removeprefix("#"))["env_id"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(said, str) and said not in ("", "None"):
            return said
    match = re.fullmatch(r"(.+-v\d+)_\d+", folder.path.name)
    if match is not None:
        return match[1]
    raise PresetError(
        f"{folder.path}: nothing in it says on which environment it was trained (args.yml, the first line of a "
        "monitor.csv, a folder name such as CartPole-v1_1): say it with --set env.id=..., or take --preset"
    )


def _of_log(updates: Sequence[UpdateDone]) -> Tables:
    known = settings_in(updates)
    said = {"learning_rate": known.learning_rate, "n_epochs": known.n_epochs}
    ppo: dict[str, Any] = {name: _written(value) for name, value in said.items() if value is not None}
    if any("train/clip_range" in row.metrics for row in updates):
        ppo["clip_range"] = _written(known.clip_range)
    return {"ppo": ppo}


_OF_CLEANRL = {
    "num_envs": "env.n_envs", "num_steps": "ppo.n_steps", "minibatch_size": "ppo.batch_size",
    "update_epochs": "ppo.n_epochs", "gamma": "ppo.gamma", "gae_lambda": "ppo.gae_lambda",
    "clip_coef": "ppo.clip_range", "norm_adv": "ppo.normalize_advantage", "ent_coef": "ppo.ent_coef",
    "vf_coef": "ppo.vf_coef", "max_grad_norm": "ppo.max_grad_norm", "target_kl": "ppo.target_kl", "seed": "run.seed",
    "total_timesteps": "run.total_timesteps",
}  # fmt: skip
_COUNTS = {"n_envs": 1, "n_steps": 1, "batch_size": 1, "n_epochs": 1, "total_timesteps": 1, "seed": 0}
"""The least that each may be."""
_HALF_OF_SQUARES = 0.5
"""CleanRL's loss of the values, where SB3's is the mean of the squares: its coefficient is of half of them."""


def _of_cleanrl(events: Sequence[Path]) -> Tables:
    """What CleanRL's script says of its arguments. Its rate is in the log, also where it goes down."""
    try:
        words = cleanrl_arguments(events)
    except LogError:
        words = {}  # whoever reads its rows says it
    tables: Tables = {}
    for theirs, ours in _OF_CLEANRL.items():
        table, _, name = ours.partition(".")
        value = _plain(words.get(theirs, ""))
        if name in _COUNTS and (type(value) is not int or value < _COUNTS[name]):
            continue
        if value is not None:
            tables.setdefault(table, {})[name] = value * _HALF_OF_SQUARES if name == "vf_coef" else value
    if env_id := words.get("env_id", words.get("gym_id")):
        tables["env"] = {**tables.get("env", {}), "id": env_id}
    if words.get("clip_vloss") == "True" and "clip_range" in tables.get("ppo", {}):
        tables["ppo"]["clip_range_vf"] = tables["ppo"]["clip_range"]
    return tables


def _plain(word: str) -> int | float | bool | None:
    """The finite number or the truth that `word` is; None for all else, as for Python's None."""
    if word in ("True", "False"):
        return word == "True"
    try:
        value = int(word) if re.fullmatch(r"[0-9]{1,15}", word) else float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _written(value: object) -> object:
    return {"start": value.start, "end": value.end} if isinstance(value, Schedule) else value


def _models(zips: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """What the zips say that can be read. Raises `CheckpointError` when there are some and none can."""
    models: dict[Path, dict[str, Any]] = {}
    first: CheckpointError | None = None
    for path in zips:
        try:
            models[path] = settings_of_zip(path)
        except CheckpointError as error:
            first = first or error
    if first is not None and not models:
        raise first
    return models


def _steps(data: Mapping[str, Any]) -> int:
    steps = data.get("num_timesteps")
    return steps if type(steps) is int else -1


def _yaml(path: Path | None) -> object:
    if path is None:
        return None
    try:
        with os.fdopen(open_named(path), encoding="utf-8") as file:
            return read_yaml(file.read(_YAML_CHARACTERS))
    except (YamlError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read as the settings of a run: {error}") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
