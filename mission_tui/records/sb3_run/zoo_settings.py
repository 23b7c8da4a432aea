"""The zoo's `config.yml` and `args.yml` as the tables of a preset: its words are read, none is evaluated."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import LARGEST_SEED

Tables = dict[str, dict[str, Any]]
_PPO = frozenset(("policy", "gamma", "gae_lambda", "normalize_advantage", "ent_coef", "vf_coef", "max_grad_norm"))
_PPO |= {"use_sde", "target_kl", "n_steps", "batch_size", "n_epochs", "sde_sample_freq", "stats_window_size"}
_SCHEDULES = frozenset(("learning_rate", "clip_range", "clip_range_vf"))
_COUNTS = frozenset(("n_steps", "batch_size", "n_epochs", "sde_sample_freq", "stats_window_size"))
_LINEAR = re.compile(r"lin_([-+0-9.eE]+)")
_ALGORITHMS = {"ppo": "ppo", "ppo_lstm": "recurrent_ppo"}
_SILENT = frozenset(["verbose", "tensorboard_log", "device", "seed"])
_NORMALIZE = {"norm_obs": "obs", "norm_reward": "reward", "clip_obs": "clip_obs", "clip_reward": "clip_reward"}
_ATARI = "stable_baselines3.common.atari_wrappers.AtariWrapper"
_OUR_ATARI = "mission_tui.envs.atari:AtariWrapper"
"""The same without torch in the workers."""


def tables_of_zoo(said: object, where: str, notes: list[str]) -> Tables:
    """The settings in `config.yml`, called `where` in messages; what cannot be taken over is added to `notes`.

    Raises `PresetError` for a file that is no table of settings.
    """
    env: dict[str, Any] = {"n_envs": 1}
    ppo: dict[str, Any] = {}
    run: dict[str, Any] = {}
    for key, value in _pairs(said, where).items():
        if key in _SILENT or (value is None and key not in _PPO):
            continue
        if key in _SCHEDULES:
            ppo[key] = _schedule(value, f"{where}: {key}")
        elif key in _PPO:
            ppo[key] = _whole(value) if key in _COUNTS else value
        elif key == "policy_kwargs":
            ppo |= _policy(value, where, notes)
        elif key == "n_timesteps":
            run["total_timesteps"] = _whole(value)
        elif key in ("n_envs", "frame_stack"):
            env[key] = _whole(value)
        elif key in ("normalize", "normalize_kwargs"):
            env["normalize"] = _normalize(value, env.get("normalize", False))
        elif key == "env_wrapper":
            env["wrappers"] = _wrappers(value, where, notes)
        elif key == "env_kwargs":
            env["kwargs"] = called(value) if isinstance(value, str) else value
        else:
            notes.append(f"{where}: {key} is not taken over")
    return {"env": env, "ppo": {name: it for name, it in ppo.items() if it is not None}, "run": run}


def arguments_table(said: object, where: str, notes: list[str]) -> Tables:
    """The environment, its arguments and the seed in `args.yml`. Raises `PresetError` for another algorithm's run."""
    if said is None:
        return {}
    words = _pairs(said, where)
    algo = words.get("algo", "ppo")
    if algo not in _ALGORITHMS and algo not in OTHERS:
        known = ", ".join((*_ALGORITHMS, *OTHERS))
        raise PresetError(f"{where}: algo = {str(algo)[:40]!r}; only runs of {known} are taken over")
    env: dict[str, Any] = {}
    run: dict[str, Any] = {}
    if isinstance(words.get("env"), str):
        env["id"] = words["env"]
    if isinstance(words.get("env_kwargs"), dict) and words["env_kwargs"]:
        env["kwargs"] = words["env_kwargs"]
    if isinstance(seed := words.get("seed"), int) and 0 <= seed <= LARGEST_SEED:
        run["seed"] = seed
    # The zoo writes -1 for "as config.yml says".
    if isinstance(total := words.get("n_timesteps"), int | float) and total > 0:
        run["total_timesteps"] = int(total)
    packages = words.get("gym_packages")
    if isinstance(packages, list) and packages:
        env["imports"] = [str(it) for it in packages]
    if words.get("trained_agent"):
        notes.append(f"{where}: it went on from {str(words['trained_agent'])[:80]}, which is not part of it")
    if algo in OTHERS:
        return {"env": env, "run": {**run, "algo": algo}}
    ppo = {} if algo == "ppo" else {"algo": _ALGORITHMS[algo]}
    return {"env": env, "ppo": ppo, "run": run}


def atari_packages(env: Mapping[str, Any]) -> tuple[str, ...]:
    """What the wrapper of Atari's games, if it is one of the table's, needs besides them."""
    named = [it["cls"] if isinstance(it, Mapping) else it for it in env.get("wrappers", ())]
    return ("cv2",) if _OUR_ATARI in named else ()


def called(text: str) -> object:
    """The value of an expression of literals, `dict(...)` and names, which become text; None for anything more."""
    try:
        return _literal(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _literal(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return -value
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {str(_literal(key)): _literal(it) for key, it in zip(keys, values, strict=True) if key is not None}
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return {word.arg: _literal(word.value) for word in keywords if word.arg is not None}
        case ast.Name() | ast.Attribute():
            return ast.unparse(node)
        case _:
            raise ValueError(ast.unparse(node))


def _pairs(said: object, where: str) -> dict[str, Any]:
    """A table, also as the list of pairs that an ordered dictionary is written as."""
    if isinstance(said, list) and len(said) == 1 and isinstance(said[0], list):
        said = said[0]
    if isinstance(said, list) and all(isinstance(it, list) and len(it) == 2 and isinstance(it[0], str) for it in said):
        return {key: _unwrapped(value) for key, value in said}
    if isinstance(said, Mapping):
        return {str(key): _unwrapped(value) for key, value in said.items()}
    raise PresetError(f"{where}: holds no table of settings")


def _unwrapped(value: object) -> object:
    """An ordered dictionary inside another."""
    pairs = value[0] if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) else None
    if pairs and all(isinstance(it, list) and len(it) == 2 and isinstance(it[0], str) for it in pairs):
        return {key: _unwrapped(inner) for key, inner in pairs}
    return value


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _schedule(value: object, where: str) -> object:
    if not isinstance(value, str):
        return value
    match = _LINEAR.fullmatch(value.strip())
    try:
        return {"start": float(match[1]), "end": 0.0} if match is not None else float(value)
    except ValueError:
        raise PresetError(f"{where} = {value[:40]!r} is neither a number nor lin_ and a number") from None


def _policy(value: object, where: str, notes: list[str]) -> dict[str, Any]:
    """`policy_kwargs` with the network apart, as presets have it."""
    kwargs = called(value) if isinstance(value, str) else value
    if not isinstance(kwargs, dict):
        if value:
            notes.append(f"{where}: policy_kwargs = {str(value)[:80]} is more than data, and is not taken over")
        return {}
    kwargs = dict(kwargs)
    said: dict[str, Any] = {}
    net = kwargs.pop("net_arch", None)
    if isinstance(net, list) and len(net) == 1 and isinstance(net[0], dict):
        net = net[0]  # as SB3 wrote it before 1.8
    if net is not None:
        said["net_arch"] = net
    if isinstance(activation := kwargs.get("activation_fn"), str):
        kwargs["activation_fn"] = activation.rpartition(".")[2]
    return said | ({"policy_kwargs": kwargs} if kwargs else {})


def _normalize(value: object, before: object) -> object:
    said = called(value) if isinstance(value, str) else value
    if isinstance(said, Mapping):
        return {ours: said[name] for name, ours in _NORMALIZE.items() if name in said} or before
    return before if said and before else bool(said)


def _wrappers(value: object, where: str, notes: list[str]) -> list[Any]:
    written = value if isinstance(value, list) else [value]
    wrappers: list[Any] = []
    for item in written:
        name, kwargs = next(iter(item.items())) if isinstance(item, dict) and item else (item, None)
        module, _, cls = str(name).rpartition(".")
        if not module:
            notes.append(f"{where}: env_wrapper {str(name)[:60]} is not taken over")
            continue
        named = _OUR_ATARI if name == _ATARI else f"{module}:{cls}"
        wrappers.append({"cls": named, "kwargs": kwargs} if isinstance(kwargs, dict) and kwargs else named)
    return wrappers
