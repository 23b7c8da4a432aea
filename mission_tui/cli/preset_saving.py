"""Saves a preset with changes as one of the user's own, for the screen and for `presets save`.

The new preset is resolved before it is written: it must describe exactly the run that was saved.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from mission_tui.cli.session import Session
from mission_tui.errors import PresetError, UsageError
from mission_tui.paths import user_presets

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset_file import PresetFile, SavedPreset, Saving


def save_preset(session: Session, saving: Saving, *, replace: bool = False) -> SavedPreset:
    """Write it to the user's folder. Without `replace`, nothing is written where a preset has that name already.

    Raises `UsageError` for a sweep and for a name that a nearer folder has, `PresetError` for what is no preset.
    """
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import written
    from mission_tui.fleet.specs.preset_file import SavedPreset, check_preset_name, read_preset
    from mission_tui.records.preset_files import base_of, load_preset, write_preset

    name, dirs = check_preset_name(saving.name), session.preset_dirs
    preset = load_preset(saving.source, dirs)
    runs = expand(saving.assignments)
    if len(runs) > 1:
        raise UsageError(f"a preset describes one run, but these values make {len(runs)}: give one value per key")
    path = user_presets(session.environ) / f"{name}.toml"
    head = {"description": saving.description if saving.description is not None else _description(preset, saving)}
    table: dict[str, Any] = {
        **head,
        **({} if saving.key is None else {"key": saving.key}),
        **written(preset, lambda base: base_of(preset, base, dirs), runs[0]),
    }
    _check_same(session, preset, saving, read_preset(table, path))
    there = _there(session, path)
    if not there or replace:
        write_preset(path, table)
        there = ""
    return SavedPreset(name, str(path), there)


def _description(preset: PresetFile, saving: Saving) -> str:
    if not saving.assignments:
        return preset.description or preset.name
    return f"{preset.name} with {', '.join(saving.assignments)}"


def _check_same(session: Session, preset: PresetFile, saving: Saving, saved: PresetFile) -> None:
    from msgspec import structs

    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import resolve
    from mission_tui.records.preset_files import base_of

    def base(name: str) -> PresetFile:
        return base_of(preset, name, session.preset_dirs)

    health = session.health()
    meant = resolve(preset, base, expand(saving.assignments)[0], health)
    means = resolve(saved, base, (), health)
    if structs.replace(means, preset=meant.preset, description=meant.description) != meant:
        raise PresetError(f"{saved.path}: it would describe a different run, so it was not written; please report this")


def _there(session: Session, path: Path) -> str:
    """What has the name of the file at `path` already; empty for nothing. Raises `UsageError` for what would be found
    in its place.
    """
    from mission_tui.records.preset_files import find_presets

    dirs = session.preset_dirs
    for place, folder in enumerate(dirs):
        if path.exists() and folder == path.parent:
            return f"{path} is there already"
        found, broken = find_presets((folder,))
        if path.stem not in found and path.stem not in broken:
            continue
        file = found[path.stem].path if path.stem in found else folder / path.name
        if path.parent in dirs[place:]:
            raise UsageError(f"the preset '{path.stem}' in {file} would be used instead of it: choose another name")
        return f"it would hide the preset '{path.stem}' in {file}"
    return ""
