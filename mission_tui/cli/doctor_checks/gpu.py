"""Whether the GPU driver and the CUDA that torch was built with fit each other.

Asked of the kernel module's own file and of torch's version file: loading either library could hang, or cost a second.
"""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

from mission_tui.cli.doctor_checks.check import Check

__all__ = ["OLDEST_DRIVER", "checks", "judge"]

DRIVER_FILE = Path("/proc/driver/nvidia/version")
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""Oldest driver branch per CUDA major (CUDA Toolkit release notes, table of minor version compatibility)."""


def checks() -> list[Check]:
    """One check: the pair of driver and torch build on this machine."""
    return [judge(_driver(), _torch_cuda())]


def judge(driver: str | None, cuda: str | None) -> Check:
    """What driver release `driver` and CUDA version `cuda` of torch (None: absent) mean together."""
    if driver is None:
        return Check("gpu", "note", "no NVIDIA driver is loaded: trainings use the CPU")
    if cuda is None:
        advice = "install a CUDA build of torch to use the GPU: pip install --force-reinstall torch"
        return Check("gpu", "warn", f"driver {driver}, but torch was built without CUDA", advice)
    detail = f"driver {driver}, torch built for CUDA {cuda}"
    oldest = OLDEST_DRIVER.get(int(cuda.split(".")[0]))
    if oldest is not None and int(driver.split(".")[0]) < oldest:
        advice = (
            f"the driver is too old: CUDA {cuda} needs release {oldest} or newer; update it, or install an older torch"
        )
        return Check("gpu", "bad", detail, advice)
    return Check("gpu", "ok", detail)


def _driver() -> str | None:
    """The loaded driver's release, such as `580.82.07`."""
    try:
        text = DRIVER_FILE.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found[1] if found else None


def _torch_cuda() -> str | None:
    """The CUDA version in torch's `version.py`, such as `12.8`; None for a CPU build."""
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    try:
        tree = ast.parse((Path(spec.origin).parent / "version.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return None
    for node in tree.body:
        match node:
            case ast.AnnAssign(target=ast.Name(id="cuda"), value=ast.Constant(value=str(value))):
                return value
            case ast.Assign(targets=[ast.Name(id="cuda")], value=ast.Constant(value=str(value))):
                return value
            case _:
                continue
    return None
