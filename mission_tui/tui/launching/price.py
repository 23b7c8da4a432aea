"""What a launch would cost, as lines: memory, cores, times and where they come from, and whether it would begin now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.style import Style

from mission_tui.fleet.capacity.cost import Cost, Pace, first_update_s, whole_run_s
from mission_tui.fleet.specs.spec import Spec
from mission_tui.ipc.replies import Quoted
from mission_tui.ipc.requests import LaunchItem
from mission_tui.tui.drawing import colours, numbers

__all__ = ["ELSEWHERE", "Said", "price"]

ELSEWHERE = (
    "Seeds that do not count up: run.seed=1,7 in the changes. Not from here but with mission-tui launch: several "
    "presets at once (A B), a file in no presets folder (--preset FILE), a command of your own (-- CMD), staying until "
    "they have ended (--wait)."
)

Said = tuple[str, Style]
"""A sentence, and how it is written."""

_DIFFERING = 3


def price(items: Sequence[LaunchItem], quoted: Quoted, cores: int | None, now: float) -> Iterator[Said]:
    """For the first of `items`, and for all of them together, on a machine of `cores` at unix time `now`."""
    first, spec = quoted.costs[0], items[0].spec
    if quoted.decided and not quoted.refused:
        yield _beginning(quoted.costs)
    yield f"{_memory(first)}   {_cores(first.cores, cores)}", colours.INK
    if spec.run.command is None:
        yield from ((text, colours.INK) for text in _times(spec, first.pace, now))
    if len(quoted.costs) > 1:
        yield _together(quoted.costs), colours.INK
    for warning in quoted.warnings:
        yield f"▲ {warning}", colours.WARN


def _memory(cost: Cost) -> str:
    ram = f"memory {numbers.size(cost.ram_bytes)} ({_source(seen=cost.ram_seen)})"
    if cost.vram_bytes is None:
        return f"{ram}   GPU memory none"
    return f"{ram}   GPU memory {numbers.size(cost.vram_bytes)} ({_source(seen=cost.vram_seen)})"


def _source(*, seen: bool) -> str:
    return "seen before" if seen else "estimate"


def _cores(count: int, cores: int | None) -> str:
    return f"cores {count}" if cores is None else f"cores {count} of {cores}"


def _times(spec: Spec, pace: Pace | None, now: float) -> Iterator[str]:
    if pace is None:
        whole = f"trains for {numbers.duration(whole)}" if (whole := whole_run_s(spec, None)) is not None else ""
        yield "   ".join(filter(None, (whole, "never run here: no speed is known; Ctrl-T tries it and says")))
        return
    first = numbers.duration(first_update_s(spec, pace))
    whole = numbers.duration(whole_run_s(spec, pace))
    yield f"first update after {first}   whole run {whole}"
    others = len(pace.differs) - _DIFFERING
    differs = ", ".join(pace.differs[:_DIFFERING]) + (f" and {others} more" if others > 0 else "")
    but = f", but it had {differs}" if differs else ""
    yield f"at {numbers.rate(pace.steps_per_s)} steps/s, as {pace.name} {numbers.ago(pace.t, now)}{but}"


def _together(costs: Sequence[Cost]) -> str:
    vram = [cost.vram_bytes for cost in costs if cost.vram_bytes is not None]
    gpu = f", {numbers.size(sum(vram))} of GPU memory" if vram else ""
    ram = numbers.size(sum(cost.ram_bytes for cost in costs))
    return f"all {len(costs)} at once: {ram} of memory{gpu}, {sum(cost.cores for cost in costs)} cores"


def _beginning(costs: Sequence[Cost]) -> Said:
    waiting = [cost for cost in costs if cost.waits]
    if not waiting:
        every = "begins" if len(costs) == 1 else f"all {len(costs)} begin"
        return f"✓ {every} now{_where(costs)}", colours.GOOD
    if len(costs) == 1:
        return f"◌ {waiting[0].waits}", colours.WARN
    going = len(costs) - len(waiting)
    begin = f"{going} begin now, " if going else ""
    return f"◌ {begin}{len(waiting)} queued: the first {waiting[0].waits}", colours.WARN


def _where(costs: Sequence[Cost]) -> str:
    gpus = sorted({cost.gpu for cost in costs if cost.gpu is not None})
    if not gpus:
        return ""
    return f" on GPU {', '.join(map(str, gpus))}"
