"""Turns parsed TOML into frozen dataclasses, strictly: an unknown key, a missing one, a wrong type or a value out of
range is refused with one sentence that names the file, the key and what would have been right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mission_tui.errors import PresetError, nearest

__all__ = ["build"]

T = TypeVar("T")

_RANGES: Mapping[str, Callable[[float], bool]] = {
    "above 0": lambda value: value > 0,
    "0 or more": lambda value: value >= 0,
    "between 0 and 1": lambda value: 0 <= value <= 1,
}


def build(cls: type[T], table: object, source: str, key: str = "") -> T:
    """Build dataclass `cls` from the TOML `table` found in file `source` under dotted `key` (empty at the top).

    Raises `PresetError` on the first thing that does not fit.
    """
    if not isinstance(table, Mapping):
        raise _misfit(source, key, "a table", table)
    hints = get_type_hints(cls, include_extras=True)
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
    for name in table:
        if name not in hints:
            raise PresetError(f"{source}: unknown key '{_join(key, str(name))}'{nearest(str(name), names)}")
    for name in names:
        if name not in table:
            raise PresetError(f"{source}: key '{_join(key, name)}' is missing")
    return cls(**{name: _convert(hints[name], table[name], source, _join(key, name)) for name in names})


def _convert(hint: Any, value: object, source: str, key: str) -> object:
    if is_dataclass(hint) and isinstance(hint, type):
        return build(hint, value, source, key)
    origin = get_origin(hint)
    if origin is tuple:
        return _convert_list(get_args(hint), value, source, key)
    if origin is Annotated:
        return _convert_number(hint, value, source, key)
    if origin is Literal:
        choices = get_args(hint)
        if value not in choices:
            hint_text = nearest(value, choices) if isinstance(value, str) else ""
            raise PresetError(f"{source}: '{key}' must be one of {', '.join(choices)}, found {value!r}{hint_text}")
        return value
    if hint is float:
        return _float(value, source, key)
    if hint is int and (not isinstance(value, int) or isinstance(value, bool)):
        raise _misfit(source, key, "a whole number", value)
    return value


def _convert_list(items: tuple[Any, ...], value: object, source: str, key: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise _misfit(source, key, "a list", value)
    if items[-1] is Ellipsis:
        items = (items[0],) * len(value)
    if len(items) != len(value):
        raise _misfit(source, key, f"a list of {len(items)} numbers", value)
    pairs = enumerate(zip(items, value, strict=True))
    return tuple(_convert(hint, item, source, f"{key}[{i}]") for i, (hint, item) in pairs)


def _convert_number(hint: Any, value: object, source: str, key: str) -> float:
    number = _float(value, source, key)
    span = hint.__metadata__[0]
    if not _RANGES[span](number):
        raise PresetError(f"{source}: '{key}' must be {span}, found {number:g}")
    return number


def _float(value: object, source: str, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _misfit(source, key, "a finite number", value)
    return float(value)


def _misfit(source: str, key: str, wanted: str, value: object) -> PresetError:
    where = f"{source}: '{key}'" if key else source
    return PresetError(f"{where} must be {wanted}, found {value!r}")


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name
