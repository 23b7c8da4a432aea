"""Environments in one process each: SB3's `SubprocVecEnv`, made to name a worker that died instead of an `EOFError`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
from stable_baselines3.common.vec_env import SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from mission_tui.trainer.failures import EnvError

__all__ = ["WorkersVecEnv"]

_LAST_BREATH_S = 2.0


class WorkersVecEnv(SubprocVecEnv):
    """`SubprocVecEnv` over forkserver. Its state cannot be saved: a run resumed with it is continued, not exact."""

    can_save_state = False

    def __init__(self, env_fns: list[Callable[[], gymnasium.Env[Any, Any]]]) -> None:
        try:
            super().__init__(env_fns, start_method="forkserver")
        except (EOFError, OSError) as error:
            raise self._death() from error

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the workers."""
        return tuple(process.pid for process in self.processes if process.pid is not None)

    def step_async(self, actions: Any) -> None:
        try:
            super().step_async(actions)
        except OSError as error:
            raise self._death() from error

    def step_wait(self) -> VecEnvStepReturn:
        try:
            return super().step_wait()
        except (EOFError, OSError) as error:
            raise self._death() from error

    def reset(self) -> VecEnvObs:
        try:
            return super().reset()
        except (EOFError, OSError) as error:
            raise self._death() from error

    def close(self) -> None:
        """End every worker without asking one that may be dead: SB3's own way waits for its answer for ever."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.join(_LAST_BREATH_S)
        self.closed = True

    def _death(self) -> EnvError:
        # The pipe closes a moment before the process can be reaped.
        for process in self.processes:
            process.join(_LAST_BREATH_S / len(self.processes))
        for index, process in enumerate(self.processes):
            if process.exitcode is not None:
                how = f"exit code {process.exitcode}" if process.exitcode >= 0 else f"signal {-process.exitcode}"
                return EnvError(f"env worker {index} died ({how}); its last words are in the attempt's output.log")
        return EnvError("an env worker closed its pipe while alive; its last words are in the attempt's output.log")
