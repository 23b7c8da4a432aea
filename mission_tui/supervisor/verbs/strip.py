"""Strip: what GPUs and processors did over the asked time, and in which phases the runs were."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from mission_tui.fleet.cells import Cell, CellHistory
from mission_tui.fleet.phases import PhaseHistory
from mission_tui.fleet.placement import gpu_for
from mission_tui.fleet.store import Store
from mission_tui.fleet.strip import GpuTrack, Lane, Strip
from mission_tui.ipc.replies import StripReply
from mission_tui.ipc.requests import GetStrip
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.watching.unix_time import unix_ahead

__all__ = ["Tracks", "strip", "strip_of"]


@dataclass(frozen=True, slots=True)
class Tracks:
    """What a strip is made of. Cells are on a clock that is `ahead` seconds behind unix time. `here`: the UUIDs of the
    GPUs in the driver's order; `visible` is the `CUDA_VISIBLE_DEVICES` of a run where that is known.
    """

    names: Mapping[str, str]
    busy: Mapping[str, CellHistory]
    power: Mapping[str, CellHistory]
    cpu: CellHistory | None
    lanes: Mapping[str, PhaseHistory]
    here: Sequence[str] = ()
    visible: Callable[[str], str | None] = lambda _: None
    ahead: float = 0.0


async def strip(core: Core, request: GetStrip) -> StripReply:
    """The tracks between two moments, without runs that had no phase then. A GPU that is not here is only past."""
    gpu = core.gpu

    def visible(run_id: str) -> str | None:
        live = core.live.get(run_id)
        return None if live is None else live.visible_gpus

    here = [sample.uuid for sample in gpu.gpus]
    histories = core.lanes.histories
    tracks = Tracks(gpu.names, gpu.busy, gpu.power, core.host.cpu, histories, here, visible, unix_ahead())
    return StripReply(re=request.id, strip=strip_of(tracks, core.store, request, time.time()))


def strip_of(tracks: Tracks, store: Store, request: GetStrip, now: float) -> Strip:
    """The asked part of the tracks at unix time `now`: live runs first, oldest first, then the last to end first."""
    until = now if request.until is None else min(now, request.until)
    since, ahead = until - request.seconds, tracks.ahead

    def cells(history: CellHistory | None) -> tuple[Cell, ...]:
        found = () if history is None else history.between(since - ahead, until - ahead, request.most)
        return tuple(structs.replace(cell, t=cell.t + ahead) for cell in found)

    gpus = (
        GpuTrack(uuid=uuid, name=name, busy=cells(tracks.busy.get(uuid)), power=cells(tracks.power.get(uuid)))
        for uuid, name in tracks.names.items()
    )
    shown = tuple(gpu for gpu in gpus if gpu.busy or gpu.power or gpu.uuid in tracks.here)
    lanes = tuple(_lanes(tracks, store, since, until, request.most))
    return Strip(since=since, until=until, gpus=shown, cpu=cells(tracks.cpu), lanes=lanes)


def _lanes(tracks: Tracks, store: Store, since: float, until: float, most: int) -> Iterator[Lane]:
    for run_id in store.run_ids():
        lane = tracks.lanes.get(run_id)
        spans = () if lane is None else lane.between(since, until, most)
        if spans:
            known = store.run(run_id)
            steps = known.trained.columns.steps_between(since, until)
            gpu = _gpu(tracks, store, run_id)
            yield Lane(run=run_id, name=known.told.name, spans=spans, gpu=gpu, steps=steps)


def _gpu(tracks: Tracks, store: Store, run_id: str) -> str:
    """The one it was given, else by its settings; what its launcher's environment hid is known only while it lives."""
    placed, spec = store.run(run_id).told.placed, store.run(run_id).spec
    if placed is not None:
        return placed.uuid
    if spec is None:
        return ""
    visible = spec.run.env.get("CUDA_VISIBLE_DEVICES", tracks.visible(run_id))
    return gpu_for(spec.run.device, visible, tracks.here) or ""
