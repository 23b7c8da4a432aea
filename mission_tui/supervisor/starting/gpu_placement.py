"""An attempt's GPU, on a machine with several: written into its order before it is handed to a keeper.

What a shell or a spec chose by number is left as it is. The next attempt is placed anew, from what the shell said.
"""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.capacity.admission import size_of
from mission_tui.fleet.capacity.headroom import MachineLimits
from mission_tui.fleet.capacity.placement import Gpu, choices, choose, scarce
from mission_tui.fleet.capacity.reservation import claim_for
from mission_tui.fleet.events.processes import Placement
from mission_tui.records.runs.attempt import LaunchOrder
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.run import LiveRun
from mission_tui.supervisor.starting.caller import VISIBLE
from mission_tui.supervisor.starting.headroom import headroom_now

__all__ = ["with_placement"]

ORDER, AS_LISTED = "CUDA_DEVICE_ORDER", "PCI_BUS_ID"


def with_placement(core: Core, run: LiveRun, order: LaunchOrder) -> tuple[LaunchOrder, Placement | None]:
    """The order as it is carried out, and the GPU that was chosen, if one was. Raises `StorageError`."""
    chosen_by_queue, run.gpu = run.gpu, ""
    uuids = [gpu.uuid for gpu in core.gpu.gpus]
    if run.spec is None or run.spec.run.command is not None or len(uuids) < 2 or order.gpu:
        return order, None
    device, visible = run.spec.run.device, order.env.get(VISIBLE)
    open_ = choices(device, visible, uuids)
    if len(open_) < 2:
        if ":" in device and visible is None and ORDER not in order.env:
            # CUDA counts the fastest first; whoever wrote a number has read it where GPUs are listed by their slots.
            order = structs.replace(order, env=order.env | {ORDER: AS_LISTED})
            core.seals.write_order(run.dir, order)
        return order, None
    gpus = [gpu for gpu in headroom_now(core, MachineLimits()).gpus if gpu.uuid in open_]
    by_uuid = {gpu.uuid: gpu for gpu in gpus}
    gpu = by_uuid.get(chosen_by_queue) or _best(run, core, gpus)
    order = structs.replace(order, env=order.env | {VISIBLE: gpu.uuid}, gpu=gpu.uuid, visible=visible)
    core.seals.write_order(run.dir, order)
    return order, Placement(gpu.uuid, uuids.index(gpu.uuid), _why(gpu, len(gpus)))


def _best(run: LiveRun, core: Core, gpus: list[Gpu]) -> Gpu:
    """For what somebody resumes, which does not wait: where there is room, or else most of it."""
    assert run.spec is not None
    need = claim_for(run.spec, core.host.cores, gpus[0].uuid, core.peaks.of(run.spec)).vram_bytes
    best = choose(gpus, need) or scarce(gpus)
    assert best is not None
    return best


def _why(gpu: Gpu, count: int) -> str:
    free = "" if gpu.free is None else f", {size_of(max(0, gpu.free))} free and promised to no run"
    runs = f"{gpu.runs} run{'' if gpu.runs == 1 else 's'} on it"
    return f"of {count} GPUs the calmest with room: {round(100 * gpu.busy)} % busy, {runs}{free}"
