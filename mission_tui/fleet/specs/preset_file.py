"""A preset before it is resolved: what its file says at the top level, checked, and its tables as they were written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from mission_tui.fleet.specs.schema import TABLES, Place, fit_table, unknown_key
from mission_tui.fleet.text import clean

PresetOrigin = Literal["yours", "shipped", "here"]
"""Whose a preset is: the user's own, one that came with the program, or one of the folder that is worked in, which may
be a repository of anybody's. `ORIGIN:NAME` names it whichever others have the name.
"""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEAD = ("name", "description", "extends", "key", "launch", "profile", "algo")
_SET_KEY = "P"


class PresetFile(Struct, frozen=True):
    """A preset by name. `table` holds its fitted tables by name; `launch` makes it a set of presets.

    `profile` is the host profile that lies over it: "auto", or the path of a file; None for none. One that is `here`
    never starts by a key, and may name code of its own that nobody has read yet.
    """

    name: str
    path: Path
    table: Mapping[str, dict[str, object]] = field(default_factory=dict)
    description: str = ""
    extends: str | None = None
    key: str | None = None
    launch: tuple[str, ...] = ()
    profile: str | None = None
    origin: PresetOrigin = "here"

    @property
    def place(self) -> Place:
        """The file's top level, for messages."""
        return Place(str(self.path))


class Saving(Struct, frozen=True):
    """Preset `source` with the `--set` words `assignments`, to be called `name`, on the digit `key` if one is given."""

    source: str
    name: str
    assignments: tuple[str, ...] = ()
    key: str | None = None
    description: str | None = None


class SavedPreset(Struct, frozen=True):
    """The preset `name` is in the file at `path`; or nothing was written, because of what is `there`, a sentence."""

    name: str
    path: str
    there: str = ""


def check_preset_name(name: str) -> str:
    """`name` if a preset can be called so. Raises `PresetError` that says what can."""
    return _word(name, Place("a new preset", "name"))


def read_preset(table: Mapping[str, object], path: Path) -> PresetFile:
    """The preset in `table`, parsed from the file at `path`; its default name is the file's stem.

    Raises `PresetError` naming file, key and the nearest valid name or value. Fields that a base preset may bring and
    contradictions between fields are left to `resolve`.
    """
    place = Place(str(path))
    table = _with_algo(table, place)
    for key in table:
        if key not in TABLES and key not in _HEAD:
            raise unknown_key(place.at(key), key, (*_HEAD, *TABLES))
    launch = _launch(table, place)
    return PresetFile(
        name=_word(table.get("name", path.stem), place.at("name")),
        path=path,
        table={
            name: fit_table(TABLES[name], table[name], place.at(name), complete=False)
            for name in TABLES
            if name in table
        },
        description=clean(_text(table.get("description", ""), place.at("description"))),
        extends=_word(table["extends"], place.at("extends")) if "extends" in table else None,
        key=_key(table["key"], place.at("key"), is_set=bool(launch)) if "key" in table else None,
        launch=launch,
        profile=_profile(table["profile"], place.at("profile"), path) if "profile" in table else None,
    )


def _with_algo(table: Mapping[str, object], place: Place) -> Mapping[str, object]:
    """`algo` at the top level is `run.algo`, written where a reader looks first."""
    if "algo" not in table:
        return table
    run = table.get("run", {})
    if isinstance(run, Mapping) and "algo" in run:
        raise place.refuse("algo and run.algo say the same; keep one of them")
    rest = {name: value for name, value in table.items() if name != "algo"}
    return {**rest, "run": {**run, "algo": table["algo"]} if isinstance(run, Mapping) else run}


def _text(value: object, place: Place) -> str:
    if not isinstance(value, str):
        raise place.misfit(value, "text in quotes")
    return value


def _word(value: object, place: Place) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise place.misfit(value, "1 to 64 letters, digits, '.', '_' or '-', starting with a letter or digit")
    return value


def _key(value: object, place: Place, *, is_set: bool) -> str:
    allowed = f'a digit in quotes, such as "5"{f", or {_SET_KEY!r} for a set" if is_set else ""}'
    if not isinstance(value, str) or not (re.fullmatch("[0-9]", value) or (is_set and value == _SET_KEY)):
        raise place.misfit(value, allowed)
    return value


def _profile(value: object, place: Place, path: Path) -> str:
    if value == "auto":
        return "auto"
    if not isinstance(value, str) or not value.endswith(".toml"):
        raise place.misfit(value, '"auto", or the path of a profile that mission-tui tune has written')
    return str(path.parent / Path(value).expanduser())


def _launch(table: Mapping[str, object], place: Place) -> tuple[str, ...]:
    if "launch" not in table:
        return ()
    names = table["launch"]
    if names == []:
        raise place.refuse('launch = [] names no preset; give some, such as ["fast", "heavy"]')
    if not isinstance(names, list):
        raise place.at("launch").misfit(names, 'a list of preset names, such as ["fast", "heavy"]')
    for other in ("extends", "profile", "algo", *TABLES):
        if other in table:
            raise place.refuse(f"launch makes this a set of presets, which has no {other}; remove one of the two")
    return tuple(_word(name, place.at("launch").item(index)) for index, name in enumerate(names))
