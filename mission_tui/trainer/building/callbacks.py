"""From `run.callbacks` to objects: classes found by name, tables with a `cls` made first, environments to play in made
like the run's own, with what differs written over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs
from stable_baselines3.common import callbacks as sb3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from mission_tui.errors import MissionError, PresetError, nearest, raised_by
from mission_tui.fleet.specs.spec import EnvSpec, Part, Spec, parse_part
from mission_tui.trainer.callbacks import Callbacks, NamedCallback
from mission_tui.trainer.named_parts import check_kwargs, find_named, parameters_of
from mission_tui.trainer.vec_env import build_vec_env, in_this_process

_EVAL_ENV = "eval_env"
_SAME = "same"
_RUN_DIR = "{run_dir}"
_SHIPPED = tuple(
    name
    for name, cls in vars(sb3).items()
    if isinstance(cls, type) and issubclass(cls, BaseCallback) and cls is not BaseCallback
)


def build_callbacks(spec: Spec, run_dir: Path, snapshot: Path | None, seed: int) -> Callbacks | None:
    """The callbacks of `spec.run`, None where it names none. Environments that they play in begin at `seed`.

    Raises `PresetError` naming the key for what cannot be found or made.
    """
    if not spec.run.callbacks:
        return None
    maker = _Maker(spec, run_dir, snapshot, seed)
    made = []
    try:
        for key, part in _keyed(spec):
            made.append(NamedCallback(key, part.cls.rpartition(":")[2], _inner_names(part), maker.make(part, key)))
    except BaseException:
        maker.close()
        raise
    return Callbacks(made, maker.envs)


def check_callbacks(spec: Spec) -> None:
    """Find every class that `run.callbacks` names, and look whether it takes its arguments; nothing is made.

    Raises `PresetError`.
    """
    for key, part in _keyed(spec):
        _check_part(spec, part, key)


def _check_part(spec: Spec, part: Part, key: str) -> None:
    cls = _class_of(part.cls, key)
    arguments = _with_env(cls, part.kwargs)
    check_kwargs(cls, arguments, f"{key}.kwargs")
    for name, value in arguments.items():
        _check_values(spec, value, f"{key}.kwargs.{name}", name)


def _check_values(spec: Spec, value: Any, key: str, name: str = "") -> None:
    if (inner := _as_part(value)) is not None:
        _check_part(spec, inner, key)
    elif name == _EVAL_ENV:
        _playing_spec(spec, _own_keys(value, key), key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _check_values(spec, item, f"{key}[{index}]")


def _keyed(spec: Spec) -> Iterator[tuple[str, Part]]:
    """Every callback with its key. Raises `PresetError` for what is none."""
    for index, part in enumerate(map(parse_part, spec.run.callbacks)):
        key = f"run.callbacks[{index}]"
        cls = _class_of(part.cls, key)
        if not (isinstance(cls, type) and issubclass(cls, BaseCallback)):
            said = getattr(cls, "__name__", cls)
            raise PresetError(f"{key}: {said} is no callback; it must be derived from SB3's BaseCallback")
        yield key, part


@dataclass(slots=True)
class _Maker:
    """Makes the objects of one run; `envs` are the environments that were made for them."""

    spec: Spec
    run_dir: Path
    snapshot: Path | None
    seed: int
    envs: list[VecEnv] = field(default_factory=list)

    def make(self, part: Part, key: str) -> Any:
        cls = _class_of(part.cls, key)
        written = _with_env(cls, part.kwargs)
        check_kwargs(cls, written, f"{key}.kwargs")
        arguments = {name: self._value(value, f"{key}.kwargs.{name}", name) for name, value in written.items()}
        try:
            return cls(**arguments)
        except (MissionError, MemoryError):
            raise
        except Exception as error:  # a constructor is foreign code and may raise anything
            raise PresetError(f"{key} = '{part.cls}' cannot be made: {raised_by(error)}") from error

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _value(self, value: Any, key: str, name: str = "") -> Any:
        if (inner := _as_part(value)) is not None:
            return self.make(inner, key)
        if name == _EVAL_ENV:
            return self._env(_own_keys(value, key), key)
        match value:
            case list():
                return [self._value(item, f"{key}[{index}]") for index, item in enumerate(value)]
            case str():
                return value.replace(_RUN_DIR, str(self.run_dir))
        return value

    def _env(self, own: Mapping[str, Any], key: str) -> VecEnv:
        """An environment like the run's, wrapped alike, that shows raw rewards and learns no statistics."""
        vec = build_vec_env(_playing_spec(self.spec, own, key), self.snapshot).vec
        self.envs.append(vec)
        if (normalizer := unwrap_vec_normalize(vec)) is not None:
            normalizer.training, normalizer.norm_reward = False, False
        vec.seed(self.seed + len(self.envs) - 1)
        return vec


def _with_env(cls: Callable[..., Any], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """What cannot be made without an environment to play in gets one like the run's."""
    parameters = parameters_of(cls) or ()
    wanted = any(it.name == _EVAL_ENV and it.default is it.empty for it in parameters)
    if isinstance(cls, type) and issubclass(cls, sb3.EvalCallback):
        # sb3-contrib's hands on whatever it is given.
        wanted = wanted or any(it.kind is it.VAR_KEYWORD for it in parameters)
    return {_EVAL_ENV: _SAME, **kwargs} if wanted else kwargs


def _own_keys(value: Any, key: str) -> Mapping[str, Any]:
    if value == _SAME:
        return {}
    if isinstance(value, dict):
        return value
    raise PresetError(f"{key} must be '{_SAME}', for an environment like the run's, or a table of what differs from it")


def _as_part(value: Any) -> Part | None:
    if not isinstance(value, dict) or "cls" not in value or not value.keys() <= {"cls", "kwargs"}:
        return None
    kwargs = value.get("kwargs", {})
    return Part(cls=str(value["cls"]), kwargs=kwargs) if isinstance(kwargs, dict) else None


def _class_of(name: str, key: str) -> Any:
    if ":" in name:
        return find_named(name, key)
    if name in _SHIPPED:
        return getattr(sb3, name)
    raise PresetError(f"{key} = '{name}' must be 'package.module:Class' or one of SB3's own{nearest(name, _SHIPPED)}")


def _inner_names(part: Part) -> tuple[str, ...]:
    """The names of the classes inside, at any depth."""
    found: list[str] = []
    for value in part.kwargs.values():
        for item in value if isinstance(value, list) else (value,):
            if (inner := _as_part(item)) is not None:
                found += [inner.cls.rpartition(":")[2], *_inner_names(inner)]
    return tuple(found)


def _playing_spec(spec: Spec, own: Mapping[str, Any], key: str) -> Spec:
    """`spec` with the keys `own` of its `env` replaced, on one lane unless they say how many, in this process.

    Raises `PresetError` naming `key` for keys that `[env]` does not have or take.
    """
    for name in own:
        if name not in EnvSpec.__struct_fields__:
            raise PresetError(f"unknown key {key}.{name[:60]}{nearest(name, EnvSpec.__struct_fields__)}")
    written = msgspec.to_builtins(spec.env) | {"n_workers": None} | dict(own)
    try:
        env = msgspec.convert(written, EnvSpec)
    except msgspec.ValidationError as error:
        raise PresetError(f"{key} does not fit [env]: {error}") from error
    lanes = env.n_envs if "n_envs" in own else 1
    run = structs.replace(spec.run, callbacks=())
    return in_this_process(structs.replace(spec, env=env, run=run), lanes, lanes)
