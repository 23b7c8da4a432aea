"""Whose turn it is: of the runs in line, which begin now, on which GPU, and what each of the others waits for.

The rule. Runs stand in line by the moment they came; a step of priority counts as much as an hour of waiting. The first
that lacks something is kept what it lacks: nobody behind it is given of that, but may have what it does not lack. So
nobody is passed by for ever, neither by small runs nor by important ones. Who lacks only what its own preset asks to be
left beyond its needs, or waits for another run, keeps nothing from anybody.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mission_tui.fleet.capacity.lacks import gpu_lack, machine_lack, own_lack
from mission_tui.fleet.capacity.placement import choose, scarce
from mission_tui.fleet.capacity.room import InLine, Room

__all__ = ["Go", "Wait", "turns"]

_MACHINE = ""


@dataclass(frozen=True, slots=True)
class Go:
    """It begins, on the GPU `gpu` (UUID) or on none."""

    gpu: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """It waits: `why` is a sentence that goes on after its name."""

    why: str


def turns(line: Sequence[InLine], room: Room) -> dict[str, Go | Wait]:
    """What becomes of each run in `line` now, by id, those in front first."""
    said: dict[str, Go | Wait] = {}
    kept: dict[str, str] = {}
    for run in sorted(line, key=lambda it: it.place):
        said[run.id] = turn = Wait(run.held) if run.held else _turn(run, room, kept)
        if isinstance(turn, Go):
            room = room.without(run.claim, turn.gpu)
    return said


def _turn(run: InLine, room: Room, kept: dict[str, str]) -> Go | Wait:
    """What becomes of `run`. `kept` says what is kept (a GPU's UUID, "" the whole machine), and for whom."""
    if _MACHINE in kept:
        return Wait(f"waits behind {kept[_MACHINE]}")
    if lack := machine_lack(run, room):
        kept[_MACHINE] = _in_short(run, lack)
        return Wait(lack)
    gpus, need = room.gpus_of(run), run.claim.vram_bytes
    # One too small for it is of no use to it, however long it is kept.
    able = [gpu for gpu in gpus if gpu.total is None or gpu.total >= need]
    open_ = [gpu for gpu in able if gpu.uuid not in kept]
    if able and not open_:
        return Wait(f"waits behind {kept[able[0].uuid]}")
    if gpus and choose(room.capped(open_), need, room.caps.runs_per_gpu) is None:
        lack, wanted = gpu_lack(run, open_, room), scarce(room.capped(open_))
        if wanted is not None:
            kept[wanted.uuid] = _in_short(run, lack)
        return Wait(lack)
    if lack := own_lack(run, room, open_):
        return Wait(lack)
    chosen = room.choose_for(run, open_)
    return Go("" if chosen is None else chosen.uuid)


def _in_short(run: InLine, lack: str) -> str:
    return f"{run.name}, which {lack.partition(':')[0]}"
