"""What several runs at once ask of one machine: memory and cores in all, beside those that are live already, here and
at other runs roots.
"""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.capacity.machine import Assessment, Machine, assess, busy_cores
from mission_tui.fleet.capacity.reservation import Claim
from mission_tui.fleet.specs.spec import Spec

__all__ = ["assess_combined"]

MIB = 1 << 20


def assess_combined(
    specs: Sequence[Spec],
    machine: Machine,
    live: Sequence[Spec] = (),
    elsewhere: Sequence[Claim] = (),
    *,
    waits: bool = False,
    seen: Sequence[int | None] = (),
) -> Assessment:
    """What `machine` lacks for `specs` at once beside `live`, whose memory is not part of `machine.ram_free` any more.

    Runs `elsewhere` on the machine keep their cores busy too. With `waits` each begins when it can. `seen` are bytes
    of memory that runs like each of `specs` took, where that is known.

    Each spec is judged alone first, so that what it lacks by itself is said of it by name.
    """
    known = seen or [None] * len(specs)
    alone = [assess(spec, machine, waits=waits, seen_bytes=it) for spec, it in zip(specs, known, strict=True)]
    needed = sum(each.ram_bytes for each in alone)
    hard = [f"{spec.preset}: {lack}" for spec, each in zip(specs, alone, strict=True) for lack in each.hard]
    if not hard and not waits and machine.ram_free is not None and needed > machine.ram_free:
        hard.append(_memory(alone, needed, machine.ram_free))
    warnings = [f"{spec.preset}: {word}" for spec, each in zip(specs, alone, strict=True) for word in each.warnings]
    warnings += _cores(specs, machine.cores, live, [claim for claim in elsewhere if claim.cores])
    return Assessment(tuple(dict.fromkeys(hard)), tuple(dict.fromkeys(warnings)), needed)


def _memory(alone: Sequence[Assessment], needed: int, free: int) -> str:
    left, fitting = free, 0
    for each in alone:
        left -= each.ram_bytes
        if left < 0:
            break
        fitting += 1
    return (
        f"{len(alone)} runs at once need about {needed / MIB:,.0f} MiB of memory in all and {free / MIB:,.0f} MiB are "
        f"free; launch the first {fitting} now, or make them smaller"
    )


def _cores(specs: Sequence[Spec], cores: int, live: Sequence[Spec], elsewhere: Sequence[Claim]) -> list[str]:
    runs = len(specs) + len(live) + len(elsewhere)
    wanted = sum(busy_cores(spec, cores) for spec in (*specs, *live))
    wanted += sum(min(cores, claim.cores) for claim in elsewhere)
    if runs == 1 or wanted <= cores:
        return []
    threads = max((spec.run.threads or 1 for spec in specs), default=1)
    remedy = "; run.threads = 1 contends least" if threads > 1 else ""
    others = [f"{len(live)} of them live already"] if live else []
    others += [f"{len(elsewhere)} of them at other runs roots"] if elsewhere else []
    beside = f", {' and '.join(others)}," if others else ""
    unhurried = max(1, runs * cores // wanted)
    sentence = (
        f"{runs} runs at once{beside} keep {wanted} cores busy and there are {cores}: each goes at "
        f"{cores / wanted:.0%} of its speed alone at best, {unhurried} would go at full speed{remedy}"
    )
    return [sentence]
