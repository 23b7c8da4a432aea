"""Fits untyped tables (TOML, `--set` words) to the tables of `Spec`: the struct types are the only description of what
is valid, so a field added there is accepted, checked and suggested here without another line.

A scalar is fitted to its type, or refused with the nearest valid value: forgiving about how a number or a truth value
is written, strict about what it is. Every refusal names the place: the file or `--set` word, and the dotted key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import get_args

from msgspec import NODEFAULT, Struct, inspect, structs

from mission_tui.errors import PresetError, nearest
from mission_tui.fleet.specs.quantity import format_quantity, parse_bytes, parse_real, parse_whole, span_s
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import LAUNCHERS, Spec

SCALARS = (inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.StrType, inspect.LiteralType)
_OF_BYTES = ("_free", ".memory")
_DEEPEST = 8
_TRUTH = {"true": True, "false": False}


def plain_key(name: str) -> str:
    """A key as messages show it: itself, or escaped and shortened when it holds anything unprintable."""
    text = name if name.isprintable() else ascii(name)[1:-1]
    return text if len(text) <= 60 else f"{text[:57]}..."


class Place(Struct, frozen=True):
    """A key within a source; the empty key is the source's top level."""

    source: str
    key: str = ""

    def at(self, name: str) -> Place:
        """The place of key `name` inside this table."""
        name = plain_key(name)
        return Place(self.source, f"{self.key}.{name}" if self.key else name)

    def item(self, index: int) -> Place:
        """The place of element `index` of this list."""
        return Place(self.source, f"{self.key}[{index}]")

    def refuse(self, sentence: str) -> PresetError:
        """The error that `sentence` is; the caller raises it."""
        return PresetError(f"{self.source}: {sentence}")

    def misfit(self, value: object, wanted: str) -> PresetError:
        """The error that `value` here should have been `wanted`."""
        return self.refuse(f"{self.key} = {format_quantity(value)} must be {wanted}")


def _fields(struct: inspect.StructType) -> dict[str, inspect.Field]:
    return {field.encode_name: field for field in struct.fields}


def members(type_: inspect.Type) -> tuple[inspect.Type, ...]:
    """What a value of this type may be, one by one, "not written" aside."""
    members = type_.types if isinstance(type_, inspect.UnionType) else (type_,)
    return tuple(member for member in members if not isinstance(member, inspect.NoneType))


class Tables(Mapping[str, inspect.StructType]):
    """The tables of `Spec` by name. Each is described once it is asked for: all at once take a tenth of the start of
    a process that asks for none.
    """

    def __init__(self) -> None:
        self._structs = {
            field.name: type_
            for field in structs.fields(Spec)
            for type_ in get_args(field.type) or (field.type,)
            if isinstance(type_, type) and issubclass(type_, Struct)
        }

    def __getitem__(self, name: str) -> inspect.StructType:
        return described(self._structs[name])

    def __contains__(self, name: object) -> bool:
        return name in self._structs

    def __iter__(self) -> Iterator[str]:
        return iter(self._structs)

    def __len__(self) -> int:
        return len(self._structs)


@cache
def described(struct: type[Struct]) -> inspect.StructType:
    """The fields of `struct` with their types."""
    found = inspect.type_info(struct)
    assert isinstance(found, inspect.StructType)
    return found


TABLES: Mapping[str, inspect.StructType] = Tables()
"""The tables of a preset by name: `env`, `ppo`, `run`, `keep`, `evaluate`, `slurm`, `ray`, and one for each of the
algorithms that `run.algo` may name."""
ENGINES = tuple(name for name in LAUNCHERS if name in TABLES)
"""The launchers of which something can be asked in a table of their own."""
_FAMILIAR = {"lr": "learning_rate"}
"""Short names that lists and filters show, too short to be near the setting that they mean."""


def field_of(table: str, name: str, place: Place) -> inspect.Field:
    """Field `name` of the spec's `table`; raises `PresetError` with the nearest valid name. `place` is the table's."""
    fields = _fields(TABLES[table])
    if name not in fields:
        raise unknown_key(place.at(name), name, fields)
    return fields[name]


def unknown_key(place: Place, name: str, siblings: Iterable[str]) -> PresetError:
    """The refusal of key `name`: names the table it belongs to, else the nearest of its `siblings`, else them all."""
    siblings, name = tuple(siblings), _FAMILIAR.get(name, name[:60])
    tables = {table: struct for table, struct in TABLES.items() if table not in OTHERS}
    homes = {field: f"{table}.{field}" for table, struct in tables.items() for field in _fields(struct)}
    if place.key.partition(".")[0] in OTHERS and "." in place.key:
        hint = nearest(name, siblings) or f"; valid here: {', '.join(siblings)}"
    elif homes.get(name, place.key) != place.key:
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
        as_text = _takes(type_, inspect.StrType) and not _takes(type_, inspect.FloatType)
        value = value.text if as_text and not isinstance(value.value, str) else value.value
    wanted = " or ".join(dict.fromkeys(describe(member) for member in members(type_)))
    chosen = _member(type_, value)
    if isinstance(chosen, inspect.StructType):
        return fit_table(chosen, value, place)
    if isinstance(chosen, inspect.VarTupleType) and isinstance(value, list):
        return [fit(chosen.item_type, item, place.item(index)) for index, item in enumerate(value)]
    if isinstance(chosen, inspect.DictType) and isinstance(value, dict):
        if isinstance(chosen.value_type, inspect.AnyType):
            return _plain(value, place)
        return {name: fit(chosen.value_type, item, place.at(name)) for name, item in value.items()}
    if isinstance(chosen, SCALARS):
        return _fit_scalar(chosen, value, place, wanted, _example(default))
    raise place.misfit(value, wanted)


def merges(type_: inspect.Type) -> bool:
    """Whether a later layer's table for this field adds to an earlier one's, key by key, instead of replacing it."""
    return isinstance(type_, inspect.StructType | inspect.DictType)


def _takes(type_: inspect.Type, kind: type[inspect.Type]) -> bool:
    return any(isinstance(member, kind) for member in members(type_))


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
    elif isinstance(value, str) and any(isinstance(m, inspect.StrType) for m in found):
        kinds = (inspect.StrType,)
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


class TypedText(Struct, frozen=True):
    """A value from the command line: what TOML makes of it (else the bare text), and the text as it was given."""

    value: object
    text: str


def _fit_scalar(type_: inspect.Type, value: object, place: Place, wanted: str, example: str) -> object:
    """`value` as `type_` (one of `SCALARS`).

    Raises `PresetError` saying what was `wanted` (with an `example` such as the default), or the nearest valid value.
    """
    if isinstance(type_, inspect.IntType | inspect.FloatType):
        return _number(type_, value, place, wanted, example)
    if isinstance(type_, inspect.BoolType):
        truth = _TRUTH.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(truth, bool):
            raise place.misfit(value, wanted)
        return truth
    if not isinstance(value, str):
        raise place.misfit(value, wanted)
    if place.key == "ppo.algo" and value in OTHERS:
        raise place.misfit(value, f"{wanted}; {value} has a table of its own and is named by run.algo = '{value}'")
    if isinstance(type_, inspect.LiteralType) and value not in type_.values:
        raise place.misfit(value, f"{wanted}{nearest(value, [str(choice) for choice in type_.values])}")
    if isinstance(type_, inspect.StrType) and len(value) < (type_.min_length or 0):
        raise place.misfit(value, "at least one character long")
    if isinstance(type_, inspect.StrType) and type_.max_length is not None and len(value) > type_.max_length:
        raise place.misfit(value, f"at most {type_.max_length} characters long")
    return _text(value, place)


def _plain(value: object, place: Place, depth: int = 0) -> object:
    """`value` for a table whose keys are not ours (`kwargs`): text, finite numbers, truth values, lists and tables.

    Anything else could not travel as TOML and as JSON, and is refused.
    """
    if depth > _DEEPEST:
        raise place.refuse(f"{place.key[:60]} is nested deeper than {_DEEPEST} levels")
    if isinstance(value, TypedText):
        truth = _TRUTH.get(value.value.lower()) if isinstance(value.value, str) else None
        return _plain(value.value if truth is None else truth, place, depth)
    if isinstance(value, dict):
        return {_text(name, place): _plain(item, place.at(name), depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, place.item(index), depth + 1) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _text(value, place)
    if isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, float) and parse_real(value) is not None:
        return value
    raise place.misfit(value, "text, a finite number below 64 bits, true or false, a list or a table")


def _text(value: str, place: Place) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise place.misfit(value, "valid UTF-8 text") from None
    return value


def _number(
    type_: inspect.IntType | inspect.FloatType, value: object, place: Place, wanted: str, example: str
) -> float:
    number: float | None = None
    if isinstance(value, str) and place.key.endswith("_s"):
        number = span_s(value)  # 10m is minutes here, and no millions
        example = ", such as 600 or 10m"
        if isinstance(type_, inspect.IntType):
            number = int(number) if number is not None and number.is_integer() else None
    elif isinstance(value, str) and place.key.endswith(_OF_BYTES):
        number, example = parse_bytes(value), ", such as 8G or 8GiB"
    if number is None:
        number = parse_whole(value) if isinstance(type_, inspect.IntType) else parse_real(value)
    if number is None:
        near = parse_real(value) if isinstance(type_, inspect.IntType) else None
        hint = example if near is None or abs(near) > 2**53 else f"; the nearest valid value is {round(near)}"
        raise place.misfit(value, f"{wanted}{hint}")
    if type_.ge is not None and number < type_.ge:
        raise place.misfit(value, f"at least {type_.ge:.10g}; the nearest valid value is {type_.ge:.10g}")
    if type_.le is not None and number > type_.le:
        raise place.misfit(value, f"at most {type_.le:.10g}; the nearest valid value is {type_.le:.10g}")
    if type_.gt is not None and number <= type_.gt:
        raise place.misfit(value, f"above {type_.gt:.10g}{example}")
    return number
