"""The rules in force that judge row by row, one a module: a module in this folder is a rule.

`nan`, `hang` and `checkpoint-age` hear more than rows, and are called by `fleet.health.judge` itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from mission_tui.fleet.health.rule import Rule
from mission_tui.fleet.specs.thresholds import Limits

__all__ = ["RULES"]


def _rules_here() -> Iterator[type[Rule]]:
    for found in iter_modules(__path__, f"{__name__}."):
        for value in vars(import_module(found.name)).values():
            if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == found.name:
                yield value


_ORDER = {field: place for place, field in enumerate(Limits.__struct_fields__)}

RULES: tuple[type[Rule], ...] = tuple(
    sorted(_rules_here(), key=lambda rule: _ORDER.get(rule.id.replace("-", "_"), len(_ORDER)))
)
"""In the order of their limits, which is also that of findings that begin at the same update."""
