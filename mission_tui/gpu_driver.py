"""Whether NVIDIA's driver is here, as NVML itself says: asked of a short process, since a driver call may never return.

Files tell only where it is worth asking: `/dev/nvidiactl` is there while the kernel module is, but not in WSL2, which
has `/dev/dxg` for GPUs of any maker. Standard library only.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

DEVICES = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
ASKING = "mission_tui.supervisor.gpu.driver"
ANSWER_S = 5.0
"""The first call after a boot may load firmware, on a busy machine after Python."""


class Driver(NamedTuple):
    """`version` is the driver's release and `gpus` the names of what it lists; `why` says why either is not known.

    `absent`: there is no driver, or nothing to ask it with.
    """

    version: str = ""
    gpus: tuple[str, ...] = ()
    why: str = ""
    absent: bool = False


def may_be_here() -> bool:
    """Whether it is worth asking; what has neither device has no driver."""
    return any(device.exists() for device in DEVICES)


@cache
def has_gpu() -> bool:
    """Whether NVML lists a GPU; asked once a process, and only where there may be one."""
    return may_be_here() and bool(ask_driver().gpus)


def ask_driver(answer_s: float = ANSWER_S) -> Driver:
    """What NVML says within `answer_s`. Raises nothing; a process that is stuck in the driver is left to the kernel."""
    import subprocess

    argv = [sys.executable, "-P", "-m", ASKING]
    try:
        asked = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    except OSError as error:
        return Driver(why=f"NVML cannot be asked: {error.strerror or error}")
    try:
        said, _ = asked.communicate(timeout=answer_s)
    except subprocess.TimeoutExpired:
        asked.kill()
        if asked.stdout is not None:
            asked.stdout.close()
        # One that cannot die now holds nobody up: it is reaped by whoever inherits it.
        with suppress(subprocess.TimeoutExpired):
            asked.wait(0.5)
        return Driver(why=f"the driver has not answered for {answer_s:g} s")
    return _read(said, asked.returncode)


def _read(said: bytes, code: int) -> Driver:
    import json

    try:
        facts = json.loads(said)
        return Driver(str(facts["version"]), tuple(map(str, facts["gpus"])), str(facts["why"]), bool(facts["absent"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return Driver(why=f"the process that asks NVML ended with {how} and gave no reason")
