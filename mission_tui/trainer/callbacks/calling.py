"""The callbacks of a run as one: called in order and with what SB3 gives them; who raises or ends it is named."""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from sysconfig import get_paths
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import MissionError, raised_by
from mission_tui.forks import leave_fork
from mission_tui.trainer.callbacks.callback_locals import CallbackLocals
from mission_tui.trainer.callbacks.callback_state import CallbackState
from mission_tui.trainer.callbacks.log import RowLog
from mission_tui.trainer.failures import CallbackError
from mission_tui.trainer.state.tree import Tree

__all__ = ["Callbacks", "Named"]

_ENDLESS = sys.maxsize
"""The total of a training that ends by the clock: whoever divides by it sees no progress."""
_LIBRARIES = (
    *(get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    Path(__file__).parents[2],
)
_OTHERS = tuple(f"{folder}/" for folder in _LIBRARIES)


@dataclass(frozen=True, slots=True)
class Named:
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

    def __init__(self, named: Sequence[Named], envs: Sequence[VecEnv] = ()) -> None:
        super().__init__()
        self._named, self._envs = tuple(named), tuple(envs)
        self._state = CallbackState([each.callback for each in named])
        self.log = RowLog()
        self.ended: str | None = None
        self._callback_locals = CallbackLocals({}, None)

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
        told: dict[str, Any] = {
            "self": model,
            "total_timesteps": model._total_timesteps,
            "callback": self,
            "log_interval": 1,
            "tb_log_name": type(model).__name__,
            "reset_num_timesteps": state is None,
            "progress_bar": False,
            "iteration": 0,
        }
        self._callback_locals = CallbackLocals(told, getattr(model, "step_values", None))
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
        for each in self._named:
            try:
                answers.append(getattr(each.callback, hook)(*arguments))
            except (MissionError, MemoryError) as error:
                leave_fork(error)
                raise
            except (Exception, SystemExit) as error:  # a callback is foreign code and may raise anything
                leave_fork(error)
                raise CallbackError(f"{each} raised {_raised_by(error)} in {hook}") from error
        leave_fork()
        return answers


def _raised_by(error: BaseException) -> str:
    """What was raised and the last line of it that is the user's, not a library's that it called."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_OTHERS)]
    if not own:
        return raised_by(error)
    return f"{type(error).__name__}: {error} ({Path(own[-1].filename).name}:{own[-1].lineno})"
