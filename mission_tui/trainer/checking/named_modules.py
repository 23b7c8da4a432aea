"""The modules that a spec names, each with its key: imported first, so that a broken one is named by its key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.env_ids import gym_id
from mission_tui.trainer.json_lines import Say
from mission_tui.trainer.named_classes import import_named


def named_modules(spec: Spec) -> tuple[tuple[str, str], ...]:
    """Keys and modules, each module once, in the order in which they are imported."""
    found: dict[str, str] = {}
    for key, module in _named(spec):
        found.setdefault(module, key)
    return tuple((key, module) for module, key in found.items())


def import_all(spec: Spec, say: Say) -> tuple[str, ...]:
    """Import what `spec` names, saying before each what is done, because some do not come back. Raises `PresetError`.

    Returns the names.
    """
    named = named_modules(spec)
    for key, module in named:
        say({"doing": f"{key}: importing '{module}'"})
        import_named(module, key)
    return tuple(module for _, module in named)


def _named(spec: Spec) -> Iterator[tuple[str, str]]:
    for module in spec.env.imports:
        yield "env.imports", module
    if gym_id(spec.env.id) == spec.env.id and ":" in spec.env.id:
        yield "env.id", spec.env.id.rpartition(":")[0]
    tables: dict[str, Any] = msgspec.to_builtins(spec)
    yield from _classes("env.wrappers", tables["env"]["wrappers"])
    yield from _classes("ppo.policy", spec.ppo.policy)
    for name, value in spec.ppo.policy_kwargs.items():
        yield from _classes(f"ppo.policy_kwargs.{name}", value)
    yield from _classes("run.callbacks", tables["run"].get("callbacks"))


def _classes(key: str, value: object) -> Iterator[tuple[str, str]]:
    """The modules of ``package.module:Name``, plain or as the `cls` of a table, alone or in a list."""
    match value:
        case str() if ":" in value:
            yield key, value.partition(":")[0]
        case dict():
            yield from _classes(key, value.get("cls"))
        case list() | tuple():
            for part in value:
                yield from _classes(key, part)
