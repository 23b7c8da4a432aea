"""What a vectorised environment offers a checkpoint: its whole state, or the plain fact that it has none to give."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from stable_baselines3.common.vec_env import VecEnv

__all__ = ["SavableVecEnv", "savable"]


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
