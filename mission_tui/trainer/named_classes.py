"""Whether a class of somebody else's can be called as a preset says, by its signature and before it is called."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs.spec import Algo

__all__ = ["CONTRIB", "check_contrib", "check_kwargs", "parameters_of"]

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
CONTRIB = "sb3-contrib"


def check_kwargs(target: Callable[..., Any], kwargs: Mapping[str, Any], key: str, *, given: int = 0) -> None:
    """Raise `PresetError`, naming the nearest valid key below `key`, unless `target` takes `kwargs` besides `given`
    positional arguments. What has no readable signature, or takes any name, is left to be called.
    """
    parameters = parameters_of(target)
    if parameters is None:
        return
    named = [it for it in parameters[given:] if it.kind in _NAMED]
    names = [it.name for it in named]
    open_ended = any(it.kind is inspect.Parameter.VAR_KEYWORD for it in parameters)
    for name in kwargs:
        if name not in names and not open_ended:
            hint = nearest(name, names) or (f"; valid here: {', '.join(names)}" if names else "; it takes none")
            raise PresetError(f"unknown key {key}.{name[:60]}{hint}")
    for it in named:
        if it.default is inspect.Parameter.empty and it.name not in kwargs:
            raise PresetError(f"{key}.{it.name} is missing: {_called(target)} cannot be made without it")


def parameters_of(target: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """What `target` is called with; None where that cannot be read."""
    try:
        return list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return None


def _called(target: Callable[..., Any]) -> str:
    return getattr(target, "__name__", str(target))


def check_contrib(algo: Algo) -> None:
    """Raise `PresetError`, with what to install, if `algo` needs sb3-contrib and that is not here."""
    if algo != "ppo" and importlib.util.find_spec("sb3_contrib") is None:
        raise PresetError(f"ppo.algo = '{algo}' needs the `contrib` extra: pip install 'mission-tui[contrib]'")
