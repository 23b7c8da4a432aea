"""`benchmark_metrics.json` of a run that was to train for a time: what it did in that time, by its own rows.

It has the shape of the file that `mission-tui bench` writes, with one preset and one repeat, so that `bench --vs` takes
either.
"""

from __future__ import annotations

import os
import resource
import socket
import tomllib
from contextlib import suppress

import msgspec
from msgspec import structs

from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.timed_runs import Load, Repeat, Side, pace_of, timing_of, work_of
from mission_tui.records.atomic import write_atomic
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir


def write_timed_metrics(run: RunDir, attempt: int, spec: Spec, *, finished: bool) -> None:
    """Write what `attempt` did of the time that the run was to train; nothing for a run with a budget in steps.
    `finished` is false where somebody stopped it.

    Only this attempt counts: the clock stood still between two. Where it did too few updates to take a speed from, the
    file says so in its notes, and has no measured preset. Raises `StorageError`, and `OSError` where its rows cannot be
    read.
    """
    asked_s = spec.run.duration_s
    if asked_s is None:
        return
    records = [it for it in read_all(run.metrics, MetricRecord)[0] if it.attempt == attempt]
    begun = next((it for it in records if isinstance(it, TrainingStarted)), None)
    timing, notes = timing_of(records, asked_s), []
    if attempt > 1:
        notes.append(f"only attempt {attempt}: what the run trained before is not in these numbers")
    if not finished:
        notes.append(f"stopped before its {asked_s:g} s were over")
    if timing is None or begun is None:
        updates = sum(isinstance(it, UpdateDone) for it in records)
        did = f"attempt {attempt} did {updates} update{'' if updates == 1 else 's'}"
        _write(run, spec, asked_s, [*notes, f"no speed: {did}, too few to take one from"], None)
        return
    timing = structs.replace(
        timing, timesteps=timing.timesteps - begun.from_timesteps, updates=timing.updates - begun.from_update
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    host = {"host": socket.gethostname(), "cores": str(len(os.sched_getaffinity(0)))}
    provenance = read_provenance(run, attempt)
    versions: dict[str, str] = {}
    with suppress(OSError, tomllib.TOMLDecodeError):
        found = tomllib.loads(run.attempt(attempt).effective.read_text()).get("host", {})
        versions = {name: str(value) for name, value in found.items() if name != "name"}
    side = Side(
        preset=spec.preset,
        asked_s=asked_s,
        repeats=(Repeat(run=run.id, seed=spec.run.seed, timing=timing, load=Load(peak_rss_bytes=peak)),),
        work=work_of(spec),
        host=host if provenance is None else host | provenance.machine,
        versions=versions,
    )
    _write(run, spec, asked_s, notes, side)


def _write(run: RunDir, spec: Spec, asked_s: float, notes: list[str], side: Side | None) -> None:
    pace = None if side is None else msgspec.to_builtins(pace_of(side.rates))
    document = {
        "schema": 1,
        "preset": spec.preset,
        "seconds": asked_s,
        "steps_per_s": pace,
        "vs": None,
        "ratio": None,
        "verdict": None,
        "notes": notes,
        "sides": [] if side is None else [{**msgspec.to_builtins(side), "steps_per_s": pace}],
    }
    write_atomic(run.timed, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
