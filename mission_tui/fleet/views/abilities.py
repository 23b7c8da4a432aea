"""What a run can do: flags that commands ask (`fleet.commands`), so that nobody needs to know who trains.

A run of the built-in trainer can do everything. A command obeys signals; what it learns is known once it reports.
"""

from __future__ import annotations

from typing import Literal, get_args

from mission_tui.fleet.specs.spec import Spec

__all__ = ["ABILITIES", "Ability", "abilities_of"]

Ability = Literal["metrics", "pause", "park", "checkpoint", "evaluate", "export", "apply", "branch"]
ABILITIES: tuple[Ability, ...] = get_args(Ability)


def abilities_of(spec: Spec | None, *, reports: bool) -> tuple[Ability, ...]:
    """What a run of `spec` (None: it cannot be read) can do; `reports` is whether it has reported anything."""
    if spec is None or spec.run.command is None:
        return ABILITIES
    return ("metrics",) if reports else ()
