"""Whether the machine can carry more runs beside the live ones.

Those count with what they keep busy and the memory that they will still take: a run that has just begun holds little.
"""

from __future__ import annotations

from collections.abc import Sequence

import psutil

from mission_tui.errors import PresetError
from mission_tui.fleet.machine import Machine, assess
from mission_tui.fleet.spec import Spec
from mission_tui.fleet.together import assess_together
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun

__all__ = ["check_machine"]


def check_machine(core: Core, specs: Sequence[Spec], ending: LiveRun | None = None) -> tuple[str, ...]:
    """Warnings about what the machine lacks for all of `specs` beside the live runs. Raises `PresetError`.

    The run that is `ending` to make room counts as gone; one that is held computes nothing; one whose spec cannot be
    read counts for nothing.
    """
    gpus, gpu = core.gpu.gpus, core.gpu.present()
    others = [(run, run.spec) for run in core.live.values() if run.spec is not None and run is not ending]
    bare = Machine(core.host.cores, None, None, None, gpu=gpu)
    claimed = sum(max(0, assess(spec, bare).ram_bytes - _resident_bytes(run)) for run, spec in others)
    freed = 0 if ending is None else _resident_bytes(ending)
    machine = core.host.machine(gpu, len(gpus) if gpus else None, claimed - freed)
    computing = [spec for run, spec in others if not core.store.run(run.id).told.held]
    together = assess_together(specs, machine, computing)
    if together.hard:
        raise PresetError("; ".join(together.hard))
    return together.warnings


def _resident_bytes(run: LiveRun) -> int:
    """What the processes of the run hold; what they share is counted once for each, which is little."""
    found = (run.keeper, run.trainer)
    return sum(map(_resident, [*(process.pid for process in found if process is not None), *run.workers]))


def _resident(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0
