"""Preset and health files on disk: which there are, which one a name or path means, what a set launches.

The first folder that has a name wins, also when its file is broken: a broken preset is reported, never passed over.
Which folder that was stays known, because `./presets` may be a stranger's. Presets of the RL zoo's table are shipped in
a folder of their own and listed apart, so that the others stay few enough to be read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mission_tui.errors import MissionError, PresetError, UsageError, nearest
from mission_tui.fleet.specs.health_file import HealthFile, read_health
from mission_tui.fleet.specs.preset import PresetFile, PresetOrigin, read_clusters, read_preset, resolve
from mission_tui.fleet.text import clean
from mission_tui.paths import preset_origin
from mission_tui.plain_files import make_folder
from mission_tui.records.atomic import storing, write_atomic
from mission_tui.records.given_files import read_toml

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset import MachineTables
    from mission_tui.fleet.specs.spec import Spec

ZOO = "zoo"
"""The folder of the RL zoo's presets, with which all their names begin."""


def find_presets(dirs: Sequence[Path]) -> tuple[dict[str, PresetFile], dict[str, MissionError]]:
    """All presets by name in search order, and what is wrong with the unreadable ones, by file stem.

    What a preset of the working folder hides is there too, as `shipped:NAME` or `yours:NAME`. Nothing that a preset
    names is imported or looked up.
    """
    found: dict[str, PresetFile] = {}
    hidden: dict[str, PresetFile] = {}
    broken: dict[str, MissionError] = {}
    here: set[str] = set()
    for folder in dirs:
        origin = preset_origin(folder, os.environ)
        for path in _files(folder):
            try:
                preset = _read(path, origin)
            except PresetError as error:
                if path.stem not in found:
                    broken.setdefault(path.stem, error)
                    here |= {path.stem} if origin == "here" else set()
                continue
            if preset.name not in broken and preset.name not in found:
                found[preset.name] = preset
                here |= {preset.name} if origin == "here" else set()
            elif origin != "here" and preset.name in here:
                hidden.setdefault(f"{origin}:{preset.name}", preset)
    return found | hidden, broken


def find_zoo_presets(dirs: Sequence[Path]) -> dict[str, PresetFile]:
    """Those of the RL zoo's table by name, which lie beside the shipped ones. Raises `PresetError`."""
    folders = dict.fromkeys(folder / ZOO for folder in dirs if preset_origin(folder, os.environ) == "shipped")
    presets = (_read(path, "shipped") for folder in folders for path in _files(folder))
    return {preset.name: preset for preset in presets}


def load_preset(name_or_path: str, dirs: Sequence[Path]) -> PresetFile:
    """The preset that `name_or_path` means: a path if it has a separator or ends in ``.toml``, else a name in `dirs`,
    before which `here:`, `yours:` or `shipped:` may say in which of them.

    Raises `PresetError` for a file that cannot be used, `UsageError` with the nearest name for an unknown one.
    """
    if os.sep in name_or_path or name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        return replace(read_preset(read_toml(path), path), origin=preset_origin(path.parent, os.environ))
    origin, colon, name = name_or_path.rpartition(":")
    if colon and origin in ("here", "yours", "shipped"):
        dirs = [folder for folder in dirs if preset_origin(folder, os.environ) == origin]
    else:
        name = name_or_path
    found, broken = find_presets(dirs)
    if name in found:
        return found[name]
    if name in broken:
        raise broken[name]
    zoo = find_zoo_presets(dirs) if name.startswith(ZOO) else {}
    if name in zoo:
        return zoo[name]
    if (renamed := next((preset for preset in found.values() if preset.path.stem == name), None)) is not None:
        raise UsageError(f"no preset '{name}': {renamed.path} has name = '{renamed.name}', and is called that")
    known = f"known are {', '.join(sorted(found))}" if found else f"no preset files in {', '.join(map(str, dirs))}"
    if zoo:
        known = "mission-tui presets --zoo lists those of the RL zoo"
    raise UsageError(f"no preset '{clean(name_or_path, 60)}'{nearest(name[:60], {**found, **zoo}) or f'; {known}'}")


def resolved_preset(name_or_path: str, dirs: Sequence[Path], health: Sequence[HealthFile]) -> Spec:
    """What a launch of the preset that `name_or_path` means would train. Raises as `load_preset`."""

    preset = load_preset(name_or_path, dirs)
    return resolve(preset, lambda base: base_of(preset, base, dirs), health=health)


def base_of(preset: PresetFile, name: str, dirs: Sequence[Path]) -> PresetFile:
    """The preset that `preset` means by `name`. Raises as `load_preset`.

    One that is the user's own or shipped never means one of the folder that happens to be worked in, and its own name
    means the one that it hides.
    """
    if preset.origin != "here":
        dirs = [folder for folder in dirs if preset_origin(folder, os.environ) != "here"]
    if name == preset.name:
        own = preset.path.parent.resolve()
        dirs = dirs[next((at for at, folder in enumerate(dirs, 1) if folder.resolve() == own), 0) :]
    try:
        return load_preset(name, dirs)
    except UsageError:
        if name != preset.name:
            raise
        raise UsageError(f"'{name}' is this preset itself, and it hides none of that name") from None


def hidden_by(preset: PresetFile, dirs: Sequence[Path]) -> PresetFile | None:
    """What would be meant by the name of `preset` if that were not in the working folder; None for nothing."""
    if preset.origin != "here" or all(preset.path.parent != folder for folder in dirs):
        return None
    others, _ = find_presets([folder for folder in dirs if preset_origin(folder, os.environ) != "here"])
    return others.get(preset.name)


def launched_by(preset: PresetFile, dirs: Sequence[Path]) -> tuple[PresetFile, ...]:
    """The presets that launching `preset` starts: itself, or the members of the set it is.

    Raises `PresetError` naming the set's file when a member is unknown or a set again.
    """
    if not preset.launch:
        return (preset,)
    members = []
    for name in preset.launch:
        try:
            member = base_of(preset, name, dirs)
        except UsageError as unknown:
            raise preset.place.refuse(f"launch: {unknown}") from None
        if member.launch:
            raise preset.place.refuse(f"launch: '{name}' is a set itself; name its presets: {', '.join(member.launch)}")
        members.append(member)
    return tuple(members)


def preset_on_key(key: str, presets: Mapping[str, PresetFile]) -> PresetFile | None:
    """The preset that carries `key`: the first in search order, so a user's preset may take a key, but the user's own
    and the shipped ones before any of the working folder.
    """
    carrying = [preset for preset in presets.values() if preset.key == key]
    return next((preset for preset in carrying if preset.origin != "here"), carrying[0] if carrying else None)


def write_preset(path: Path, table: Mapping[str, object]) -> None:
    """Write the preset file `path`, whatever was there, and its folder if need be. Raises `StorageError`."""
    import tomli_w

    with storing(path):
        make_folder(path.parent)
    write_atomic(path, tomli_w.dumps(table).encode())


def _files(folder: Path) -> list[Path]:
    """By name without the suffix, because `cartpole-dqn.toml` sorts before `cartpole.toml`."""
    files = (path for path in folder.glob("*.toml") if not path.name.startswith("."))
    return sorted(files, key=lambda path: path.stem)


def _read(path: Path, origin: PresetOrigin) -> PresetFile:
    """Raises `PresetError`, also for a link by which a folder of anybody's would show a file from outside of it."""
    if origin == "here" and path.is_symlink():
        ground = path.parent.parent.resolve()
        if not path.resolve().is_relative_to(ground):
            raise PresetError(f"{path}: is a link that leads out of {ground}; give the file it means with --preset")
    return replace(read_preset(read_toml(path), path), origin=origin)


def load_clusters(path: Path) -> MachineTables | None:
    """What the user's file of clusters at `path` asks of each engine; None without one. Raises `PresetError`."""

    return read_clusters(read_toml(path), path) if path.is_symlink() or path.exists() else None


def load_health(paths: Sequence[Path]) -> tuple[HealthFile, ...]:
    """The health files among `paths` that exist, in their order. Raises `PresetError` naming file, key and remedy."""
    return tuple(load_health_file(path) for path in paths if path.is_symlink() or path.exists())


def load_health_file(path: Path) -> HealthFile:
    """The health file at `path`. Raises `PresetError`, also when there is none."""
    return read_health(read_toml(path), path)
