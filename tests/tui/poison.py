"""Values of the wire with foreign text in every place that can hold some, found by their types: new fields come by
themselves.

`poisoned` changes a value that makes sense and fills what it leaves empty. Names by which things find each other stay.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from mission_tui.fleet.history.course import Course
from tests.tui.fleets import NOW

__all__ = ["Poison"]

Value = TypeVar("Value")

_KEPT = frozenset(
    {"re", "id", "run", "runs", "uuid", "series", "low", "high", "state", "phase", "comparison", "can", "replay"}
)
_DEEPEST = 6


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Compiled from words each time, they would take a third of a campaign."""
    return get_type_hints(kind, include_extras=True)


class Poison:
    """`text` gives the next foreign string; everything else that is random comes from `luck`."""

    def __init__(self, text: Callable[[], str], luck: random.Random) -> None:
        self._text, self._luck = text, luck

    def poisoned(self, value: Value) -> Value:
        """A struct with other text in it, and something in most of what was empty."""
        assert isinstance(value, Struct)
        hints = _hints(type(value))
        fields: dict[str, Any] = {}
        for name in value.__struct_fields__:
            held = getattr(value, name)
            if name in _KEPT:
                fields[name] = held
            elif (held is None or held in ((), "", {})) and self._luck.random() < 0.6:
                fields[name] = self._made(hints[name], name)
            else:
                fields[name] = self._other(hints[name], held)
        return type(value)(**fields)

    def _other(self, hint: Any, held: Any) -> Any:
        if isinstance(held, Struct):
            return self.poisoned(held)
        if isinstance(held, str):
            return self._text() if _free(hint) else held
        if isinstance(held, tuple):
            inner = (get_args(_one_of(hint, tuple)) or (Any,))[0]
            return tuple(self._other(inner, each) for each in held)
        if isinstance(held, dict):
            inner = (get_args(_one_of(hint, dict)) or (str, Any))[1]
            more = {self._text(): self._other(inner, each) for each in list(held.values())[:1]}
            return {key: self._other(inner, each) for key, each in held.items()} | more
        return held

    def _made(self, hint: Any, name: str, depth: int = 0) -> Any:
        """Something of that type. `name` tells times from numbers."""
        origin, inner = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return "nan" if inner[0] is str else self._made(inner[0], name, depth)
        if origin is Literal:
            return self._luck.choice(inner)
        if origin in (Union, UnionType):
            return self._made(self._luck.choice([each for each in inner if each is not NoneType]), name, depth)
        if origin is tuple:
            many = self._luck.randrange(3) if inner[-1] is Ellipsis and depth < _DEEPEST else 0
            kinds = inner[:1] * many if inner[-1] is Ellipsis else inner
            return tuple(self._made(each, name, depth + 1) for each in kinds)
        if origin is dict:
            return {self._text(): self._made(inner[1], name, depth + 1) for _ in range(self._luck.randrange(3))}
        if hint is Course:
            return self._made_course(_hints(hint)["low"])
        if isinstance(hint, type) and issubclass(hint, Struct):
            hints = _hints(hint)
            return hint(**{each: self._made(hints[each], each, depth + 1) for each in hint.__struct_fields__})
        if hint is bool:
            return self._luck.random() < 0.5
        if hint is int:
            return self._luck.choice((0, 1, 7, 4096, 1 << 33))
        if hint is float:
            return NOW - self._luck.randrange(9000) if name in ("t", "due_t") or name.endswith("_t") else 0.37
        return self._text()

    def _made_course(self, hint: Any) -> Course:
        # Its ends are two columns of one table: as many of the one as of the other, and at least a row in each.
        many, end = self._luck.randrange(3), get_args(hint)[0]
        low, high = (tuple(self._made(end, name) for _ in range(many)) for name in ("low", "high"))
        return Course(self._luck.choice((1, 7, 4096, 1 << 33)), low, high)


def _free(hint: Any) -> bool:
    """Whether any string may stand there."""
    return hint is str or hint is Any or (get_origin(hint) in (Union, UnionType) and any(map(_free, get_args(hint))))


def _one_of(hint: Any, kind: type) -> Any:
    """The part of a union that is of `kind`."""
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((each for each in kinds if get_origin(each) is kind), Any)
