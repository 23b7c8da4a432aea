"""Fits untyped tables (TOML, `--set` words) to the tables of `Spec`: the struct types are the only description of what
is valid, so a field added there is accepted, checked and suggested here without another line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import NODEFAULT, inspect

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs.place import Place
from mission_tui.fleet.specs.scalar import SCALARS, TypedText, fit_scalar, plain
from mission_tui.fleet.specs.spec import Spec

__all__ = ["TABLES", "describe", "field_of", "fit", "fit_table", "members", "merges", "unknown_key"]


def _fields(struct: inspect.StructType) -> dict[str, inspect.Field]:
    return {field.encode_name: field for field in struct.fields}


_SPEC = inspect.type_info(Spec)
assert isinstance(_SPEC, inspect.StructType)
TABLES: Mapping[str, inspect.StructType] = {
    field.name: field.type for field in _SPEC.fields if isinstance(field.type, inspect.StructType)
}
"""The tables of a preset by name: `env`, `ppo`, `run`, `keep`, `evaluate`."""


def field_of(table: str, name: str, place: Place) -> inspect.Field:
    """Field `name` of the spec's `table`; raises `PresetError` with the nearest valid name. `place` is the table's."""
    fields = _fields(TABLES[table])
    if name not in fields:
        raise unknown_key(place.at(name), name, fields)
    return fields[name]


def unknown_key(place: Place, name: str, siblings: Iterable[str]) -> PresetError:
    """The refusal of key `name`: names the table it belongs to, else the nearest of its `siblings`, else them all."""
    siblings, name = tuple(siblings), name[:60]
    homes = {field: f"{table}.{field}" for table, struct in TABLES.items() for field in _fields(struct)}
    if homes.get(name, place.key) != place.key:
        hint = f"; did you mean '{homes[name]}'?"
    else:
        elsewhere = () if "." in place.key else tuple(homes.values())
        hint = nearest(name, (*siblings, *elsewhere)) or f"; valid here: {', '.join(siblings)}"
    return place.refuse(f"unknown key {place.key}{hint}")


def fit_table(struct: inspect.StructType, table: object, place: Place, *, complete: bool = True) -> dict[str, object]:
    """`table` with every value fitted to `struct`; fields that were not written stay absent.

    With `complete`, fields without a default must be there. Raises `PresetError` on the first thing that does not fit.
    """
    fields = _fields(struct)
    if not isinstance(table, dict):
        raise place.misfit(table, f"a table of {', '.join(fields)}")
    fitted: dict[str, object] = {}
    for name, value in table.items():
        if name not in fields:
            raise unknown_key(place.at(name), name, fields)
        fitted[name] = fit(fields[name].type, value, place.at(name), fields[name].default)
    missing = [name for name, field in fields.items() if field.required and name not in fitted]
    if complete and missing:
        raise place.refuse(f"{place.at(missing[0]).key} is missing; {place.key} takes {', '.join(fields)}")
    return fitted


def fit(type_: inspect.Type, value: object, place: Place, default: object = NODEFAULT) -> object:
    """`value` as plain data that msgspec converts to `type_` without complaint; raises `PresetError` otherwise."""
    if isinstance(value, TypedText):
        value = value.text if _takes_text(type_) and not isinstance(value.value, str) else value.value
    wanted = " or ".join(dict.fromkeys(describe(member) for member in members(type_)))
    chosen = _member(type_, value)
    if isinstance(chosen, inspect.StructType):
        return fit_table(chosen, value, place)
    if isinstance(chosen, inspect.VarTupleType) and isinstance(value, list):
        return [fit(chosen.item_type, item, place.item(index)) for index, item in enumerate(value)]
    if isinstance(chosen, inspect.DictType) and isinstance(value, dict):
        if isinstance(chosen.value_type, inspect.AnyType):
            return plain(value, place)
        return {name: fit(chosen.value_type, item, place.at(name)) for name, item in value.items()}
    if isinstance(chosen, SCALARS):
        return fit_scalar(chosen, value, place, wanted, _example(default))
    raise place.misfit(value, wanted)


def merges(type_: inspect.Type) -> bool:
    """Whether a later layer's table for this field adds to an earlier one's, key by key, instead of replacing it."""
    return isinstance(type_, inspect.StructType | inspect.DictType)


def members(type_: inspect.Type) -> tuple[inspect.Type, ...]:
    """What a value of this type may be, one by one, "not written" aside."""
    members = type_.types if isinstance(type_, inspect.UnionType) else (type_,)
    return tuple(member for member in members if not isinstance(member, inspect.NoneType))


def _takes_text(type_: inspect.Type) -> bool:
    return any(isinstance(member, inspect.StrType) for member in members(type_))


def _member(type_: inspect.Type, value: object) -> inspect.Type | None:
    """The member of a union that `value` is meant for, by its shape."""
    found = members(type_)
    kinds: tuple[type[inspect.Type], ...]
    if isinstance(value, dict):
        kinds = (inspect.StructType, inspect.DictType)
    elif isinstance(value, list):
        kinds = (inspect.VarTupleType,)
    elif isinstance(value, str) and any(isinstance(m, inspect.LiteralType) and value in m.values for m in found):
        kinds = (inspect.LiteralType,)
    else:
        kinds = SCALARS
    return next((member for member in found if isinstance(member, kinds)), found[0] if len(found) == 1 else None)


def _example(default: object) -> str:
    return f", such as {default}" if isinstance(default, int | float) and not isinstance(default, bool) else ""


def describe(type_: inspect.Type) -> str:
    """The type in words, as a refusal says what was wanted."""
    match type_:
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a finite number"
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return "text"
        case inspect.LiteralType():
            return f"{'one of ' if len(type_.values) > 1 else ''}{', '.join(repr(value) for value in type_.values)}"
        case inspect.VarTupleType():
            return f"a list in brackets with {' or '.join(describe(item) for item in members(type_.item_type))} each"
        case inspect.StructType():
            return f"a table of {', '.join(_fields(type_))}"
        case _:
            return "a table"
