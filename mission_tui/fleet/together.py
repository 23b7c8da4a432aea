"""What several runs at once ask of one machine: memory and cores in all, beside the runs that are live already."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.machine import Assessment, Machine, assess, likely_workers
from mission_tui.fleet.spec import Spec

__all__ = ["assess_together", "wanted_cores"]

MIB = 1 << 20


def assess_together(specs: Sequence[Spec], machine: Machine, live: Sequence[Spec] = ()) -> Assessment:
    """What `machine` lacks for `specs` at once beside `live`, whose memory is not part of `machine.ram_free` any more.

    Each spec is judged alone first, so that what it lacks by itself is said of it by name.
    """
    alone = [assess(spec, machine) for spec in specs]
    needed = sum(each.ram_bytes for each in alone)
    hard = [f"{spec.preset}: {lack}" for spec, each in zip(specs, alone, strict=True) for lack in each.hard]
    if not hard and machine.ram_free is not None and needed > machine.ram_free:
        hard.append(_memory(alone, needed, machine.ram_free))
    warnings = [f"{spec.preset}: {word}" for spec, each in zip(specs, alone, strict=True) for word in each.warnings]
    warnings += _cores(specs, machine.cores, live)
    return Assessment(tuple(dict.fromkeys(hard)), tuple(dict.fromkeys(warnings)), needed)


def wanted_cores(spec: Spec, cores: int) -> int:
    """Cores of `cores` that a run of `spec` keeps busy, at least: its workers and its threads take turns."""
    # "auto" may start none; it is not counted against anybody before it was measured.
    workers = likely_workers(spec, cores) if spec.env.vec == "workers" or spec.env.n_workers is not None else 0
    return min(cores, max(spec.run.threads or 1, workers))


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


def _cores(specs: Sequence[Spec], cores: int, live: Sequence[Spec]) -> list[str]:
    runs = len(specs) + len(live)
    wanted = sum(wanted_cores(spec, cores) for spec in (*specs, *live))
    if runs == 1 or wanted <= cores:
        return []
    threads = max((spec.run.threads or 1 for spec in specs), default=1)
    remedy = "; run.threads = 1 contends least" if threads > 1 else ""
    beside = f", {len(live)} of them live already," if live else ""
    unhurried = max(1, runs * cores // wanted)
    sentence = (
        f"{runs} runs at once{beside} keep {wanted} cores busy and there are {cores}: each goes at "
        f"{cores / wanted:.0%} of its speed alone at best, {unhurried} would go at full speed{remedy}"
    )
    return [sentence]
