"""What tuning keeps: host profiles, one TOML file for each preset and machine, the journal of each tune, and for each
net whether it is faster on the CPU or on the GPU.

A journal's first line says what is tuned and how, then comes a line for each probe; a torn last line costs that probe.
The fingerprint tells this machine from another, as far as speeds go.

A net's file is written by the process that measured it, whoever had that started: a trainer, or a supervisor. Its lock
has the others wait for that one. Whatever is wrong with the file, the folder or the disk, the net is measured again.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui import __version__
from mission_tui.errors import DamagedError
from mission_tui.fleet.tuning.record import DevicesMeasured, DeviceSpeeds, ProbeDone, TuneBegun, TuneRecord
from mission_tui.gpu_driver import ask_driver, may_be_here
from mission_tui.paths import sha256
from mission_tui.plain_files import make_folder, names_in, open_folder, open_to_lock
from mission_tui.records.atomic import StorageError, read_json, storing, write_atomic_group, write_json
from mission_tui.records.given_files import read_toml
from mission_tui.records.jsonl import read_all

if TYPE_CHECKING:
    from mission_tui.fleet.specs.spec import Spec
    from mission_tui.fleet.tuning.profile import HostProfile


_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
_GPU = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)
_UNKNOWN = "unknown"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LOOK_S = 0.1
_MOST_NETS = 1000
_MOST_PAIRS = 100
_MOST_S = 86400.0


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
        found["gpus"] = ", ".join(gpu or _UNKNOWN for gpu in gpus)
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


def make_tune_folder(root: Path, name: str) -> None:
    """Make the folder of its journal. Raises `StorageError`, also where that would lie behind a link."""
    folder = tune_journal(root, name).parent
    with storing(folder, "make"):
        _make_own(folder)


def measured_of(
    spec: Spec, python: str, environ: Mapping[str, str], host: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All that the speeds of the net of `spec` depend on, by name: on this machine (`host`, its fingerprint, where that
    is known), with the versions of this interpreter, in the Python at the path `python` with the variables `environ`.
    Empty where no GPU is known by name.
    """
    from mission_tui.fleet.tuning.profile import task_of

    host = host_fingerprint() if host is None else host
    if not host.get("gpus"):
        return {}
    run = spec.run
    task = {name: value for name, value in task_of(spec).items() if name != "run.device" or value.startswith("cuda:")}
    settings = {"run.threads": run.threads or 1, "run.precision": run.precision, "run.tf32": run.tf32}
    home = {"run.python": python, _VISIBLE: _which(environ.get(_VISIBLE), host["gpus"])}
    return {**task, **{name: str(value) for name, value in settings.items()}, **host, **home, **versions_here()}


def _which(visible: str | None, gpus: str) -> str:
    """What is to be seen of the `gpus`; "-" where it does not matter, as of GPUs that are all alike: each run is given
    one of its own. A part of a GPU is none of them.
    """
    kinds = set(gpus.split(", "))
    alike = len(kinds) == 1 and _UNKNOWN not in kinds
    return "-" if visible is None or (alike and visible and "MIG" not in visible.upper()) else visible


def kept_speeds(root: Path, of: Mapping[str, str], spaces: str = "") -> DeviceSpeeds | None:
    """What was measured of such a net; None where nothing can be had. `spaces`, of its environments in words, tells
    that these have changed under the same name.
    """
    kept = _kept(_kept_file(root, of)) if of else None
    return kept.speeds if kept is not None and kept.of == of and spaces in ("", kept.spaces) else None


def keep_speeds(root: Path, of: Mapping[str, str], spaces: str, speeds: DeviceSpeeds) -> None:
    """Keep them for the next launch; where they cannot be written, they are measured again."""
    if of:
        path = _kept_file(root, of)
        # A path that is no text cannot be written down.
        with suppress(StorageError, OSError, UnicodeError):
            _make_own(path.parent)
            write_json(path, DevicesMeasured(t=time.time(), of=dict(of), spaces=spaces, speeds=speeds))


def all_kept(root: Path) -> list[DevicesMeasured]:
    """Of every net and machine, the newest first; of very many nets some."""
    folder = _kept_folder(root)
    try:
        names = names_in(folder, _MOST_NETS)
    except OSError:
        return []
    found = (_kept(folder / name) for name in names if name.endswith(".json"))
    return sorted((kept for kept in found if kept is not None), key=lambda kept: kept.t, reverse=True)


@contextmanager
def measuring_alone(root: Path, of: Mapping[str, str], within_s: float) -> Iterator[None]:
    """Wait for whoever is measuring the same, `within_s` at most, and have others wait meanwhile.

    The kernel lets go of what a process held that was killed. Where nothing can be locked there is no waiting.
    """
    descriptor = None
    try:
        with suppress(OSError):
            if of:
                path = _kept_file(root, of)
                _make_own(path.parent)
                descriptor = open_to_lock(path)
                _lock(descriptor, time.monotonic() + within_s)
        yield
    finally:
        if descriptor is not None:
            # Not by closing it alone: what was forked meanwhile holds it too.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _lock(descriptor: int, until: float) -> None:
    """Raises `OSError` where it is still held at `until`, or cannot be."""
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
        time.sleep(_LOOK_S)


def _make_own(folder: Path) -> None:
    """Make it. Raises `OSError` where it would lie behind a link, which somebody else's runs root may hold."""
    for each in (folder.parent, folder):
        make_folder(each)
        os.close(open_folder(each, listed=False))


def _kept_folder(root: Path) -> Path:
    return root / "tuning" / "devices"


def _kept_file(root: Path, of: Mapping[str, str]) -> Path:
    return _kept_folder(root) / f"{sha256(repr(sorted(of.items())).encode()).hexdigest()[:24]}.json"


def _kept(path: Path) -> DevicesMeasured | None:
    """What the file says, if it can be; empty is what somebody has begun to measure."""
    try:
        kept = read_json(path, DevicesMeasured)
    except (DamagedError, OSError):
        return None
    if kept is None:
        return None
    cpu_s, gpu_s = kept.speeds.cpu_s, kept.speeds.gpu_s
    sound = len(cpu_s) == len(gpu_s) <= _MOST_PAIRS and all(0.0 < each < _MOST_S for each in (*cpu_s, *gpu_s))
    return kept if cpu_s and sound and math.isfinite(kept.t) else None


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
