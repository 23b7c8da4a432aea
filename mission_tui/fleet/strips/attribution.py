"""Which run used the GPU's time and energy: a strip's cells laid over the phases of the runs on each GPU.

A cell seldom lies in one phase alone, so how busy a GPU is in updates and outside of them is what fits all its cells
best (least squares over the seconds of each). Energy is split evenly, at each moment, among the runs on the GPU that
were alive then, paused ones too. What cannot be told apart is None.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

from mission_tui.fleet.events.outcome import Phase
from mission_tui.fleet.strips.strip import Cell, GpuTrack, Lane, Span, Strip, merged

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
