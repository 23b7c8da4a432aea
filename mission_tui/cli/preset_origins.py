"""Where presets come from and which code of their own they name, printed before any of it is started.

`./presets` may come from someone else, for example with a cloned repository. Nothing is printed about presets of the
user's own and shipped ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mission_tui.fleet.specs.own_code import OwnCode
    from mission_tui.fleet.specs.preset_file import PresetFile
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
