"""Whether NVIDIA's driver is here, as NVML itself says: asked of a short process, since a driver call may never return.
And whether its MPS is, by that one's files.

No device and no file of the kernel's decides: WSL2, containers and Jetson boards have others than a plain Linux. Files
tell only why the driver does not answer. Standard library only.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

LIBRARY = "libnvidia-ml.so.1"
WSL_LIBRARY = Path("/usr/lib/wsl/lib") / LIBRARY
"""Where WSL2 mounts the library of the driver in Windows; not every distribution has it on the loader's path."""
LOADER_CACHE = Path("/etc/ld.so.cache")
_LOADER_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
WSL = Path("/dev/dxg")
"""There in WSL2, for GPUs of any maker."""
MODULE = Path("/proc/driver/nvidia/version")
AMD_COMPUTE = Path("/dev/kfd")
CARDS = Path("/sys/class/drm")
_AMD = "0x1002"
TOOLKIT = "NVIDIA Container Toolkit"
NOT_SUPPORTED = "AMD GPU not supported: CPU, RAM and phases are shown"
ASKING = "mission_tui.supervisor.gpu.driver"
MPS_PROGRAM = "nvidia-cuda-mps-control"
_MPS_PIPES = "/tmp/nvidia-mps"  # noqa: S108 - CUDA's own default
_COMM_CHARS = 15
"""The kernel keeps so much of a process's name."""
ANSWER_S = 5.0
"""The first call after a boot may load firmware, on a busy machine after Python."""


class Driver(NamedTuple):
    """`version` is the driver's release and `gpus` the names of what it lists; `why` says why either is not known.

    `absent`: there is no driver, or nothing to ask it with. `refused`: this user may not ask it.
    """

    version: str = ""
    gpus: tuple[str, ...] = ()
    why: str = ""
    absent: bool = False
    refused: bool = False


class Mps(NamedTuple):
    """Whether its control program is `installed` here, and `running` behind the pipes in `folder`, `ours` or not."""

    installed: bool
    running: bool
    folder: str
    ours: bool = True


def may_be_here() -> bool:
    """Whether NVML's library lies where the loader or WSL2 has it: without it there is nobody to ask."""
    folders = [*filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")), *_LOADER_FOLDERS]
    if WSL_LIBRARY.exists() or any(Path(folder, LIBRARY).exists() for folder in folders):
        return True
    try:
        return LIBRARY.encode() in LOADER_CACHE.read_bytes()
    except OSError:
        return False


def can_be_loaded() -> bool:
    """Whether NVML's library is found as `pynvml` looks for it, or where WSL2 has it; this process has it then."""
    import ctypes

    for name in (LIBRARY, str(WSL_LIBRARY)):
        with suppress(OSError):
            ctypes.CDLL(name)
            return True
    return False


@cache
def has_gpu() -> bool:
    """Whether NVML lists a GPU; asked once a process, and only where there is a library to ask."""
    return may_be_here() and bool(ask_driver().gpus)


def loaded_module() -> str | None:
    """The release of the driver's kernel module, such as `580.82.07`, by its own file: in a container the host's."""
    try:
        text = MODULE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


def has_amd_gpu() -> bool:
    """Whether the kernel has a GPU of AMD: one for computing, or one that draws."""
    if AMD_COMPUTE.exists():
        return True
    vendors = CARDS.glob("card[0-9]*/device/vendor")
    return any(_first_line(vendor) == _AMD for vendor in vendors)


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def why_nobody_answers() -> str:
    """What is known of a machine without NVIDIA's driver or library; empty where that is all."""
    if (module := loaded_module()) is not None:
        return f"no GPU: driver {module} is loaded, but not its library NVML; a container gets it from the {TOOLKIT}"
    return NOT_SUPPORTED if has_amd_gpu() else ""


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
        known = str(facts["version"]), tuple(map(str, facts["gpus"])), str(facts["why"])
        return Driver(*known, bool(facts["absent"]), bool(facts["refused"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        return Driver(why=f"the process that asks NVML ended with {how} and gave no reason")


def find_mps(environ: Mapping[str, str]) -> Mps:
    """What is here of MPS, for a process with the variables `environ`. Nothing is written to its pipes."""
    import shutil

    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or _MPS_PIPES)
    installed = shutil.which(MPS_PROGRAM, path=environ.get("PATH")) is not None
    owner = _owner(folder / "control") if _is_mps(folder / f"{MPS_PROGRAM}.pid") else None
    return Mps(installed, running=owner is not None, folder=str(folder), ours=owner in (None, os.getuid(), 0))


def _is_mps(file: Path) -> bool:
    """Whether the process that the daemon's own file names is that daemon."""
    try:
        pid = int(file.read_text(encoding="ascii"))
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return False
    return name.strip() == MPS_PROGRAM[:_COMM_CHARS]


def _owner(pipe: Path) -> int | None:
    try:
        return pipe.stat().st_uid
    except OSError:
        return None
