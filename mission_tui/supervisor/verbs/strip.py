"""Strip: what the GPUs did over the asked time, and in which phases the runs were."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import structs

from mission_tui.fleet.cells import Cell, CellHistory
from mission_tui.fleet.reservation import gpu_for
from mission_tui.fleet.strip import GpuTrack, Lane, Strip
from mission_tui.ipc.replies import StripReply
from mission_tui.ipc.requests import GetStrip
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.watching.unix_time import unix_ahead

__all__ = ["strip"]


async def strip(core: Core, request: GetStrip) -> StripReply:
    """The tracks between two moments, without runs that had no phase then. A GPU that is not here is only past."""
    now, ahead = time.time(), unix_ahead()
    until = now if request.until is None else min(now, request.until)
    since = until - request.seconds

    def cells(history: CellHistory | None) -> tuple[Cell, ...]:
        found = () if history is None else history.between(since - ahead, until - ahead, request.most)
        return tuple(structs.replace(cell, t=cell.t + ahead) for cell in found)

    gpu = core.gpu
    named = ((uuid, name, cells(gpu.busy.get(uuid)), cells(gpu.power.get(uuid))) for uuid, name in gpu.names.items())
    here = {sample.uuid for sample in gpu.gpus}
    gpus = tuple(
        GpuTrack(uuid=uuid, name=name, busy=busy, power=power)
        for uuid, name, busy, power in named
        if busy or power or uuid in here
    )
    lanes = tuple(_lanes(core, since, until, request.most))
    cpu = cells(core.host.cpu)
    return StripReply(re=request.id, strip=Strip(since=since, until=until, gpus=gpus, cpu=cpu, lanes=lanes))


def _lanes(core: Core, since: float, until: float, most: int) -> Iterator[Lane]:
    """Runs that live, oldest first, then those that ended, the last to end first."""
    for run_id in core.store.run_ids():
        spans = core.lanes.between(run_id, since, until, most)
        if spans:
            known = core.store.run(run_id)
            steps = known.trained.columns.steps_between(since, until)
            yield Lane(run=run_id, name=known.told.name, spans=spans, gpu=_gpu(core, run_id), steps=steps)


def _gpu(core: Core, run_id: str) -> str:
    """By the run's own settings; what its launcher's environment hid from it is known only while it lives."""
    spec, live = core.store.run(run_id).spec, core.live.get(run_id)
    if spec is None:
        return ""
    visible = spec.run.env.get("CUDA_VISIBLE_DEVICES", live.visible_gpus if live is not None else None)
    return gpu_for(spec.run.device, visible, [gpu.uuid for gpu in core.gpu.gpus]) or ""
