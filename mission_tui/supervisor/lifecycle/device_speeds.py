"""Whether the net of a spec is faster on the CPU or on the GPU, on a machine that has one: measured once in a short
process of the run's own Python, then kept beside the journals of tunes, for the same net on the same machine.

It is a hint: whatever goes wrong with it is no reason to refuse a run.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from mission_tui.fleet.bench.device_speeds import DevicesMeasured, DeviceSpeeds
from mission_tui.fleet.specs.spec import Spec
from mission_tui.fleet.tuning.profile import task_of
from mission_tui.plain_files import make_folder
from mission_tui.records.files.append import AppendLog
from mission_tui.records.files.atomic import StorageError
from mission_tui.records.files.tail import read_all
from mission_tui.records.tuning_files import devices_journal, versions_here
from mission_tui.supervisor.host.tasks import Task, TaskError, run_task
from mission_tui.supervisor.launchers.caller import VISIBLE, Caller, as_module, needs_no_preflight, with_spec_env
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.machine_state import DECISIVE_S

MOST_S, LAUNCH_S = 60.0, 20.0
"""torch, a driver's first call, a large net on one core; a launch does not wait for a hint as long as a check does, and
not at all where nothing of it is tried anyway: then it says what is known.
"""


async def device_speeds(core: Core, spec: Spec, caller: Caller, most_s: float = MOST_S) -> DeviceSpeeds | None:
    """What is kept of such a net, else what is measured within `most_s` (0: nothing is); None without a GPU, and where
    it cannot be measured.
    """
    if spec.run.command is not None:
        return None
    await core.machine.measure(DECISIVE_S)
    gpus = [gpu.name for gpu in core.machine.gpu.gpus]
    if not gpus:
        return None
    home = with_spec_env(spec, caller)
    path, of = devices_journal(core.root), _measured_of(spec, home, gpus)
    kept = await asyncio.to_thread(_kept, path, of)
    if kept is not None:
        return kept
    if not most_s:
        return None
    try:
        speeds = await _measured(spec, home, most_s)
    except (TaskError, msgspec.ValidationError):
        return None
    if speeds is not None:
        await asyncio.to_thread(_keep, path, of, speeds)
    return speeds


async def device_cautions(core: Core, specs: Sequence[Spec], caller: Caller) -> list[str]:
    """For those of `specs` that name a device of which the other one is faster. Where none is named the faster is taken
    anyway, so nothing is measured for it here.
    """
    cautions = []
    for spec in specs:
        if spec.run.device == "auto":
            continue
        speeds = await device_speeds(core, spec, caller, 0.0 if needs_no_preflight(spec) else LAUNCH_S)
        if speeds is not None and (said := speeds.caution(spec.run.device)):
            cautions.append(f"{spec.preset}: {said}")
    return cautions


async def _measured(spec: Spec, home: Caller, most_s: float) -> DeviceSpeeds | None:
    words, home = as_module(spec, home, "mission_tui.trainer.checking.device_speeds")
    stdin = msgspec.json.encode(spec)
    task = Task(argv=words, cwd=home.cwd, environ=home.environ, stdin=stdin, attended=True, limits=home.limits)
    async with aclosing(run_task(task, most_s)) as hearing:
        async for said in hearing:
            if "speeds" in said:
                return msgspec.convert(said["speeds"], DeviceSpeeds)
    return None


def _measured_of(spec: Spec, home: Caller, gpus: Sequence[str]) -> dict[str, str]:
    """All that the figures depend on, by name."""
    run = spec.run
    settings = {"run.threads": run.threads or 1, "run.precision": run.precision, "run.tf32": run.tf32}
    host = {"host": socket.gethostname(), "cores": len(os.sched_getaffinity(0)), "gpus": ", ".join(gpus)}
    python = {"run.python": run.python or home.python, VISIBLE: home.environ.get(VISIBLE, "-")}
    task = {name: value for name, value in task_of(spec).items() if name != "run.device" or value.startswith("cuda:")}
    return {**task, **{name: str(value) for name, value in (settings | host | python).items()}, **versions_here()}


def _kept(path: Path, of: dict[str, str]) -> DeviceSpeeds | None:
    records, _ = read_all(path, DevicesMeasured)
    return next((record.speeds for record in reversed(records) if record.of == of), None)


def _keep(path: Path, of: dict[str, str], speeds: DeviceSpeeds) -> None:
    try:
        make_folder(path.parent)
        log = AppendLog(path)
        try:
            log.append(lambda seq: DevicesMeasured(seq=seq, t=time.time(), of=of, speeds=speeds))
        finally:
            log.close()
    except (StorageError, OSError):
        return  # measured again the next time
