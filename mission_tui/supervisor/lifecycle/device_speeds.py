"""Whether the net of a spec is faster on the CPU or on the GPU, on a machine that has one: measured once in a short
process of the run's own Python, which keeps it beside the journals of tunes, for the same net on the same machine. What
that process or a trainer has kept is read here.

It is a hint: whatever goes wrong with it is no reason to refuse a run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import msgspec

from mission_tui.fleet.device_speeds import DeviceSpeeds
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records import tuning_files
from mission_tui.records.tuning_files import kept_speeds, measured_of
from mission_tui.supervisor.host.tasks import Task, TaskError, run_task
from mission_tui.supervisor.launchers.caller import Caller, as_module, needs_no_preflight, with_spec_env
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.machine_state import DECISIVE_S

MOST_S, LAUNCH_S = 60.0, 20.0
"""torch, a driver's first call, a large net on one core; a launch does not wait for a hint as long as a check does, and
not at all where nothing of it is tried anyway: then it says what is known.
"""


async def device_speeds(
    core: Core, spec: Spec, caller: Caller, most_s: float = MOST_S, host: Mapping[str, str] | None = None
) -> DeviceSpeeds | None:
    """What is kept of such a net, else what is measured within `most_s` (0: nothing is); None without a GPU, and where
    it cannot be measured. `host` is this machine's fingerprint, where that is known.
    """
    if spec.run.command is not None:
        return None
    await core.machine.measure(DECISIVE_S)
    if not core.machine.gpu.gpus:
        return None
    home = with_spec_env(spec, caller)
    kept = await asyncio.to_thread(_kept, core.root, spec, home, host)
    if kept is not None or not most_s:
        return kept
    try:
        return await _measured(core.root, spec, home, most_s)
    except (TaskError, msgspec.ValidationError):
        return None


def _kept(root: Path, spec: Spec, home: Caller, host: Mapping[str, str] | None) -> DeviceSpeeds | None:
    """If the run's Python has the versions of this one; the process looks again with its own."""
    return kept_speeds(root, measured_of(spec, home.python, home.environ, host))


async def device_cautions(core: Core, specs: Sequence[Spec], caller: Caller) -> list[str]:
    """For those of `specs` that name a device of which the other one is faster. Where none is named the faster is taken
    anyway, so nothing is measured for it here.
    """
    named = [spec for spec in specs if spec.run.device != "auto"]
    if named:
        await core.machine.measure(DECISIVE_S)
    if not (named and core.machine.gpu.gpus):
        return []
    # Once for all of them: somewhere it takes a process that asks the driver.
    host = await asyncio.to_thread(tuning_files.host_fingerprint)
    cautions = []
    for spec in named:
        speeds = await device_speeds(core, spec, caller, 0.0 if needs_no_preflight(spec) else LAUNCH_S, host)
        if speeds is not None and (said := speeds.caution(spec.run.device)):
            cautions.append(f"{spec.preset}: {said}")
    return cautions


async def _measured(root: Path, spec: Spec, home: Caller, most_s: float) -> DeviceSpeeds | None:
    words, home = as_module(spec, home, "mission_tui.trainer.checking.device_speeds")
    stdin = msgspec.json.encode(spec) + b"\n" + msgspec.json.encode({"root": os.fsencode(root)})
    task = Task(argv=words, cwd=home.cwd, environ=home.environ, stdin=stdin, attended=True, limits=home.limits)
    async with aclosing(run_task(task, most_s)) as hearing:
        async for said in hearing:
            if "speeds" in said:
                return msgspec.convert(said["speeds"], DeviceSpeeds)
    return None
