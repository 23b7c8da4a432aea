"""The queue: which of the waiting runs begin now, on which GPU, and what each of the others waits for.

The rule. Runs are queued by the moment they came; a step of priority counts as much as an hour of waiting. For the
first run that is short of a resource, that resource is reserved: runs behind it get none of it, but may have any other.
So no run waits for ever, neither behind small runs nor behind important ones. A run that waits only for the headroom
its own preset asks for, or for another run, blocks no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mission_tui.fleet.capacity.headroom import Headroom, QueuedRun
from mission_tui.fleet.capacity.placement import choose, scarce
from mission_tui.fleet.capacity.shortages import gpu_shortage, machine_shortage, own_limit_shortage

__all__ = ["Admit", "Wait", "decide_queue"]

_MACHINE = ""


@dataclass(frozen=True, slots=True)
class Admit:
    """It begins, on the GPU `gpu` (UUID) or on none."""

    gpu: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """It waits: `why` is a sentence that goes on after its name."""

    why: str


def decide_queue(line: Sequence[QueuedRun], headroom: Headroom) -> dict[str, Admit | Wait]:
    """What becomes of each run in `line` now, by id, those in front first."""
    said: dict[str, Admit | Wait] = {}
    kept: dict[str, str] = {}
    for run in sorted(line, key=lambda it: it.place):
        said[run.id] = turn = Wait(run.held) if run.held else _decide(run, headroom, kept)
        if isinstance(turn, Admit):
            headroom = headroom.without(run.claim, turn.gpu)
    return said


def _decide(run: QueuedRun, headroom: Headroom, kept: dict[str, str]) -> Admit | Wait:
    """What becomes of `run`. `kept` says what is kept (a GPU's UUID, "" the whole machine), and for whom."""
    if _MACHINE in kept:
        return Wait(f"waits behind {kept[_MACHINE]}")
    if lack := machine_shortage(run, headroom):
        kept[_MACHINE] = _in_short(run, lack)
        return Wait(lack)
    gpus, need = headroom.gpus_of(run), run.claim.vram_bytes
    # One too small for it is of no use to it, however long it is kept.
    able = [gpu for gpu in gpus if gpu.total is None or gpu.total >= need]
    open_ = [gpu for gpu in able if gpu.uuid not in kept]
    if able and not open_:
        return Wait(f"waits behind {kept[able[0].uuid]}")
    if gpus and choose(headroom.capped(open_), need, headroom.caps.runs_per_gpu) is None:
        lack, wanted = gpu_shortage(run, open_, headroom), scarce(headroom.capped(open_))
        if wanted is not None:
            kept[wanted.uuid] = _in_short(run, lack)
        return Wait(lack)
    if lack := own_limit_shortage(run, headroom, open_):
        return Wait(lack)
    chosen = headroom.choose_for(run, open_)
    return Admit("" if chosen is None else chosen.uuid)


def _in_short(run: QueuedRun, lack: str) -> str:
    return f"{run.name}, which {lack.partition(':')[0]}"
