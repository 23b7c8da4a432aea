"""Modules and classes that a preset names: imported, found, and looked at before they are called as it says.

Standard library only, so that a preflight answers without torch.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

from mission_tui.errors import PresetError, install_words, nearest
from mission_tui.fleet.specs.env_ids import PLAIN_PACKAGES
from mission_tui.fleet.specs.spec import Algo

_EXTRA_MODULES = {"ale_py": "envs", "cv2": "envs", "Box2D": "envs", "mujoco": "envs", "pygame": "envs"}
_EXTRA_MODULES |= {"sb3_contrib": "contrib"}
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
CONTRIB = "sb3-contrib"


def find_named(name: str, key: str) -> Any:
    """What ``package.module:Name`` means; `key` is the preset's key that says so. Raises `PresetError`."""
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise PresetError(f"{key} = '{name}' must look like 'package.module:Name'")
    module = import_named(module_name, key)
    if not hasattr(module, attribute):
        raise PresetError(f"{key}: module '{module_name}' has no '{attribute}'{nearest(attribute, dir(module))}")
    return getattr(module, attribute)


def import_named(module: str, key: str) -> Any:
    """The module that the preset's `key` names. Raises `PresetError`."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        top = module.partition(".")[0]
        missing = top if importlib.util.find_spec(top) is None else ""
        if missing in PLAIN_PACKAGES:
            raise PresetError(f"{key}: module '{module}' is not installed; pip install {missing}") from error
        extra = _EXTRA_MODULES.get(missing)
        if extra is None:
            raise PresetError(f"{key}: module '{module}' cannot be imported: {error}{_near(module, error)}") from error
        said = f"{key}: module '{module}' needs the `{extra}` extra; {install_words(extra)}"
        raise PresetError(said) from error
    except Exception as error:  # importing runs foreign code, which may raise anything
        raise PresetError(f"{key}: module '{module}' cannot be imported: {error}{_near(module, error)}") from error


def _near(module: str, error: Exception) -> str:
    """The nearest module that is here, where none of that name is."""
    top = module.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or error.name != top:
        return ""
    return nearest(top, (found.name for found in pkgutil.iter_modules()))


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
        raise PresetError(f"ppo.algo = '{algo}' needs the `contrib` extra; {install_words('contrib')}")
