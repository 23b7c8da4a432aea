"""Where presets come from and what code of their own they name, said before anything of it is started.

`./presets` may be a stranger's: a cloned repository brings one along. Of what is the user's own or came with the
program nothing is said.
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
    """A preset of neither the user nor the program that is about to be used, what it names, and whose name it has."""

    preset: PresetFile
    code: tuple[OwnCode, ...]
    hides: PresetFile | None = None


def named(preset: PresetFile, specs: Iterable[Spec], dirs: Sequence[Path]) -> NamedPreset | None:
    """What is to be said of `preset`, which became `specs`; None for one of the user's own or a shipped one."""
    from mission_tui.fleet.specs.own_code import own_code
    from mission_tui.records.preset_files import hidden_by

    if preset.origin != "here":
        return None
    code = dict.fromkeys(found for spec in specs for found in own_code(spec))
    return NamedPreset(preset, tuple(code), hidden_by(preset, dirs))


def sentences(it: NamedPreset) -> Iterator[str]:
    """That it took another's name, and what it names of its own."""
    from mission_tui.fleet.specs.own_code import own_code_words

    name, where = it.preset.name, shown_path(it.preset.path)
    if it.hides is not None:
        whose = "the shipped one" if it.hides.origin == "shipped" else "yours"
        yield f"note: {name} is {where} of this folder, not {whose}; {it.hides.origin}:{name} names that"
    if it.code:
        yield f"note: preset {name} comes from {where} and names code of its own: {own_code_words(it.code)}"


def say_origins(found: Iterable[NamedPreset]) -> None:
    """On stderr, a line each."""
    from mission_tui.cli.errors import print_error

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
    """From the working folder on, as a person would type it."""
    try:
        return f"./{path.absolute().relative_to(Path.cwd())}"
    except ValueError:
        return str(path)
