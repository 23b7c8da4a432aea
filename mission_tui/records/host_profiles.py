"""Host profiles on disk: TOML files, one for each preset and machine, each either the old one or the new one."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from mission_tui import __version__
from mission_tui.records.files.atomic_group import write_atomic_group
from mission_tui.records.files.toml_file import read_toml

if TYPE_CHECKING:
    from mission_tui.fleet.tuning.profile import HostProfile

__all__ = ["load_profile", "other_profile", "profile_path", "versions_here", "write_profile"]

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


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
    found = {"mission_tui": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    with suppress(metadata.PackageNotFoundError):
        found["torch"] = metadata.version("torch")
    return found
