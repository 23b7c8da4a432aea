"""What a rollout tells callbacks, by SB3's names; what costs something is worked out when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["CallbackLocals"]

_LATE = ("values", "log_probs")
_FROM = ("obs_tensor", "chosen")

StepValues = Callable[[Any, Any], tuple[Any, Any]]


class CallbackLocals(dict[str, Any]):
    """The dictionary that callbacks know as `locals`. The fast engine does not need to know what the critic says before
    a rollout is over, so `step_values` computes it for the observations and actions of the step, if `values` are looked
    at.
    """

    def __init__(self, told: Mapping[str, Any], step_values: StepValues | None) -> None:
        super().__init__(told)
        self._step_values = step_values

    def drop_step(self, told: Mapping[str, Any]) -> None:
        """A step has been `told`: what was worked out for the one before is out of date."""
        for name in _LATE:
            if name not in told:
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
