"""The campaign: trains what is not recorded yet, judges the harm, and writes the manifest.

Run: ``python -m benchmarks.health.record``. A trace that exists is never trained again; labels are computed anew every
time, so that they always belong to the harm tests as they are.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Sequence
from typing import Literal

from benchmarks.health.constructions import CONSTRUCTIONS, TWINS, Construction
from benchmarks.health.halves import SEEDS, THREE_LABELS
from benchmarks.health.harm import Harm
from benchmarks.health.trace import Trace, TraceLabel, read_trace, trace_path, write_manifest, write_trace
from benchmarks.health.train import record_training

__all__ = ["main"]

Job = tuple[int, int]
"""The index of a construction, and a seed: tamperers are closures, which no other process could be sent."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Record what is missing, then label everything that is there."""
    parser = argparse.ArgumentParser(prog="benchmarks.health.record", description="Record constructed trainings.")
    parser.add_argument("--only", action="append", help="name of a construction; may be given several times")
    parser.add_argument("--half", choices=list(SEEDS), action="append", help="only what belongs to this half")
    parser.add_argument("--seed", type=int, action="append", help="only these seeds")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, one core each")
    options = parser.parse_args(arguments)
    missing: list[Job] = [
        (index, seed)
        for index, construction in enumerate(CONSTRUCTIONS)
        if construction.half in (options.half or SEEDS)
        if not options.only or construction.name in options.only
        for seed in construction.seeds
        if not options.seed or seed in options.seed
        if not trace_path(construction.trace_name(seed)).exists()
    ]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for done, (name, seconds) in enumerate(pool.imap(_record, missing), 1):
            print(f"{done}/{len(missing)} {name} {seconds:.0f} s", flush=True)
    write_manifest(labels())


def labels() -> list[TraceLabel]:
    """A label for every trace that is there and whose twin is."""
    return [
        label
        for half in SEEDS
        for construction in CONSTRUCTIONS
        if construction.half == half
        for seed in construction.seeds
        if (label := _label(construction, seed)) is not None
    ]


def _record(job: Job) -> tuple[str, float]:
    construction, seed = CONSTRUCTIONS[job[0]], job[1]
    name, begun_s = construction.trace_name(seed), time.monotonic()
    if trace_path(name).exists():
        # Another campaign was quicker.
        return name, 0.0
    task, preset = construction.task, f"{construction.name}-{construction.task.name}"
    attempts = [task.spec(preset, seed, construction.updates, construction.ppo)]
    if construction.resumed is not None:
        changed = {**construction.ppo, **construction.resumed}
        attempts.append(task.spec(preset, seed, construction.updates, changed, construction.resumed_env))
    write_trace(trace_path(name), record_training(name, attempts, construction.tamper))
    return name, time.monotonic() - begun_s


def _label(construction: Construction, seed: int) -> TraceLabel | None:
    path, twin_path = trace_path(construction.trace_name(seed)), trace_path(_twin(construction).trace_name(seed))
    if not path.exists() or (construction.harm and not twin_path.exists()):
        return None
    trace = read_trace(path)
    harm = _harm(construction, trace, read_trace(twin_path)) if construction.harm else None
    return TraceLabel(
        name=trace.name,
        construction=construction.name,
        env=trace.spec.env.id,
        seed=seed,
        half=construction.half,
        label=_word(construction, harm),
        onset_update=construction.onset,
        harm_update=None if harm is None else harm.update,
        harm_until=None if harm is None else harm.until,
        rules=() if harm is None else construction.rules,
        twin=_twin(construction).trace_name(seed) if construction.harm else None,
        updates=len(trace.updates),
        harm="" if harm is None else harm.sentence,
        note=construction.note,
        busy=trace.busy,
    )


def _word(construction: Construction, harm: Harm | None) -> Literal["positive", "healthy", "unclear"]:
    if harm is not None:
        return "positive"
    return "unclear" if construction.harm and construction.task.name in THREE_LABELS else "healthy"


def _twin(construction: Construction) -> Construction:
    """The healthy training of the same task; of a task that has none, that of the same environment."""
    task = construction.task
    same = [twin for twin in TWINS if twin.task.name == task.name]
    same += [twin for twin in TWINS if twin.task.env.id == task.env.id]
    return same[0] if same else construction


def _harm(construction: Construction, trace: Trace, twin: Trace) -> Harm | None:
    onset = construction.onset or 1
    found = (test(trace, twin, onset, construction.task.scores) for test in construction.harm)
    return next((harm for harm in found if harm is not None), None)


if __name__ == "__main__":
    main()
