"""Strip: what the GPUs did over the asked time."""

from __future__ import annotations

import time

from msgspec import structs

from mission_tui.fleet.cells import Cell
from mission_tui.fleet.strip import GpuTrack, Strip
from mission_tui.ipc.replies import StripReply
from mission_tui.ipc.requests import GetStrip
from mission_tui.supervisor.core import Core

__all__ = ["strip"]


async def strip(core: Core, request: GetStrip) -> StripReply:
    """The tracks between two moments; a GPU that is not here any more is not among them."""
    now, ahead = time.time(), time.time() - time.monotonic()
    until = now if request.until is None else min(now, request.until)
    since = until - request.seconds

    def cells(uuid: str) -> tuple[Cell, ...]:
        found = core.gpu.busy[uuid].between(since - ahead, until - ahead, request.most)
        return tuple(structs.replace(cell, t=cell.t + ahead) for cell in found)

    tracks = tuple(GpuTrack(uuid=gpu.uuid, name=gpu.name, busy=cells(gpu.uuid)) for gpu in core.gpu.gpus)
    return StripReply(re=request.id, strip=Strip(since=since, until=until, gpus=tracks))
