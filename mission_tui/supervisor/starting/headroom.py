"""What the machine can still give, and the queued runs, as the supervisor knows both at this moment."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.capacity.headroom import Headroom, MachineLimits, QueuedRun
from mission_tui.fleet.capacity.machine import SPARE_SHARE
from mission_tui.fleet.capacity.placement import DUTY, Gpu, choices
from mission_tui.fleet.capacity.reservation import Claim, claim_for, outstanding_ram, outstanding_vram
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.views.snapshot import GpuMeters
from mission_tui.supervisor.core import Core
from mission_tui.supervisor.starting.live_load import live_claims

__all__ = ["headroom_now", "queued_run"]


def headroom_now(core: Core, caps: MachineLimits) -> Headroom:
    """What is left beside the live runs of every runs root of this user, of whose claims the ledger tells."""
    ours = [
        *live_claims(core),
        *(claim for each in core.other_supervisors.others if each.trusted for claim in each.claims),
    ]
    strangers = [claim for each in core.other_supervisors.others if not each.trusted for claim in each.claims]
    machine = core.host.machine(False, None)
    free = None if machine.ram_free is None else machine.ram_free - outstanding_ram(ours)
    return Headroom(
        cores=core.host.cores,
        gpus=tuple(_gpu(gpu, ours) for gpu in core.gpu.gpus),
        ram_free=None if free is None else free - int(SPARE_SHARE * (machine.ram_total or 0)),
        ram_unpromised=None if free is None else free - outstanding_ram(strangers),
        ram_taken=sum(claim.ram_bytes for claim in ours),
        disk_free=machine.disk_free,
        cores_busy=sum(min(core.host.cores, claim.cores) for claim in ours),
        runs=len(ours),
        caps=caps,
    )


def queued_run(
    core: Core, id_: str, name: str, spec: Spec, visible: str | None, since_t: float, held: str = ""
) -> QueuedRun:
    """A run of `spec` that would begin; `visible` is the `CUDA_VISIBLE_DEVICES` that it would have."""
    uuids = [gpu.uuid for gpu in core.gpu.gpus]
    wants = spec.run.command is None and spec.run.device != "cpu"
    open_ = choices(spec.run.device, visible, uuids) if wants else ()
    if wants and not uuids and core.gpu.present():
        held = held or "waits for the first word about the GPUs"
    claim = claim_for(spec, core.host.cores, open_[0] if open_ else None, core.peaks.of(spec))
    return QueuedRun(id=id_, name=name, claim=claim, gpus=open_, limits=spec.keep.limits, since_t=since_t, held=held)


def _gpu(gpu: GpuMeters, claims: Sequence[Claim]) -> Gpu:
    here = [claim for claim in claims if claim.gpu == gpu.uuid and claim.vram_bytes]
    free = None
    if gpu.memory_total is not None and gpu.memory_used is not None:
        free = gpu.memory_total - gpu.memory_used - outstanding_vram(here, gpu.uuid)
    coming = sum(claim.vram_held_bytes < claim.vram_bytes for claim in here)
    seen = gpu.util.mean / 100.0 if gpu.util.mean is not None else DUTY * (len(here) - coming)
    taken = sum(claim.vram_bytes for claim in here)
    return Gpu(gpu.uuid, gpu.memory_total, free, len(here), seen + DUTY * coming, taken)
