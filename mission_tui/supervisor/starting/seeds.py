"""Seeds that nobody gave: drawn before a run is made, so that they are on record and the run can be repeated."""

from __future__ import annotations

import secrets

from msgspec import structs

from mission_tui.fleet.specs.spec import Spec

__all__ = ["with_seed"]

_SPAN = 2**31


def with_seed(spec: Spec, *, anew: bool = False) -> Spec:
    """The spec with a seed: its own, or one drawn here if it has none or a fresh one is wanted `anew`.

    A command is told a seed only if somebody gave one: nobody knows whether it would use it.
    """
    if spec.run.command is not None or (spec.run.seed is not None and not anew):
        return spec
    return structs.replace(spec, run=structs.replace(spec.run, seed=secrets.randbelow(_SPAN)))
