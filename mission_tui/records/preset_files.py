"""Preset files on disk: which there are, which one a name or path means, and which presets a set launches.

The first folder that has a name wins, also when its file is broken: a broken preset is reported, never passed over.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mission_tui.errors import MissionError, PresetError, UsageError, nearest
from mission_tui.fleet.specs.preset_file import PresetFile, read_preset
from mission_tui.fleet.text import clean
from mission_tui.records.files.atomic import write_atomic
from mission_tui.records.files.storage import storing
from mission_tui.records.files.toml_file import read_toml

__all__ = ["PresetFile", "find_presets", "launched_by", "load_preset", "preset_on_key", "write_preset"]


def find_presets(dirs: Sequence[Path]) -> tuple[dict[str, PresetFile], dict[str, MissionError]]:
    """All presets by name in search order, and what is wrong with the unreadable ones, by file stem."""
    found: dict[str, PresetFile] = {}
    broken: dict[str, MissionError] = {}
    for path in (path for folder in dirs for path in _files(folder)):
        try:
            preset = read_preset(read_toml(path), path)
        except PresetError as error:
            if path.stem not in found:
                broken.setdefault(path.stem, error)
        else:
            if preset.name not in broken:
                found.setdefault(preset.name, preset)
    return found, broken


def load_preset(name_or_path: str, dirs: Sequence[Path]) -> PresetFile:
    """The preset that `name_or_path` means: a path if it has a separator or ends in ``.toml``, else a name in `dirs`.

    Raises `PresetError` for a file that cannot be used, `UsageError` with the nearest name for an unknown one.
    """
    if os.sep in name_or_path or name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        return read_preset(read_toml(path), path)
    found, broken = find_presets(dirs)
    if name_or_path in found:
        return found[name_or_path]
    if name_or_path in broken:
        raise broken[name_or_path]
    known = f"known are {', '.join(sorted(found))}" if found else f"no preset files in {', '.join(map(str, dirs))}"
    raise UsageError(f"no preset '{clean(name_or_path, 60)}'{nearest(name_or_path[:60], found) or f'; {known}'}")


def launched_by(preset: PresetFile, dirs: Sequence[Path]) -> tuple[PresetFile, ...]:
    """The presets that launching `preset` starts: itself, or the members of the set it is.

    Raises `PresetError` naming the set's file when a member is unknown or a set again.
    """
    if not preset.launch:
        return (preset,)
    members = []
    for name in preset.launch:
        try:
            member = load_preset(name, dirs)
        except UsageError as unknown:
            raise preset.place.refuse(f"launch: {unknown}") from None
        if member.launch:
            raise preset.place.refuse(f"launch: '{name}' is a set itself; name its presets: {', '.join(member.launch)}")
        members.append(member)
    return tuple(members)


def preset_on_key(key: str, presets: Mapping[str, PresetFile]) -> PresetFile | None:
    """The preset that `key` launches: the first in search order that carries it, so a user's preset may take a key."""
    return next((preset for preset in presets.values() if preset.key == key), None)


def write_preset(path: Path, table: Mapping[str, object]) -> None:
    """Write the preset file `path`, whatever was there, and its folder if need be. Raises `StorageError`."""
    import tomli_w

    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, tomli_w.dumps(table).encode())


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.toml") if not path.name.startswith("."))
