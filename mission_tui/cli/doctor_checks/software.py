"""Whether Python and the packages that a training needs are there, by their metadata alone."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from mission_tui.cli.doctor_checks.check import Check

__all__ = ["checks"]

NEEDED = ("torch", "stable-baselines3", "gymnasium", "numpy", "textual", "msgspec", "psutil", "safetensors")
OPTIONAL = {
    "sb3-contrib": "MaskablePPO and RecurrentPPO (pip install 'mission-tui[contrib]')",
    "tensorboard": "TensorBoard event files (pip install 'mission-tui[tensorboard]')",
    "box2d": "LunarLander, BipedalWalker and CarRacing (pip install 'gymnasium[box2d]')",
    "mujoco": "HalfCheetah, Hopper and the other MuJoCo tasks (pip install 'gymnasium[mujoco]')",
    "ale-py": "Atari games (pip install 'gymnasium[atari]')",
}


def checks() -> list[Check]:
    """Interpreter, needed packages, and what optional packages would bring."""
    python = Check("python", "ok", f"{platform.python_version()} at {sys.executable}")
    return [python, _needed(), *(_optional(name, brings) for name, brings in OPTIONAL.items())]


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _needed() -> Check:
    found = {name: _installed(name) for name in NEEDED}
    missing = [name for name, release in found.items() if release is None]
    if missing:
        return Check(
            "packages", "bad", f"missing: {', '.join(missing)}", "install mission-tui again into this environment"
        )
    return Check("packages", "ok", ", ".join(f"{name} {release}" for name, release in found.items()))


def _optional(name: str, brings: str) -> Check:
    release = _installed(name)
    return Check(name, "note", "not installed", f"for {brings}") if release is None else Check(name, "ok", release)
