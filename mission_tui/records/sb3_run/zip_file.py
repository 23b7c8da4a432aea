"""The zip that `PPO.save` writes, as far as it can be looked at without torch: its members, and the JSON in it.

Every size is checked before anything is read; serialized objects in the JSON stay text.
"""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mission_tui.errors import CheckpointError

__all__ = ["DATA_BYTES", "FILE_BYTES", "checked_members", "opened_zip", "read_data", "settings_of_zip"]

FILE_BYTES = 1 << 30
"""The largest zip that is looked at: weights and two moments of ninety million parameters."""

DATA_BYTES = 16 << 20
"""Of the JSON, and of the structure of one file of tensors; real ones have some kilobytes."""

_DATA, _POLICY, _OPTIMIZER = "data", "policy.pth", "policy.optimizer.pth"
_IGNORED = frozenset({"pytorch_variables.pth", "_stable_baselines3_version", "system_info.txt"})


@contextmanager
def opened_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """The zip at `path`, its members checked. Raises `CheckpointError` naming what does not belong into an SB3 zip,
    also for what goes wrong while it is read.
    """
    try:
        size = path.stat().st_size
        if not path.is_file() or size > FILE_BYTES:
            raise CheckpointError(f"{path} is not a file of at most {FILE_BYTES >> 20} MiB, so it is not opened")
        with zipfile.ZipFile(path) as archive:
            _check_names(checked_members(archive.infolist(), size, path.name), path.name)
            yield archive
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as error:
        raise CheckpointError(f"{path} is not a zip that Stable-Baselines3 writes: {error}") from error
    except (MemoryError, RecursionError) as error:
        raise CheckpointError(f"{path} asks for more memory than a model of its size needs; it was not read") from error


def settings_of_zip(path: Path) -> dict[str, Any]:
    """The JSON in the zip at `path`. Raises `CheckpointError`."""
    with opened_zip(path) as archive:
        return read_data(archive, path.name)


def read_data(archive: zipfile.ZipFile, where: str) -> dict[str, Any]:
    """The JSON in an open zip called `where`. Raises `CheckpointError`."""
    if archive.getinfo(_DATA).file_size > DATA_BYTES:
        raise CheckpointError(f"{where}: {_DATA} is larger than {DATA_BYTES >> 20} MiB")
    data = json.loads(archive.read(_DATA))
    if not isinstance(data, dict):
        raise CheckpointError(f"{where}: data is not a JSON object")
    return data


def checked_members(members: Iterable[zipfile.ZipInfo], size: int, where: str) -> list[zipfile.ZipInfo]:
    """Members that are plain, stored, of different names, and together no larger than the file that holds them."""
    listed = list(members)
    for member in listed:
        mode = member.external_attr >> 16
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
            raise CheckpointError(f"{where} holds a compressed or encrypted member; Stable-Baselines3 writes neither")
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise CheckpointError(f"{where} holds a member that is no plain file, such as a link")
    if len({member.filename for member in listed}) < len(listed):
        raise CheckpointError(f"{where} holds two members of one name")
    if sum(member.file_size for member in listed) > size:
        raise CheckpointError(f"{where} claims to hold more than its own size")
    return listed


def _check_names(members: list[zipfile.ZipInfo], where: str) -> None:
    names = {member.filename for member in members}
    if missing := {_DATA, _POLICY, _OPTIMIZER} - names:
        raise CheckpointError(f"{where} has no {min(missing)}: it is not what `PPO.save` writes")
    if odd := names - {_DATA, _POLICY, _OPTIMIZER} - _IGNORED:
        raise CheckpointError(f"{where} holds {min(odd)[:60]!r}, which `PPO.save` does not write")
