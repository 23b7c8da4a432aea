"""Whether NVIDIA's Multi-Process Service is here: its program, and its daemon behind the pipes where CUDA looks.

Looked for in the file system alone; nothing is written to its pipes, and it is never started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from mission_tui.cli.doctor_checks.check import Check
from mission_tui.cli.doctor_checks.gpu import DRIVER_FILE
from mission_tui.fleet.views.machine_sharing import START, STOP, Mps

__all__ = ["checks", "find_mps", "judge"]

PROGRAM = "nvidia-cuda-mps-control"
PIPES = "/tmp/nvidia-mps"  # noqa: S108 - CUDA's own default
_COMM_CHARS = 15
"""The kernel keeps so much of a process's name."""


def checks(environ: Mapping[str, str]) -> list[Check]:
    """One check where there is a driver; none where no GPU could be shared."""
    return [judge(find_mps(environ))] if DRIVER_FILE.exists() else []


def find_mps(environ: Mapping[str, str]) -> Mps:
    """What is here, for a process with the variables `environ`."""
    folder = Path(environ.get("CUDA_MPS_PIPE_DIRECTORY") or PIPES)
    installed = shutil.which(PROGRAM, path=environ.get("PATH")) is not None
    owner = _owner(folder / "control") if _alive(folder / f"{PROGRAM}.pid") else None
    return Mps(installed, running=owner is not None, folder=str(folder), ours=owner in (None, os.getuid(), 0))


def judge(mps: Mps) -> Check:
    """What that means for several runs on one GPU."""
    if mps.running:
        whose = "" if mps.ours else ", but it is another user's and may not serve you"
        return Check("mps", "ok" if mps.ours else "note", f"MPS runs at {mps.folder}{whose}; end it with: {STOP}")
    if not mps.installed:
        return Check("mps", "note", "MPS is not installed: several runs on one GPU take turns")
    advice = (
        f"to run them side by side, before they start: {START}; a GPU fault of one run can then end the others, and "
        f"it is ended with: {STOP}"
    )
    return Check("mps", "note", "MPS does not run: several runs on one GPU take turns", advice)


def _alive(file: Path) -> bool:
    """Whether the process that the daemon's own file names is that daemon."""
    try:
        pid = int(file.read_text(encoding="ascii"))
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return False
    return name.strip() == PROGRAM[:_COMM_CHARS]


def _owner(pipe: Path) -> int | None:
    try:
        return pipe.stat().st_uid
    except OSError:
        return None
