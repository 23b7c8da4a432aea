"""What a run can do: flags that verbs, keys and screens ask, so that none of them needs to know who trains.

A run of the built-in trainer can do everything. A command obeys signals; what it learns is known once it reports.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from mission_tui.fleet.specs.spec import Spec

__all__ = ["ABILITIES", "Ability", "abilities_of", "refusal"]

Ability = Literal["metrics", "pause", "park", "checkpoint", "evaluate", "export", "apply", "branch"]
ABILITIES: tuple[Ability, ...] = get_args(Ability)
_COMMAND = "it runs a command, which"
_WHY_NOT: Mapping[str, str] = {
    "metrics": f"{_COMMAND} has reported nothing",
    "pause": f"{_COMMAND} cannot be held at an update; freeze stops it where it stands",
    "park": f"{_COMMAND} cannot be asked to save and make room; freeze holds it, stop ends it",
    "checkpoint": f"{_COMMAND} saves what and when it wants to",
    "evaluate": f"{_COMMAND} leaves no policy that could be played here",
    "export": f"{_COMMAND} leaves no policy that could be exported here",
    "apply": f"{_COMMAND} cannot be told settings; change its own and launch it again",
    "branch": f"{_COMMAND} leaves no weights to begin with",
}


def abilities_of(spec: Spec | None, *, reports: bool) -> tuple[Ability, ...]:
    """What a run of `spec` (None: it cannot be read) can do; `reports` is whether it has reported anything."""
    if spec is None or spec.run.command is None:
        return ABILITIES
    return ("metrics",) if reports else ()


def refusal(can: tuple[Ability, ...], verb: str) -> str | None:
    """Why a run that `can` do so much cannot take `verb`; None when it can, or when every run can."""
    return None if verb in can else _WHY_NOT.get(verb)
