"""Building the vectorised environment of a run: the kind, the lanes, and around them the normaliser and the frames.

`Monitor` sits directly around each environment, as in SB3's own `make_vec_env`, so that returns are those of the task
and not those of a wrapper.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import gymnasium
import msgspec
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecNormalize

from mission_tui.envs.channel import EnvRecipe
from mission_tui.errors import PresetError
from mission_tui.fleet.events.processes import EnvWorkers
from mission_tui.fleet.specs.algorithm import learning_table
from mission_tui.fleet.specs.spec import EnvSpec, Normalize, Spec, parse_part
from mission_tui.forks import leave_fork
from mission_tui.trainer.named_parts import env_kwargs, find_env, gym_id, make_env, making, native_refusal
from mission_tui.trainer.spaces import stack_refusal
from mission_tui.trainer.vec_env.in_process import InlineVecEnv, NativeVecEnv
from mission_tui.trainer.vec_env.vec_choice import Choice, VecKind, choose, keep
from mission_tui.trainer.vec_env.workers import WorkersVecEnv


@runtime_checkable
class SavableVecEnv(Protocol):
    """A VecEnv at the bottom of the wrapper stack."""

    @property
    def can_save_state(self) -> bool:
        """Whether `get_state` covers everything its future depends on."""
        ...

    def get_state(self) -> dict[str, Any]:
        """A copy of the state: nested dictionaries and lists of arrays and JSON values."""
        ...

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from `state`; raises `CheckpointError` when it does not fit."""
        ...


def savable(vec: VecEnv) -> SavableVecEnv | None:
    """The environment below all wrappers if its state can be saved, else None."""
    base = vec.unwrapped
    return base if isinstance(base, SavableVecEnv) and base.can_save_state else None


@dataclass(frozen=True, slots=True)
class EnvMaker:
    """A factory that can be sent to a worker process: importing happens where the environment is made."""

    env: EnvSpec
    snapshot: Path | None

    def __call__(self) -> gymnasium.Env[Any, Any]:
        """One monitored, wrapped environment. Raises `PresetError` for what the preset has wrong."""
        try:
            env = make_env(self.env, self.snapshot, around=Monitor)
        except BaseException as error:
            leave_fork(error)
            raise
        leave_fork()
        return env


def _make_batched(env: EnvSpec, snapshot: Path | None) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """All `env.n_envs` lanes as one environment through its `vector_entry_point`. Raises `PresetError`."""
    sentence = native_refusal(env)
    if sentence is not None:
        raise PresetError(f"env.vec = 'native': {sentence}; use env.vec = 'inline' or 'workers'")
    arguments = env_kwargs(env, snapshot)
    with making(env.id):
        return gymnasium.make_vec(find_env(env), env.n_envs, vectorization_mode="vector_entry_point", **arguments)


@dataclass(frozen=True, slots=True)
class BuiltEnvs:
    """The environment of a run, which kind it is, and why."""

    vec: VecEnv
    kind: VecKind
    reason: str

    @property
    def worker_pids(self) -> tuple[int, ...]:
        base = self.vec.unwrapped
        return base.pids if isinstance(base, WorkersVecEnv) else ()

    @property
    def worker_status(self) -> Callable[[], EnvWorkers] | None:
        """Says who of the workers is late and who is slow; None where there are none."""
        base = self.vec.unwrapped
        return base.pool.sample if isinstance(base, WorkersVecEnv) else None

    @property
    def n_workers(self) -> int | None:
        """How many processes step it; None where the trainer does that itself."""
        return len(self.worker_pids) or None


def build_vec_env(
    spec: Spec, snapshot: Path | None, kept_kind: VecKind | None = None, kept_workers: int | None = None
) -> BuiltEnvs:
    """Build `spec.env`; what it leaves open is as an earlier attempt of the run resolved it, if there was one.

    Raises `PresetError` for what the preset has wrong, `EnvError` for an environment that fails.
    """
    choice = _choice(spec.env, snapshot, kept_kind, kept_workers)
    maker = EnvMaker(spec.env, snapshot)
    # Nothing in a training reads the infos of steps that end no episode; callbacks may.
    all_infos = bool(spec.run.callbacks)
    vec: NativeVecEnv | InlineVecEnv | WorkersVecEnv
    if choice.kind == "native":
        vec = NativeVecEnv(_make_batched(spec.env, snapshot), all_infos=all_infos)
    elif choice.kind == "inline":
        vec = InlineVecEnv([maker] * spec.env.n_envs)
    else:
        assert choice.n_workers is not None
        vec = _workers(spec.env, snapshot, maker, choice.n_workers, all_infos=all_infos)
    return BuiltEnvs(_wrapped(vec, spec), choice.kind, choice.reason)


def spaces_alone(spec: Spec, observations: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> VecEnv:
    """The environment of a run as its model sees it, made of spaces and of nothing that could be stepped."""
    return _wrapped(InlineVecEnv([lambda: _Nowhere(observations, actions)]), spec)


class _Nowhere(gymnasium.Env[Any, Any]):
    def __init__(self, observations: gymnasium.Space[Any], actions: gymnasium.Space[Any]) -> None:
        self.observation_space, self.action_space = observations, actions


def _wrapped(vec: VecEnv, spec: Spec) -> VecEnv:
    return _stacked(_normalized(vec, spec), spec.env)


def in_this_process(spec: Spec, native: int = 1, inline: int = 1) -> Spec:
    """`spec` with its environments in this process: `native` lanes where they have a batched form, else `inline`.

    By what the environment is and not by the machine, so that the same seed plays the same episodes everywhere.
    """
    kind, lanes = ("inline", inline) if native_refusal(spec.env) else ("native", native)
    return msgspec.structs.replace(spec, env=msgspec.structs.replace(spec.env, vec=kind, n_envs=lanes))


def _workers(env: EnvSpec, snapshot: Path | None, maker: EnvMaker, n_workers: int, *, all_infos: bool) -> WorkersVecEnv:
    # Made here once: what is wrong with a preset is said best by the process that knows presets.
    made = maker()
    spaces = made.observation_space, made.action_space
    made.close()
    wrappers = tuple((part.cls, part.kwargs) for part in map(parse_part, env.wrappers))
    recipe = EnvRecipe(gym_id(env.id), env_kwargs(env, snapshot), env.imports, wrappers)
    try:
        return WorkersVecEnv(recipe, env.n_envs, spaces, n_workers, all_infos=all_infos)
    except ValueError as error:
        raise PresetError(f"env.vec = 'workers': {error}; use env.vec = 'inline'") from error


def _choice(env: EnvSpec, snapshot: Path | None, kept_kind: VecKind | None, kept_workers: int | None) -> Choice:
    cores = len(os.sched_getaffinity(0))
    left_open = env.vec == "auto" or (env.vec == "workers" == kept_kind and env.n_workers is None)
    if kept_kind is not None and left_open and (kept_kind != "native" or native_refusal(env) is None):
        return keep(env, kept_kind, kept_workers, cores)
    return choose(env, EnvMaker(env, snapshot), cores)


def _normalized(vec: VecEnv, spec: Spec) -> VecEnv:
    wanted = spec.env.normalize
    if wanted is False:
        return vec
    normalize = Normalize() if wanted is True else wanted
    try:
        return VecNormalize(
            vec,
            norm_obs=normalize.obs,
            norm_reward=normalize.reward,
            clip_obs=normalize.clip_obs,
            clip_reward=normalize.clip_reward,
            gamma=learning_table(spec)[1].gamma,
        )
    except ValueError as error:
        raise PresetError(f"env.normalize cannot be used here: {error}") from error


def _stacked(vec: VecEnv, env: EnvSpec) -> VecEnv:
    """Outside the normalizer, as in SB3's zoo: its statistics are those of one frame."""
    if env.frame_stack in (None, 1):
        return vec
    assert env.frame_stack is not None
    if sentence := stack_refusal(vec.observation_space):
        raise PresetError(sentence)
    return VecFrameStack(vec, env.frame_stack)
