"""What tuning keeps: host profiles, one TOML file for each preset and machine, and the journal of each tune.

A journal's first line says what is tuned and how, then comes a line for each probe; a torn last line costs that probe.
The fingerprint tells this machine from another, as far as speeds go.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui import __version__
from mission_tui.errors import DamagedError
from mission_tui.fleet.tuning.record import ProbeDone, TuneBegun, TuneRecord
from mission_tui.gpu_driver import ask_driver, may_be_here
from mission_tui.records.files.atomic import write_atomic_group
from mission_tui.records.files.given_files import read_toml
from mission_tui.records.files.tail import read_all

if TYPE_CHECKING:
    from mission_tui.fleet.tuning.profile import HostProfile


_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_GPU = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)


def profile_path(folder: Path, preset: str, host: str) -> Path:
    """Where the profile of `preset` for the machine `host` lies in `folder`; nothing is created."""
    return folder / f"{_UNFIT.sub('-', preset)}@{_UNFIT.sub('-', host) or 'unknown'}.toml"


def other_profile(folder: Path, preset: str) -> Path | None:
    """The newest profile of `preset` for any machine."""
    found = [(path.stat().st_mtime, path) for path in folder.glob(f"{_UNFIT.sub('-', preset)}@*.toml")]
    return max(found)[1] if found else None


def load_profile(path: Path) -> HostProfile:
    """The profile in the file at `path`. Raises `PresetError`, also when there is none."""
    from mission_tui.fleet.tuning.profile import read_profile

    return read_profile(read_toml(path), str(path))


def write_profile(path: Path, profile: HostProfile) -> None:
    """Write `profile` whole or not at all. Raises `StorageError`."""
    import tomli_w

    from mission_tui.fleet.tuning.profile import profile_tables

    head = '# Written by `mission-tui tune`; used by `--profile auto`, and by a preset with profile = "auto".\n'
    write_atomic_group(path.parent, {path.name: (head + tomli_w.dumps(profile_tables(profile))).encode()})


def versions_here() -> dict[str, str]:
    """Of this interpreter, what speeds depend on; nothing is imported for it."""
    from importlib import metadata

    found = {"mission_tui": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    with suppress(metadata.PackageNotFoundError):
        found["torch"] = metadata.version("torch")
    return found


def host_fingerprint() -> dict[str, str]:
    """By name, only what can be found out: `host`, `cores`, `cpu`, `gpus`. A driver is asked only where the kernel's
    own files do not name its GPUs (WSL2), and not for longer than some seconds.
    """
    found = {"host": socket.gethostname(), "cores": str(len(os.sched_getaffinity(0)))}
    if cpu := _first(_MODEL, Path("/proc/cpuinfo")):
        found["cpu"] = cpu
    gpus = [_first(_GPU, path) for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))]
    if not gpus and may_be_here():
        gpus = list(ask_driver().gpus)
    if gpus:
        found["gpus"] = ", ".join(gpu or "unknown" for gpu in gpus)
    return found


def _first(pattern: re.Pattern[str], path: Path) -> str:
    with suppress(OSError):
        match = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
        if match:
            return match[1].strip()
    return ""


def tune_journal(root: Path, name: str) -> Path:
    """Where the journal of the tune called `name` lies; nothing is created."""
    return root / "tuning" / name / "journal.jsonl"


def devices_journal(root: Path) -> Path:
    """Where it is kept which nets were faster on the CPU and which on the GPU; nothing is created."""
    return root / "tuning" / "devices.jsonl"


def newest_tune(root: Path, preset: str) -> str | None:
    """The name of the tune of `preset` that was worked on last; None where there is none."""
    found: list[tuple[float, str]] = []
    for path in (root / "tuning").glob("tune-*/journal.jsonl"):
        try:
            begun, _ = read_tune(path)
        except (DamagedError, OSError):
            continue
        if begun.spec.preset == preset:
            found.append((path.lstat().st_mtime, path.parent.name))
    return max(found)[1] if found else None


def read_tune(path: Path) -> tuple[TuneBegun, tuple[ProbeDone, ...]]:
    """What the journal at `path` tells. Raises `DamagedError` where its first line is not whole."""
    records, _ = read_all(path, TuneRecord)
    if not records or not isinstance(records[0], TuneBegun):
        raise DamagedError(f"{path} does not begin as the journal of a tune")
    return records[0], tuple(each for each in records[1:] if isinstance(each, ProbeDone))
