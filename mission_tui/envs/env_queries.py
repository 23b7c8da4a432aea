"""What one environment of a worker can be asked besides stepping and resetting: attributes, methods, state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from mission_tui.envs.state import restore_env_state, save_env_state

__all__ = ["QUESTIONS"]

Env = gymnasium.Env[Any, Any]


def _method(env: Env, name: str, arguments: Any, named: dict[str, Any]) -> Any:
    return env.get_wrapper_attr(name)(*arguments, **named)


def _get(env: Env, name: str) -> Any:
    return env.get_wrapper_attr(name)


def _has(env: Env, name: str) -> bool:
    return env.has_wrapper_attr(name)


def _set(env: Env, name: str, value: Any) -> None:
    setattr(env, name, value)


def _render(env: Env) -> Any:
    return env.render()


def _is_wrapped(env: Env, name: str) -> bool:
    while isinstance(env, gymnasium.Wrapper):
        classes = type(env).__mro__
        if any(name in (f"{cls.__module__}.{cls.__qualname__}", vars(cls).get("stands_for")) for cls in classes):
            return True
        env = env.env
    return False


QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "method": _method,
    "get": _get,
    "has": _has,
    "set": _set,
    "render": _render,
    "is_wrapped": _is_wrapped,
    "save": save_env_state,
    "restore": restore_env_state,
}
"""By their words; each takes the environment and the arguments of the question."""
