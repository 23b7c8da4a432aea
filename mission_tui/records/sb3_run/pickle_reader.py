"""A pickle read as a list of what it would have made: no class is looked up, nothing is called, nothing is made.

`pickletools` only cuts the file into its codes. Names stay names (`Named`), calls stay descriptions of calls (`Made`);
whatever else a pickle can ask for is refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mission_tui.errors import UsageError


class PickledError(UsageError):
    """A pickle that is damaged, or that asks for more than data is made of."""


@dataclass(frozen=True, slots=True)
class Named:
    """The class or function that would have been imported."""

    module: str
    name: str


@dataclass(slots=True)
class Made:
    """What a call of `what` with `arguments` would have given; `state` is what it would have been given then."""

    what: object
    arguments: object
    state: object = None


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NUMBERS = frozenset(("INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "FLOAT", "BINFLOAT"))
_TEXTS = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"))
_VALUES = _NUMBERS | _TEXTS | {"BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_PUT = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GET = frozenset(("GET", "BINGET", "LONG_BINGET"))
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


@dataclass(slots=True)
class _Reader:
    stack: list[Any] = field(default_factory=list)
    marked: list[list[Any]] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def read(self, code: str, argument: Any) -> None:
        if code in _VALUES:
            self.stack.append(argument)
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code])
        elif code in _PUT or code == "MEMOIZE":
            self.memo[len(self.memo) if code == "MEMOIZE" else argument] = self.stack[-1]
        elif code in _GET:
            self.stack.append(self.memo[argument])
        elif code in _TUPLES:
            self.stack[-_TUPLES[code] :] = [tuple(self.stack[-_TUPLES[code] :])]
        elif code in _STEPS:
            _STEPS[code](self)
        elif code == "GLOBAL":
            self.stack.append(Named(*argument.split(" ", 1)))
        elif code not in ("PROTO", "FRAME", "STOP"):
            raise PickledError(f"it asks for {code}, which plain statistics never do")

    def push(self, value: object) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        inside, self.stack = self.stack, self.marked.pop()
        return inside

    def mark(self) -> None:
        self.marked.append(self.stack)
        self.stack = []

    def named(self) -> None:
        module, name = self.stack[-2:]
        # Said as text, tuples of one another would fill the memory.
        if not (isinstance(module, str) and isinstance(name, str)):
            raise PickledError("it names a class by something that is not text")
        self.stack[-2:] = [Named(module, name)]

    def made(self) -> None:
        what, arguments = self.stack[-2:]
        self.stack[-2:] = [Made(what, arguments)]

    def made_with_names(self) -> None:
        what, arguments, names = self.stack[-3:]
        self.stack[-3:] = [Made(what, (arguments, names))]

    def build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], Made):
            raise PickledError("it gives a state to something that has none")
        self.stack[-1].state = state

    def put_in(self, items: list[Any]) -> None:
        """Elements into the list on top; those of anything that would have been made are left out."""
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def set_in(self, pairs: list[Any]) -> None:
        """Keys and values into the dictionary on top; only plain keys are kept."""
        if isinstance(self.stack[-1], dict):
            plain = (at for at in range(0, len(pairs) - 1, 2) if isinstance(pairs[at], str | int))
            self.stack[-1].update((pairs[at], pairs[at + 1]) for at in plain)


def _whole_table(reader: _Reader) -> None:
    pairs = reader.since_mark()
    reader.push({})
    reader.set_in(pairs)


_STEPS: Mapping[str, Callable[[_Reader], object]] = {
    "MARK": _Reader.mark,
    "POP": lambda reader: reader.stack.pop(),
    "POP_MARK": _Reader.since_mark,
    "EMPTY_LIST": lambda reader: reader.push([]),
    "EMPTY_SET": lambda reader: reader.push([]),
    "EMPTY_DICT": lambda reader: reader.push({}),
    "EMPTY_TUPLE": lambda reader: reader.push(()),
    "TUPLE": lambda reader: reader.push(tuple(reader.since_mark())),
    "LIST": lambda reader: reader.push(reader.since_mark()),
    "FROZENSET": lambda reader: reader.push(reader.since_mark()),
    "DICT": _whole_table,
    "APPEND": lambda reader: reader.put_in([reader.stack.pop()]),
    "APPENDS": lambda reader: reader.put_in(reader.since_mark()),
    "ADDITEMS": lambda reader: reader.put_in(reader.since_mark()),
    "SETITEM": lambda reader: reader.set_in([reader.stack.pop(-2), reader.stack.pop()]),
    "SETITEMS": lambda reader: reader.set_in(reader.since_mark()),
    "STACK_GLOBAL": _Reader.named,
    "REDUCE": _Reader.made,
    "NEWOBJ": _Reader.made,
    "NEWOBJ_EX": _Reader.made_with_names,
    "BUILD": _Reader.build,
}


def read_pickled(raw: bytes) -> object:
    """What `raw` describes: plain values, and `Made` for every object. Raises `PickledError`."""
    reader = _Reader()
    try:
        for code, argument, _ in pickletools.genops(raw):
            reader.read(code.name, argument)
        return reader.stack[-1]
    except (ValueError, IndexError, KeyError, TypeError, UnicodeError, OverflowError, AttributeError) as error:
        raise PickledError(f"it is damaged: {type(error).__name__}") from None
