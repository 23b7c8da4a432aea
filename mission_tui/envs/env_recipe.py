"""How an env worker makes its environments: plain values that any process can be sent, and no word of presets.

The trainer has made one environment from the same preset before it starts a worker, so what is wrong with a preset
was said there; here it would be an exception like any other.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

import gymnasium

from mission_tui.envs.monitor import Monitor

__all__ = ["EnvRecipe"]


@dataclass(frozen=True, slots=True)
class EnvRecipe:
    """A Gymnasium `id` (or ``module:id``), its arguments, modules to import first, and wrappers: each a ``module:Name``
    and its arguments.
    """

    id: str
    kwargs: dict[str, Any] = field(default_factory=dict)
    imports: tuple[str, ...] = ()
    wrappers: tuple[tuple[str, dict[str, Any]], ...] = ()

    def make(self) -> gymnasium.Env[Any, Any]:
        """One environment, monitored directly and wrapped from the first wrapper to the last."""
        for module in self.imports:
            importlib.import_module(module)
        made: gymnasium.Env[Any, Any] = Monitor(gymnasium.make(self.id, **self.kwargs))
        for name, arguments in self.wrappers:
            module, _, attribute = name.partition(":")
            made = getattr(importlib.import_module(module), attribute)(made, **arguments)
        return made
