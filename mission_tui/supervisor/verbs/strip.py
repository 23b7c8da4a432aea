"""Strip: what GPUs and processors did over the asked time, and in which phases the runs were."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from mission_tui.fleet.capacity.headroom import gpu_for
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.store import Store
from mission_tui.fleet.strips.cells import Cell, CellHistory
from mission_tui.fleet.strips.phases import PhaseHistory
from mission_tui.fleet.strips.strip import GpuTrack, Lane, Strip
from mission_tui.ipc.replies import StripReply
from mission_tui.ipc.requests import GetStrip
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.meters.clocks import unix_ahead

__all__ = ["Tracks", "strip", "strip_of"]

_HELD = ("paused", "frozen")
"""Without a phase a run is in the strip for these; who only waits is not."""


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
    """The tracks between two moments, without runs that did nothing then. A GPU that is not here is only past."""
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
    live = store.live_ids()
    over = tracks.lanes.keys() - set(live)
    for run_id in [*live, *sorted(over, key=lambda run_id: -tracks.lanes[run_id].until)]:
        phases = tracks.lanes.get(run_id)
        try:
            known = store.run(run_id)
        except KeyError:  # it was removed, and the files still tell of it
            continue
        spans = () if phases is None else phases.between(since, until, most)
        stands = known.state_intervals.between(since, until)
        if not spans and not any(stand.state in _HELD for stand in stands):
            continue
        steps = known.metrics.columns.steps_between(since, until)
        placed = known.journal.placed
        gpu = _gpu(known.spec, tracks.visible(run_id), tracks.here) if placed is None else placed.uuid
        yield Lane(run=run_id, name=known.journal.name, spans=spans, gpu=gpu, steps=steps, stands=stands)


def _gpu(spec: Spec | None, visible: str | None, here: Sequence[str]) -> str:
    """By the run's own settings; what its launcher's environment hid from it is known only while it lives."""
    if spec is None:
        return ""
    return gpu_for(spec.run.device, spec.run.env.get("CUDA_VISIBLE_DEVICES", visible), here) or ""
