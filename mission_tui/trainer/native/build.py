"""Compiling the kernels when the package is built: Hatch calls this for a wheel and for an editable install.

Without a C compiler, or where it fails, the package is built without them and trains by torch alone. By hand:
`python mission_tui/trainer/native/build.py`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCES = ("kernels.h", "kernels.c", "dispatch.c", "second_thread.c")
LIBRARY = "kernels.so"
_FLAGS = ("-std=gnu11", "-O3", "-fPIC", "-fvisibility=default", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi")
_SETS = {
    "avx2": ("-mavx2", "-mfma", "-DWIDTH=8", "-DTILE_ROWS=4", "-DTILE_LANES=2"),
    "avx512": (
        *("-mavx512f", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"),
        *("-DWIDTH=16", "-DTILE_ROWS=8", "-DTILE_LANES=2"),
    ),
}


def digest(folder: Path = HERE) -> str:
    """Of the sources in `folder`. Raises `OSError` where one is missing."""
    return hashlib.sha256(b"".join((folder / name).read_bytes() for name in SOURCES)).hexdigest()[:16]


def compile_kernels(folder: Path = HERE) -> str:
    """Write `kernels.so` into `folder`; what stood against it, empty if nothing did. An older one is removed."""
    target = folder / LIBRARY
    target.unlink(missing_ok=True)
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not sys.platform.startswith("linux"):
        return f"kernels are built on Linux, this is {sys.platform}"
    if compiler is None:
        return "no C compiler (cc, gcc or clang) is installed"
    sets = _SETS if platform.machine() in ("x86_64", "AMD64") else {}
    with tempfile.TemporaryDirectory() as work:
        jobs = [("kernels.c", "base", ()), ("second_thread.c", "second_thread", ("-pthread",))]
        jobs += [("dispatch.c", "dispatch", (f'-DSOURCE="{digest(folder)}"',))]
        jobs += [("kernels.c", name, (f"-DKERNELS(name)=name##_{name}", *flags)) for name, flags in sets.items()]
        objects = []
        for name, what, flags in jobs:
            made = f"{work}/{what}.o"
            objects.append(made)
            if failure := _ran([compiler, *_FLAGS, *flags, "-c", str(folder / name), "-o", made]):
                return failure
        # Into a file of its own first: trainers may have the old one mapped.
        return _ran([compiler, "-shared", "-o", f"{work}/{LIBRARY}", *objects, "-lm", "-pthread"]) or _moved(
            work, target
        )


def _ran(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} cannot be run: {error}"
    said = (done.stderr.strip().splitlines() or ["no reason given"])[0]
    return "" if done.returncode == 0 else f"{command[0]} failed: {said}"


def _moved(work: str, target: Path) -> str:
    fresh = target.with_suffix(".new")
    shutil.copyfile(f"{work}/{LIBRARY}", fresh)
    fresh.replace(target)
    return ""


def wheel_tag() -> str:
    """Any Python 3 on this kind of machine."""
    return f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"


if __name__ == "__main__":
    sys.exit(compile_kernels() or 0)

if "hatchling" in sys.modules:
    # It loads this file for its hook. A trainer has no use for it, nor for the forty modules that come with it.
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface

    class KernelsHook(BuildHookInterface[Any]):
        """Adds the compiled library to what is built."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile; the wheel then is of this kind of machine."""
            if failure := compile_kernels():
                self.app.display_warning(f"mission-tui is built without its kernels: {failure}")
                return
            build_data["artifacts"].append(f"/mission_tui/trainer/native/{LIBRARY}")
            build_data["pure_python"] = False
            build_data["tag"] = wheel_tag()
