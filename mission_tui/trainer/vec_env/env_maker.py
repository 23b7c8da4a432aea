"""Making environments as a preset describes them: one at a time, or all lanes in one batch.

`Monitor` sits directly around the environment, as in SB3's own `make_vec_env`, so that returns are those of the task
and not those of a wrapper.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
from stable_baselines3.common.monitor import Monitor

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.forks import leave_fork
from mission_tui.trainer.env_ids import env_kwargs, find_env, make_env, making, native_refusal

__all__ = ["EnvMaker", "make_batched"]


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


def make_batched(env: EnvSpec, snapshot: Path | None) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """All `env.n_envs` lanes as one environment through its `vector_entry_point`. Raises `PresetError`."""
    sentence = native_refusal(env)
    if sentence is not None:
        raise PresetError(f"env.vec = 'native': {sentence}; use env.vec = 'inline' or 'workers'")
    arguments = env_kwargs(env, snapshot)
    with making(env.id):
        return gymnasium.make_vec(find_env(env), env.n_envs, vectorization_mode="vector_entry_point", **arguments)
