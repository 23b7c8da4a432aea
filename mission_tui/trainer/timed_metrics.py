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

from mission_tui.fleet.bench.ratio import pace_of
from mission_tui.fleet.bench.repeat import Load, Repeat, Side, timing_of, work_of
from mission_tui.fleet.events.metrics import MetricRecord
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.files.atomic import write_atomic
from mission_tui.records.files.tail import read_all
from mission_tui.records.runs.code_files import read_provenance
from mission_tui.records.runs.layout import RunDir


def write_timed_metrics(run: RunDir, attempt: int, spec: Spec) -> None:
    """Write it, unless the run has a budget in steps, is continued, or did too few updates to take a speed from.

    Raises `StorageError`, and `OSError` where its rows cannot be read.
    """
    asked_s = spec.run.duration_s
    timing = None if asked_s is None or attempt > 1 else timing_of(read_all(run.metrics, MetricRecord)[0], asked_s)
    if asked_s is None or timing is None:
        return
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
    pace = msgspec.to_builtins(pace_of(side.rates))
    document = {
        "schema": 1,
        "preset": spec.preset,
        "seconds": asked_s,
        "steps_per_s": pace,
        "vs": None,
        "ratio": None,
        "verdict": None,
        "notes": [],
        "sides": [{**msgspec.to_builtins(side), "steps_per_s": pace}],
    }
    write_atomic(run.timed, msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
