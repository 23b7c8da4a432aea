"""Settings laid over one another: later layers win, `kwargs` tables add up, and each field remembers who wrote it last.

Invariant: the tables always hold fitted values, so that only contradictions between fields are left to find.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import msgspec

from mission_tui.fleet.specs.assignment import Assignment
from mission_tui.fleet.specs.consistency import violations
from mission_tui.fleet.specs.place import Place
from mission_tui.fleet.specs.quantity import format_quantity
from mission_tui.fleet.specs.schema import TABLES, field_of, fit, merges, unknown_key
from mission_tui.fleet.specs.spec import Spec

__all__ = ["Layers"]

_BUDGETS = ("total_timesteps", "duration_s")
_DEEPEST_KEY = 10


class Layers:
    """The layers of one spec. `place` is what a message names when no layer wrote the field in question."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._tables: dict[str, dict[str, Any]] = {name: {} for name in TABLES}
        self._writers: dict[str, str] = {}

    def add_layer(self, place: Place, tables: Mapping[str, Mapping[str, object]]) -> None:
        """Put fitted `tables` on top. A budget, in steps or seconds, replaces the budget of the layers below."""
        self._make_room(tables.get("run", {}))
        for table, fields in tables.items():
            for name, value in fields.items():
                adds = merges(field_of(table, name, place.at(table)).type)
                below = self._tables[table].get(name)
                self._tables[table][name] = _merged(below, value) if adds else deepcopy(value)
                self._wrote(table, name, place)

    def add_bottom_layer(self, place: Place, tables: Mapping[str, Mapping[str, object]]) -> None:
        """Put fitted `tables` at the bottom: they fill in what no layer so far has written."""
        for table, fields in tables.items():
            for name, value in fields.items():
                above = self._tables[table].get(name)
                self._tables[table][name] = deepcopy(value) if above is None else _merged(value, above)
                self._writers.setdefault(f"{table}.{name}", place.source)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Put the words of one command line on top, as one layer. Raises `PresetError`."""
        keys = {assignment.key for assignment in assignments if assignment.value is not None}
        self._make_room({budget for budget in _BUDGETS if f"run.{budget}" in keys})
        for assignment in assignments:
            self._assign(assignment)

    @property
    def tables(self) -> dict[str, dict[str, Any]]:
        """What all layers together have written, table by table; those in which nobody wrote are absent."""
        return {name: deepcopy(table) for name, table in self._tables.items() if table}

    def draft(self, name: str, description: str) -> Spec:
        """The spec of preset `name` so far, contradictions and all. Raises `PresetError` without an environment."""
        if "id" not in self._tables["env"] and "command" not in self._tables["run"]:
            place = Place(self._last_writer(("env.id",)))
            raise place.refuse("env.id is missing; give a Gymnasium id, such as 'CartPole-v1', or a run.command")
        return msgspec.convert({"preset": name, "description": description, **self._tables}, Spec)

    def finish(self, name: str, description: str) -> Spec:
        """The spec of preset `name`. Raises `PresetError` for a missing environment or a contradiction."""
        spec = self.draft(name, description)
        for violation in violations(spec):
            raise Place(self._last_writer(violation.keys)).refuse(violation.sentence)
        return spec

    def _assign(self, assignment: Assignment) -> None:
        place = Place(assignment.source)
        table, *path = assignment.key.split(".")
        if table not in TABLES:
            raise unknown_key(place.at(table), table, TABLES)
        if not path or len(path) > _DEEPEST_KEY:
            raise place.refuse(
                f"{format_quantity(assignment.key)} is not the key of a setting, such as {table}.{_first(table)}"
            )
        field = field_of(table, path[0], place.at(table))
        value = _with(self._tables[table].get(path[0]), path[1:], assignment.value)
        if value is None:
            self._tables[table].pop(path[0], None)
        else:
            self._tables[table][path[0]] = fit(field.type, value, place.at(table).at(path[0]), field.default)
        self._wrote(table, path[0], place)

    def _make_room(self, written: Mapping[str, object] | set[str]) -> None:
        if any(budget in written for budget in _BUDGETS):
            for budget in _BUDGETS:
                self._tables["run"].pop(budget, None)

    def _wrote(self, table: str, name: str, place: Place) -> None:
        self._writers.pop(f"{table}.{name}", None)
        self._writers[f"{table}.{name}"] = place.source

    def _last_writer(self, keys: Sequence[str]) -> str:
        return next((self._writers[key] for key in reversed(self._writers) if key in keys), self._place.source)


def _first(table: str) -> str:
    return TABLES[table].fields[0].name


def _merged(below: object, above: object) -> object:
    if not isinstance(below, dict) or not isinstance(above, dict):
        return deepcopy(above)
    return {**below, **{name: _merged(below.get(name), value) for name, value in above.items()}}


def _with(current: object, path: Sequence[str], value: object) -> object:
    """`current` with `value` at `path` inside it; None takes what is there away."""
    if not path:
        return value
    table = dict(current) if isinstance(current, dict) else {}
    inner = _with(table.get(path[0]), path[1:], value)
    if inner is None:
        table.pop(path[0], None)
    else:
        table[path[0]] = inner
    return table
