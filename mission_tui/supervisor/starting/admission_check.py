"""Whether new runs may be made at all: what can never begin is refused, what merely has to wait is not.

A run whose preset says `keep.limits.queue = false` is refused where it would have to wait.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from mission_tui.errors import PresetError
from mission_tui.fleet.capacity.admission import Admit, Wait, decide_queue, never_fits
from mission_tui.fleet.capacity.headroom import QueuedRun
from mission_tui.fleet.specs.spec import Spec
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.caller import VISIBLE
from mission_tui.supervisor.starting.headroom import headroom_now, queued_run
from mission_tui.supervisor.starting.live_load import check_machine, claims_of, coming_claims
from mission_tui.supervisor.starting.run_queue import queued_runs

__all__ = ["check_new", "foreseen", "reserved", "would_wait"]


@asynccontextmanager
async def reserved(core: Core, specs: Sequence[Spec], environ: Mapping[str, str]) -> AsyncIterator[tuple[str, ...]]:
    """Warnings as of `check_new`; while the context lasts every supervisor of the host knows that `specs` come."""
    key, visible = object(), environ.get(VISIBLE)
    await core.measure()
    async with core.other_supervisors.exclusive(partial(claims_of, core)):
        warnings = check_new(core, specs, visible)
        core.other_supervisors.pending[key] = coming_claims(core, specs, visible)
    try:
        yield warnings
    finally:
        del core.other_supervisors.pending[key]


def check_new(core: Core, specs: Sequence[Spec], visible: str | None) -> tuple[str, ...]:
    """Warnings about what the machine lacks for new runs of `specs`. Raises `PresetError` for what cannot begin.

    `visible` is the `CUDA_VISIBLE_DEVICES` of the shell that launches them.
    """
    headroom = headroom_now(core, core.limits.read())
    line = [queued_run(core, "", spec.preset, spec, _visible(spec, visible), 0.0) for spec in specs]
    hard = [f"{run.name}: {lack}" for run in line for lack in never_fits(run, headroom)]
    if hard:
        raise PresetError("; ".join(dict.fromkeys(hard)))
    warnings = check_machine(core, specs, visible=visible, waits=True)
    for spec, why in zip(specs, would_wait(core, specs, visible), strict=True):
        if why and not spec.keep.limits.queue:
            raise PresetError(f"{spec.preset} {why}; with keep.limits.queue = true it is queued until then")
    return warnings


def would_wait(core: Core, specs: Sequence[Spec], visible: str | None) -> list[str]:
    """What new runs of `specs`, in this order, would be told to wait for; empty for those that would begin."""
    decided = foreseen(core, specs, visible)
    return [turn.why if isinstance(turn, Wait) else "" for _, turn in decided]


def foreseen(
    core: Core, specs: Sequence[Spec], visible: str | None, held: Sequence[str] = ()
) -> list[tuple[QueuedRun, Admit | Wait]]:
    """What new runs of `specs`, in this order, would take, and what would become of each if it came now.

    `held` says for each what else it waits for, in a sentence; empty for nothing.
    """
    now, why = time.time(), held or [""] * len(specs)
    line = [
        queued_run(core, f"~{at:04}", spec.preset, spec, _visible(spec, visible), now, why[at])
        for at, spec in enumerate(specs)
    ]
    decided = decide_queue([*queued_runs(core, now), *line], headroom_now(core, core.limits.read()))
    return [(run, decided[run.id]) for run in line]


def _visible(spec: Spec, visible: str | None) -> str | None:
    return spec.run.env.get(VISIBLE, visible)
