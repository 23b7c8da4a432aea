"""The callbacks of a run: made from `run.callbacks`, and called as one, in order and with what SB3 gives them; who
raises or ends it is named.

Classes are found by name, tables with a `cls` are made first, and environments to play in like the run's own, with
what differs written over it.

What costs something of their `locals` is worked out when somebody asks for it. What they log is gathered for the row
of the update: the trainer's own figures win over theirs of the same name, and SB3's clock readings are left out.

What they have counted is kept with checkpoints: their plain attributes that changed since they were made. SB3 keeps
nothing of them, so after a resume its own would forget the best mean and count their calls anew. What never changed
comes from the preset, so that a resume may change it; what is no plain value is made anew as SB3 would.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs
from stable_baselines3.common import callbacks as sb3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from mission_tui.errors import MissionError, PresetError, nearest, raised_by
from mission_tui.fleet.events.metrics import plain
from mission_tui.fleet.specs.spec import EnvSpec, Part, Spec, parse_part
from mission_tui.forks import leave_fork
from mission_tui.trainer.failures import CallbackError, complain, is_library
from mission_tui.trainer.named_parts import check_kwargs, find_named, parameters_of
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env import build_vec_env, in_this_process

_ENDLESS = sys.maxsize
"""The total of a training that ends by the clock: whoever divides by it sees no progress."""
_OURS = f"{Path(__file__).parents[1]}/"
_LATE = ("values", "log_probs")
_FROM = ("obs_tensor", "chosen")

StepValues = Callable[[Any, Any], tuple[Any, Any]]
_CLOCK = frozenset({"time/iterations", "time/fps", "time/time_elapsed", "time/total_timesteps"})
_SHOWN = "train/"
"""SB3 leaves the figures of an update with its logger until the next rollout is over."""

_NOT_THEIRS = frozenset({"num_timesteps", "locals", "globals", "model", "parent", "verbose"})
LONG_S = 1.0
_MOST = 10_000
"""Values in one attribute: a boundary copies them before every rollout."""


class CallbackLocals(dict[str, Any]):
    """The dictionary that callbacks know as `locals`. The fast engine does not need to know what the critic says before
    a rollout is over, so `step_values` computes it for the observations and actions of the step, if `values` are looked
    at.
    """

    def __init__(self, known: Mapping[str, Any], step_values: StepValues | None) -> None:
        super().__init__(known)
        self._step_values = step_values

    def drop_step(self, known: Mapping[str, Any]) -> None:
        """`known` is of a new step: what was worked out for the one before is out of date."""
        for name in _LATE:
            if name not in known:
                self.pop(name, None)

    def __missing__(self, name: str) -> Any:
        if self._step_values is None or not self._can_say(name):
            raise KeyError(name)
        self["values"], self["log_probs"] = self._step_values(*(self[name] for name in _FROM))
        return self[name]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._can_say(name)

    def get(self, name: str, default: Any = None) -> Any:
        """As a dictionary's own, which would not ask for what is missing."""
        try:
            return self[name]
        except KeyError:
            return default

    def _can_say(self, name: object) -> bool:
        return self._step_values is not None and name in _LATE and all(map(super().__contains__, _FROM))


class RowLog(KVWriter):
    """The only output of `logger`."""

    def __init__(self) -> None:
        self.logger = Logger(None, [self])
        self._dumped: dict[str, Any] = {}
        self._shown: frozenset[str] = frozenset()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Take what somebody dumped."""
        self._dumped |= key_values

    def close(self) -> None:
        """Nothing is open."""

    def take(self) -> dict[str, Any]:
        """What was logged since the last time."""
        logged = self._dumped | self.logger.name_to_value
        self._dumped = {}
        for kept in (self.logger.name_to_value, self.logger.name_to_count, self.logger.name_to_excluded):
            kept.clear()
        return {name: value for name, value in logged.items() if name not in _CLOCK and name not in self._shown}

    def report_rest(self) -> None:
        """Say in the attempt's log what no row will have: it was logged in a rollout that was broken off, or later."""
        rest = {name: plain(value) for name, value in self.take().items()}
        said = ", ".join(f"{name} = {value:g}" for name, value in rest.items() if value is not None)
        if said:
            complain(f"logged by callbacks after the last update, so in no row: {said}")

    def show(self, metrics: Mapping[str, Any]) -> None:
        """Let callbacks find the figures of the update where SB3 leaves them."""
        shown = {name: value for name, value in metrics.items() if name.startswith(_SHOWN)}
        self._shown = frozenset(shown)
        self.logger.name_to_value.update(shown)


@dataclass(frozen=True, slots=True)
class NamedCallback:
    """A callback, the preset's key that says it, its class's name, and those of the classes inside."""

    key: str
    name: str
    inner: tuple[str, ...]
    callback: BaseCallback

    def __str__(self) -> str:
        return f"{self.key} {self.name}" + (f" (with {', '.join(self.inner)})" if self.inner else "")


class Callbacks(BaseCallback):
    """SB3's `CallbackList`, but for what goes wrong. `ended` is the sentence of who said False, once somebody did.

    `envs` are environments that were made for callbacks; `close` ends them.
    """

    def __init__(self, named: Sequence[NamedCallback], envs: Sequence[VecEnv] = ()) -> None:
        super().__init__()
        self._named, self._envs = tuple(named), tuple(envs)
        self._state = CallbackState([each.callback for each in named])
        self.log = RowLog()
        self.ended: str | None = None
        self._callback_locals = CallbackLocals({}, None)
        self._asked_at: float | None = None

    def are_long(self) -> bool:
        """Whether one of them goes on for longer than what is done at each step; asked from another thread."""
        asked_at = self._asked_at
        return asked_at is not None and time.monotonic() - asked_at > LONG_S

    def begin(self, model: BaseAlgorithm, total_timesteps: int | None, state: Tree | None) -> None:
        """Give everyone `model`, put back what `state` says they had counted, and say that training starts.

        Raises `CallbackError`.
        """
        model.set_logger(self.log.logger)
        model._total_timesteps = _ENDLESS if total_timesteps is None else total_timesteps
        with warnings.catch_warnings():
            # EvalCallback compares the kinds of environments; ours are wrapped alike, whatever steps them.
            warnings.filterwarnings("ignore", "Training and eval env are not of the same type", UserWarning)
            self.init_callback(model)
        self._state.restore(state)
        known: dict[str, Any] = {
            "self": model,
            "total_timesteps": model._total_timesteps,
            "callback": self,
            "log_interval": 1,
            "tb_log_name": type(model).__name__,
            "reset_num_timesteps": state is None,
            "progress_bar": False,
            "iteration": 0,
        }
        self._callback_locals = CallbackLocals(known, getattr(model, "step_values", None))
        self.on_training_start(self._callback_locals, globals())

    @property
    def state(self) -> Tree:
        """What they have counted so far, as a tree that shares nothing with them."""
        return self._state.state

    def close(self) -> None:
        """End the environments that were made for callbacks."""
        for env in self._envs:
            env.close()

    def _init_callback(self) -> None:
        self._call("init_callback", self.model)
        for each in self._named:
            each.callback.parent = None
        self._state.begin()

    def _on_training_start(self) -> None:
        self._call("on_training_start", self.locals, self.globals)

    def _on_rollout_start(self) -> None:
        self._call("on_rollout_start")

    def _on_step(self) -> bool:
        answers = self._call("on_step")
        if all(answers):
            return True
        if self.ended is None:
            where = next(index for index, answer in enumerate(answers) if not answer)
            forgot = " by returning None; True goes on" if answers[where] is None else ""
            self.ended = f"{self._named[where]} ended it at {self.num_timesteps:,} timesteps{forgot}"
        return False

    def _on_rollout_end(self) -> None:
        self._call("on_rollout_end")

    def _on_training_end(self) -> None:
        self._call("on_training_end")

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """Pass on what a rollout knows."""
        self._callback_locals.drop_step(locals_)
        self._call("update_locals", locals_)

    def _call(self, hook: str, *arguments: Any) -> list[Any]:
        """What each answered, all of them asked as SB3 does."""
        answers = []
        self._asked_at = time.monotonic()
        for each in self._named:
            try:
                answers.append(getattr(each.callback, hook)(*arguments))
            except (MissionError, MemoryError) as error:
                leave_fork(error)
                raise
            except (Exception, SystemExit) as error:  # a callback is foreign code and may raise anything
                leave_fork(error)
                raise CallbackError(f"{each} raised {_raised_by(error)} in {hook}") from error
        self._asked_at = None
        leave_fork()
        return answers


def _raised_by(error: BaseException) -> str:
    """What was raised and the last line of it that is the user's, not a library's that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not (is_library(frame.filename) or frame.filename.startswith(_OURS))]
    if not own:
        return raised_by(error)
    return f"{type(error).__name__}: {error} ({Path(own[-1].filename).name}:{own[-1].lineno})"


class CallbackState:
    """The memory of `callbacks` and of the callbacks that are their attributes."""

    def __init__(self, callbacks: Sequence[BaseCallback]) -> None:
        self._callbacks = tuple(callbacks)
        self._fresh: dict[str, Tree] = {}

    def begin(self) -> None:
        """What they hold now is how they are made."""
        self._fresh = {path: _plain_attributes(callback) for path, callback in self._each()}

    @property
    def state(self) -> Tree:
        """By class and place, the attributes that changed since `begin`."""
        state = {}
        for path, callback in self._each():
            fresh = self._fresh.get(path, {})
            held = _plain_attributes(callback)
            state[path] = {
                name: value for name, value in held.items() if name not in fresh or not _same(value, fresh[name])
            }
        return state

    def restore(self, state: Tree | None) -> None:
        """Give those of the same class in the same place what they had."""
        for path, callback in self._each():
            for name, value in (state or {}).get(path, {}).items():
                setattr(callback, name, value)

    def _each(self) -> Iterator[tuple[str, BaseCallback]]:
        for index, callback in enumerate(self._callbacks):
            yield from _with_inner(f"{index}", callback, set())


def _with_inner(place: str, callback: BaseCallback, seen: set[int]) -> Iterator[tuple[str, BaseCallback]]:
    if id(callback) in seen:
        return
    seen.add(id(callback))
    cls = type(callback)
    yield f"{place} {cls.__module__}:{cls.__qualname__}", callback
    for name, value in vars(callback).items():
        if name == "parent":
            continue
        for index, item in enumerate(value if isinstance(value, list) else (value,)):
            if isinstance(item, BaseCallback):
                yield from _with_inner(f"{place}.{name}.{index}", item, seen)


def _plain_attributes(callback: BaseCallback) -> Tree:
    held = {}
    for name, value in vars(callback).items():
        if name in _NOT_THEIRS:
            continue
        counted = _Count()
        copy = _copied(value, counted)
        if copy is not _NOT_PLAIN:
            held[name] = copy
    return held


class _Count:
    """How many values were copied."""

    def __init__(self) -> None:
        self.done = 0


_NOT_PLAIN = object()


def _copied(value: Any, count: _Count) -> Any:
    """A copy that a checkpoint can keep; `_NOT_PLAIN` for everything else and for what is too much."""
    count.done += value.size if isinstance(value, np.ndarray) else 1
    if count.done > _MOST:
        return _NOT_PLAIN
    match value:
        case np.ndarray():
            return _NOT_PLAIN if value.dtype.hasobject else value.copy()
        case np.generic():
            return value.item()
        case None | bool() | int() | float() | str():
            return value
        case list():
            items = [_copied(item, count) for item in value]
            return _NOT_PLAIN if any(item is _NOT_PLAIN for item in items) else items
        case dict():
            if not all(isinstance(key, str) for key in value):
                return _NOT_PLAIN
            parts = {key: _copied(item, count) for key, item in value.items()}
            return _NOT_PLAIN if any(item is _NOT_PLAIN for item in parts.values()) else parts
    return _NOT_PLAIN


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    if isinstance(one, list | Mapping):
        return type(one) is type(other) and _tree_same(one, other)
    return bool(one == other)


def _tree_same(one: Any, other: Any) -> bool:
    if isinstance(one, list):
        return len(one) == len(other) and all(_same(a, b) for a, b in zip(one, other, strict=True))
    return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)


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
