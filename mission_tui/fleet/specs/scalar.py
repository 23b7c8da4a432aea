"""Fits one value to one scalar type of the spec, or refuses it with the nearest valid value.

Forgiving about how a number or a truth value is written, strict about what it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import inspect

from mission_tui.errors import nearest
from mission_tui.fleet.specs.place import Place
from mission_tui.fleet.specs.quantity import parse_real, parse_whole

__all__ = ["SCALARS", "TypedText", "fit_scalar", "plain"]

SCALARS = (inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.StrType, inspect.LiteralType)
_DEEPEST = 8
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class TypedText:
    """A value from the command line: what TOML makes of it (else the bare text), and the text as it was given."""

    value: object
    text: str


def fit_scalar(type_: inspect.Type, value: object, place: Place, wanted: str, example: str = "") -> object:
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
    if isinstance(type_, inspect.LiteralType) and value not in type_.values:
        raise place.misfit(value, f"{wanted}{nearest(value, [str(choice) for choice in type_.values])}")
    if isinstance(type_, inspect.StrType) and len(value) < (type_.min_length or 0):
        raise place.misfit(value, "at least one character long")
    return _text(value, place)


def plain(value: object, place: Place, depth: int = 0) -> object:
    """`value` for a table whose keys are not ours (`kwargs`): text, finite numbers, truth values, lists and tables.

    Anything else could not travel as TOML and as JSON, and is refused.
    """
    if depth > _DEEPEST:
        raise place.refuse(f"{place.key[:60]} is nested deeper than {_DEEPEST} levels")
    if isinstance(value, TypedText):
        truth = _TRUTH.get(value.value.lower()) if isinstance(value.value, str) else None
        return plain(value.value if truth is None else truth, place, depth)
    if isinstance(value, dict):
        return {_text(name, place): plain(item, place.at(name), depth + 1) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item, place.item(index), depth + 1) for index, item in enumerate(value)]
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
