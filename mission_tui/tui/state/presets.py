"""A preset as the screen offers it, and the shell that launches come from.

The command line fills presets in, because this room reads no preset files. The shell is captured before Textual is
imported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from mission_tui.errors import UsageError
from mission_tui.fleet.commands import LAUNCH_KEYS
from mission_tui.fleet.specs.spec import Spec

if TYPE_CHECKING:
    from mission_tui.fleet.specs.preset import SavedPreset, Saving


class PresetChoice(Struct, frozen=True):
    """`launch` names the presets of a set; `error` is why the file cannot be used, and then it is not started.

    `from_folder` is the file of one that is neither the user's own nor shipped, but of the folder that is worked in: a
    key or a list opens the form with it, which says what code of its own it names, and starts nothing. `ref` is by what
    it is resolved, whatever files have come meanwhile; empty for the name alone.
    """

    name: str
    description: str = ""
    key: str | None = None
    launch: tuple[str, ...] = ()
    error: str | None = None
    from_folder: str = ""
    ref: str = ""

    @property
    def label(self) -> str:
        """Its name; dots where it opens the form and starts nothing."""
        return f"{self.name}…" if self.from_folder else self.name


LoadPresets = Callable[[], tuple[PresetChoice, ...]]
Resolve = Callable[[str, Sequence[str]], list[Spec]]
"""Preset name and `--set` assignments to one spec per run; raises a `MissionError` that names the key at fault."""

SavePreset = Callable[["Saving", bool], "SavedPreset"]
"""Saves a preset; only with the second argument true also where one of that name is. Raises a `MissionError`."""


def save_nothing(_saving: Saving, _replace: bool) -> SavedPreset:
    """For a screen from which nothing can be saved."""
    raise UsageError("presets cannot be saved from this screen; `mission-tui presets save` does it")


def by_key(presets: Iterable[PresetChoice]) -> dict[str, PresetChoice]:
    """The presets that keys stand for, as the keys lie; the first wins, the working folder's only where no other has
    the key.
    """
    carried: dict[str, PresetChoice] = {}
    for preset in sorted(presets, key=lambda it: bool(it.from_folder)):
        if preset.key in LAUNCH_KEYS and preset.key is not None:
            carried.setdefault(preset.key, preset)
    return {key: carried[key] for key in LAUNCH_KEYS if key in carried}


def members(preset: PresetChoice) -> tuple[str, ...]:
    """The names to resolve: those of a set, else the preset itself."""
    return preset.launch or (preset.ref or preset.name,)
