"""Whether the machine can carry more runs beside the live ones.

Those count with what they keep busy and the memory that they will still take: a run that has just begun holds little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from mission_tui.errors import PresetError
from mission_tui.fleet.machine import Machine, assess
from mission_tui.fleet.spec import Spec
from mission_tui.fleet.together import assess_together
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun

__all__ = ["LiveLoad", "check_machine", "live_load"]


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """`computing` are the specs of runs that are not held; `claimed_bytes` is free now, but spoken for."""

    computing: tuple[Spec, ...]
    claimed_bytes: int


def check_machine(core: Core, specs: Sequence[Spec], ending: LiveRun | None = None) -> tuple[str, ...]:
    """Warnings about what the machine lacks for all of `specs` beside the live runs. Raises `PresetError`.

    The run that is `ending` to make room counts as gone.
    """
    gpus = core.gpu.gpus
    load = live_load(core, ending)
    freed = 0 if ending is None else _held(ending)
    machine = core.host.machine(core.gpu.present(), len(gpus) if gpus else None, load.claimed_bytes - freed)
    together = assess_together(specs, machine, load.computing)
    if together.hard:
        raise PresetError("; ".join(together.hard))
    return together.warnings


def live_load(core: Core, without: LiveRun | None = None) -> LiveLoad:
    """The load of the runs that are live at this moment; a run whose spec cannot be read counts for nothing."""
    known = [(run, run.spec) for run in core.live.values() if run.spec is not None and run is not without]
    machine = Machine(core.host.cores, None, None, None, gpu=core.gpu.present())
    claimed = sum(max(0, assess(spec, machine).ram_bytes - _held(run)) for run, spec in known)
    computing = tuple(spec for run, spec in known if not core.store.run(run.id).told.held)
    return LiveLoad(computing, claimed)


def _held(run: LiveRun) -> int:
    """Bytes that the processes of the run hold; what they share is counted once for each, which is little."""
    found = (run.keeper, run.trainer)
    return sum(map(_resident, [*(process.pid for process in found if process is not None), *run.workers]))


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
