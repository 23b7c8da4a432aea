"""Presets on their way through the command line: where they come from and which code of their own they name, printed
before any of it is started; and saving one with changes as one of the user's own, for the screen and for `presets
save`.

`./presets` may come from someone else, for example with a cloned repository. Nothing is printed about presets of the
user's own and shipped ones.

The new preset is resolved before it is written: it must describe exactly the run that was saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mission_tui.cli.session import Session
from mission_tui.errors import PresetError, UsageError
from mission_tui.paths import user_presets

if TYPE_CHECKING:
    from mission_tui.fleet.specs.own_code import OwnCode
    from mission_tui.fleet.specs.preset import PresetFile, SavedPreset, Saving
    from mission_tui.fleet.specs.spec import Spec


@dataclass(frozen=True, slots=True)
class NamedPreset:
    """A preset from the working folder that is about to be used, the code it names, and the preset that it hides."""

    preset: PresetFile
    code: tuple[OwnCode, ...]
    hides: PresetFile | None = None


def named(preset: PresetFile, specs: Iterable[Spec], dirs: Sequence[Path]) -> NamedPreset | None:
    """The origin of `preset`, which became `specs`; None for the user's own and shipped ones."""
    from mission_tui.fleet.specs.own_code import own_code
    from mission_tui.records.preset_files import hidden_by

    if preset.origin != "here":
        return None
    code = dict.fromkeys(found for spec in specs for found in own_code(spec))
    return NamedPreset(preset, tuple(code), hidden_by(preset, dirs))


def sentences(it: NamedPreset) -> Iterator[str]:
    """That it hides another preset, and which code it names."""
    from mission_tui.fleet.specs.own_code import own_code_words

    name, where = it.preset.name, shown_path(it.preset.path)
    if it.hides is not None:
        whose = "the shipped one" if it.hides.origin == "shipped" else "yours"
        yield f"note: {name} is {where} in this folder, not {whose}; write {it.hides.origin}:{name} for that one"
    if it.code:
        yield f"note: preset {name} comes from {where} and names its own code: {own_code_words(it.code)}"


def say_origins(found: Iterable[NamedPreset]) -> None:
    """On stderr, a line each."""
    from mission_tui.cli.terminal_output import print_error

    for it in found:
        for sentence in sentences(it):
            print_error(sentence)


def own_code_facts(found: Iterable[NamedPreset]) -> list[dict[str, Any]]:
    """The same for documents: what each of these presets names, with its file."""
    return [
        {"preset": it.preset.name, "path": str(it.preset.path), "kind": code.kind, "key": code.key, "value": code.value}
        for it in found
        for code in it.code
    ]


def shown_path(path: Path) -> str:
    """Relative to the working folder, as a person would type it."""
    try:
        return f"./{path.absolute().relative_to(Path.cwd())}"
    except ValueError:
        return str(path)


def save_preset(session: Session, saving: Saving, *, replace: bool = False) -> SavedPreset:
    """Write it to the user's folder. Without `replace`, nothing is written where a preset has that name already.

    Raises `UsageError` for a sweep and for a name that a nearer folder has, `PresetError` for what is no preset.
    """
    from mission_tui.fleet.specs.assignment import expand
    from mission_tui.fleet.specs.preset import SavedPreset, check_preset_name, read_preset, written
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
