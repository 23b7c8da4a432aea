"""What is said of a machine: how it is shared, which run used its GPUs, and what each of several offers for a launch.

How one is shared: what the runs take together, what other programs take, and whether kernels of several processes run
side by side on one GPU (NVIDIA MPS), or the processes take turns. MPS is explained and offered as a command to copy.
Nothing here starts it: a fatal GPU fault of one of its clients can take the others with it, so whether that is worth
it is the person's to say.

Which run used a GPU's time and energy (`attribute`): a strip's cells laid over the phases of the runs on each GPU. A
cell seldom lies in one phase alone, so how busy a GPU is in updates and outside of them is what fits all its cells
best (least squares over the seconds of each). Energy is split evenly, at each moment, among the runs on the GPU that
were alive then, paused ones too. What cannot be told apart is None.

What one offers: how many of the runs of a launch would begin there at once, and when the last would be through. A user
who asks for the best machine gets the one on which the fewest runs wait, and of several such the one that is through
first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.strip import Cell, GpuTrack, Lane, Span, Strip, merged
from mission_tui.fleet.views.snapshot import FleetSnapshot, GpuMeters, HostMeters, RunView
from mission_tui.present.numbers import duration

if TYPE_CHECKING:
    from mission_tui.gpu_driver import Mps


class Offer(Struct, frozen=True, order=True):
    """Of `runs` so many wait; the last one trains until `takes_s` (infinite where nothing like it has run there)."""

    waits: int
    takes_s: float
    runs: int = 1

    @property
    def sentence(self) -> str:
        """For people: `1 of 1 would begin at once and train for 3m20`."""
        words = f"{self.runs - self.waits} of {self.runs} would begin at once"
        return words if self.takes_s == math.inf else f"{words} and train for {duration(self.takes_s)}"


def best(offers: Mapping[str, Offer]) -> str | None:
    """The machine with the best offer, the first of equals; None without any."""
    return min(offers, key=lambda name: (offers[name].waits, offers[name].takes_s)) if offers else None


START = "nvidia-cuda-mps-control -d"
STOP = "echo quit | nvidia-cuda-mps-control"


class Share(Struct, frozen=True):
    """Processor percent (100 is one core) and bytes of GPU memory: `ours`, and what others take of the machine.

    None is not known. Resident memory is no sum that means anything, since processes share pages.
    """

    cpu_ours: float
    cpu_others: float | None
    vram_ours: int | None
    vram_others: int | None


def share_of(host: HostMeters, gpus: Sequence[GpuMeters], runs: Sequence[RunView]) -> Share:
    """The machine as it is shared now; never below zero, as meters of different moments may say."""
    used = [view.usage for view in runs if view.usage is not None]
    ours = sum(usage.cpu_percent for usage in used)
    vram = [usage.vram_bytes for usage in used if usage.vram_bytes is not None]
    known = [gpu.memory_used for gpu in gpus if gpu.memory_used is not None]
    others = None if host.cpu_percent is None else max(0.0, host.cpu_percent * host.cores - ours)
    vram_ours = sum(vram) if vram else (0 if known else None)
    vram_others = None if not known or vram_ours is None else max(0, sum(known) - vram_ours)
    return Share(ours, others, vram_ours, vram_others)


def sharing_sentence(snapshot: FleetSnapshot, mps: Mps) -> str | None:
    """What runs that share a GPU should know of MPS; None while surely no two of them do."""
    exclusive = [str(place) for place, gpu in enumerate(snapshot.gpus) if gpu.compute_mode == "exclusive process"]
    if exclusive and not mps.running:
        places = ", ".join(exclusive)
        return f"GPU {places} takes one process at a time (compute mode exclusive): without MPS a second run fails"
    holders = [view for view in snapshot.runs if view.usage is not None and view.usage.vram_bytes]
    if not snapshot.gpus or len(holders) <= len(snapshot.gpus):
        return None
    if mps.running and mps.ours:
        return "MPS is on: what several runs compute on one GPU runs side by side"
    if mps.running:
        return f"runs share a GPU and take turns on it: the MPS that runs at {mps.folder} is another user's"
    if not mps.installed:
        return "runs share a GPU and take turns on it: NVIDIA MPS, which would run them side by side, is not installed"
    return f"runs share a GPU and take turns on it; side by side they run under MPS, for runs that start after: {START}"


LEAST_S = 5.0
"""Of watched time, before anything is said of it."""
LIVED = 0.9
"""A cell counts where some run was alive for so much of it."""
_ELSEWHEN = 2.0
"""Percent by which it was busier, or less so, beside runs than over all: more than rounding and the fit leave."""
LEAST_SPREAD = 0.01
"""Variance of the shares of updates in the cells: below, all cells look alike and nothing can be told apart."""


class GpuDuty(Struct, frozen=True, kw_only=True):
    """How busy one GPU was, in percent: over all (`busy`, and `peak` in a look), while any run on it did an update
    (`in_updates`) and while none did (`otherwise`). `updating` is the percent of the time in which one did: what one
    would expect to be busy if updates kept the GPU busy and rollouts did not.
    """

    uuid: str
    name: str
    seconds: float
    busy: float
    peak: float
    updating: float | None = None
    in_updates: float | None = None
    otherwise: float | None = None


class RunShare(Struct, frozen=True, kw_only=True):
    """A run's `rollout` and `update` as percent of the `seconds` in which its phase was known; its part of the energy.

    `steps` are the timesteps that it did in the strip's time.
    """

    run: str
    name: str
    seconds: float
    rollout: float
    update: float
    steps: int | None = None
    joules: float | None = None

    @property
    def joules_per_million_steps(self) -> float | None:
        """None while the energy or the steps are not known."""
        return None if self.joules is None or not self.steps else self.joules * 1e6 / self.steps


class Attribution(Struct, frozen=True, kw_only=True):
    """A duty per GPU that was watched, a share per run with phases."""

    gpus: tuple[GpuDuty, ...] = ()
    runs: tuple[RunShare, ...] = ()


def attribute(strip: Strip) -> Attribution:
    """What the strip says of its GPUs and runs. Short updates are told apart by fine cells only: ask for many."""
    duties = (_duty(gpu, [lane for lane in strip.lanes if lane.gpu == gpu.uuid]) for gpu in strip.gpus)
    energy = _energy(strip)
    return Attribution(
        gpus=tuple(duty for duty in duties if duty is not None),
        runs=tuple(_share(lane, energy.get(lane.run)) for lane in strip.lanes if lane.spans),
    )


def duty_sentence(duty: GpuDuty) -> str:
    """Such as "GPU busy 18 % of the time, 97 % during updates, 3 % otherwise; updates took 16 % of it".

    Updates are looked for while runs were there, which may be a part of the time: then it is said how busy it was in
    that, since a mean of both that is lower than either is nothing that anybody could make sense of.
    """
    words = f"GPU busy {duty.busy:.0f} % of the time"
    if duty.updating is None:
        return f"{words}, at most {duty.peak:.0f} %"
    updates, of = f"updates took {duty.updating:.0f} %", "it"
    if duty.in_updates is None or duty.otherwise is None:
        words += f", at most {duty.peak:.0f} %"
    else:
        share = duty.updating / 100.0
        beside_runs = share * duty.in_updates + (1.0 - share) * duty.otherwise
        if abs(beside_runs - duty.busy) >= _ELSEWHEN:
            words, of = f"{words}, {beside_runs:.0f} % while runs trained:", "that"
        else:
            words += ","
        words += f" {duty.in_updates:.0f} % during updates, {duty.otherwise:.0f} % otherwise"
    return f"{words}; {updates} of {of}"


def _share(lane: Lane, joules: float | None) -> RunShare:
    seconds = sum(span.until - span.since for span in lane.spans)
    parts = {phase: _seconds(lane.spans, phase) / seconds * 100.0 for phase in ("rollout", "update")}
    return RunShare(
        run=lane.run,
        name=lane.name,
        seconds=seconds,
        rollout=parts["rollout"],
        update=parts["update"],
        steps=lane.steps,
        joules=joules,
    )


def _seconds(spans: Sequence[Span], phase: Phase | str) -> float:
    return sum(span.until - span.since for span in spans if span.phase == phase)


def _duty(gpu: GpuTrack, lanes: Sequence[Lane]) -> GpuDuty | None:
    whole = merged(0.0, gpu.busy)
    if whole is None or whole.seconds < LEAST_S:
        return None
    duty = GpuDuty(uuid=gpu.uuid, name=gpu.name, seconds=whole.seconds, busy=whole.mean, peak=whole.most)
    times = _times(gpu.busy)
    alive = _covered(times, _union(span for lane in lanes for span in lane.spans))
    updates = _covered(times, _union(span for lane in lanes for span in lane.spans if span.phase == "update"))
    seen = [
        (cell.mean, min(1.0, updated / (end - begin)), cell.seconds)
        for cell, (begin, end), lived, updated in zip(gpu.busy, times, alive, updates, strict=True)
        if lived > LIVED * (end - begin)
    ]
    weight = sum(seconds for _, _, seconds in seen)
    if weight < LEAST_S:
        return duty
    updating = sum(share * seconds for _, share, seconds in seen) / weight
    duty = structs.replace(duty, updating=100.0 * updating)
    spread = sum((share - updating) ** 2 * seconds for _, share, seconds in seen) / weight
    if spread < LEAST_SPREAD:
        return duty
    busy = sum(mean * seconds for mean, _, seconds in seen) / weight
    slope = sum((share - updating) * (mean - busy) * seconds for mean, share, seconds in seen) / weight / spread
    otherwise = busy - slope * updating
    in_updates, otherwise = (min(100.0, max(0.0, value)) for value in (otherwise + slope, otherwise))
    return structs.replace(duty, in_updates=in_updates, otherwise=otherwise)


def _energy(strip: Strip) -> dict[str, float]:
    """Joules by run."""
    joules = dict[str, float]()
    for gpu in strip.gpus:
        lanes = [lane for lane in strip.lanes if lane.gpu == gpu.uuid and lane.spans]
        times = _times(gpu.power)
        alive = [_covered(times, _union(lane.spans)) for lane in lanes] if times else []
        for place, (cell, (begin, end)) in enumerate(zip(gpu.power, times, strict=True)):
            parts = [covered[place] / (end - begin) for covered in alive]
            together = max(1.0, sum(parts))
            for lane, part in zip(lanes, parts, strict=True):
                if part > 0.0:
                    joules[lane.run] = joules.get(lane.run, 0.0) + cell.mean * (end - begin) * part / together
    return joules


def _times(cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """From when to when each cell was looked at."""
    ends = [*(cell.t for cell in cells[1:]), float("inf")][: len(cells)]
    return [(cell.t, min(end, cell.t + max(cell.seconds, 1e-3))) for cell, end in zip(cells, ends, strict=True)]


def _union(spans: Iterable[Span]) -> list[tuple[float, float]]:
    """The moments in any of the spans, in order, none twice."""
    found = list[tuple[float, float]]()
    for since, until in sorted((span.since, span.until) for span in spans):
        if found and since <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], until)
        else:
            found.append((since, until))
    return found


def _covered(times: Sequence[tuple[float, float]], stretches: Sequence[tuple[float, float]]) -> list[float]:
    """Of each of the times, how many seconds lie in the stretches; both are in order."""
    covered, place = list[float](), 0
    for begin, end in times:
        while place < len(stretches) and stretches[place][1] <= begin:
            place += 1
        seconds, at = 0.0, place
        while at < len(stretches) and stretches[at][0] < end:
            seconds += min(end, stretches[at][1]) - max(begin, stretches[at][0])
            at += 1
        covered.append(seconds)
    return covered
