"""What an env worker is given to do, and how it tells what was raised while it did it."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import dataclass

from mission_tui.envs.env_recipe import EnvRecipe
from mission_tui.envs.shared_arrays import Layout
from mission_tui.errors import raised_by

__all__ = ["Assignment", "Raised"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Worker `index` makes and steps the environments `first` to `behind` - 1; `memory` is a descriptor it inherited.

    `path` is the trainer's module search path: what could be imported there can be imported here.
    """

    recipe: EnvRecipe
    layout: Layout
    memory: int
    index: int
    first: int
    behind: int
    n_envs: int
    all_infos: bool
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception in environment `env`: a sentence, the traceback as text, and itself where it can be pickled."""

    env: int
    sentence: str
    text: str
    error: BaseException | None

    @classmethod
    def of(cls, error: BaseException, env: int) -> Raised:
        """What there is to tell of `error`."""
        text = "".join(traceback.format_exception(error))
        return cls(env, raised_by(error), text, error if _travels(error) else None)


def _travels(error: BaseException) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - made in the same line
    except Exception:  # noqa: BLE001 - an exception is foreign code, and so is what pickling it runs
        return False
    return type(copy) is type(error)
