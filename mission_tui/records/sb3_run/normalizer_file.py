"""The `vecnormalize.pkl` of a run, read without unpickling: what was normalised, and its running moments as bytes.

The pickle becomes a list of what it would have made: no class is looked up, nothing is called, nothing is made.
`pickletools` only cuts the file into its codes. Names stay names (`PickledName`), calls stay descriptions of calls
(`PickledCall`); whatever else a pickle can ask for is refused.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from mission_tui.errors import CheckpointError, UsageError
from mission_tui.plain_files import read_given
from mission_tui.records.sb3_run.zoo_settings import NORMALIZE

STATISTICS = ".vecnormalize.pkl"
"""In place of a zip's suffix: what `export` writes beside it."""
MOST_BYTES = 64 << 20
_MOST_CODES = 1 << 18
"""Statistics have some thousands; of codes alone 64 MiB would fill gigabytes, for minutes."""
_MODULES = ("numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric")
_DTYPES = frozenset(("f4", "f8"))
_CONVERT = (
    "in a Python that trusts it, `VecNormalize.load(...)` it, and save it again with the current Stable-Baselines3"
)


class PickledError(UsageError):
    """A pickle that is damaged, or that asks for more than data is made of."""


class PickledName(Struct, frozen=True):
    """The class or function that would have been imported."""

    module: str
    name: str


class PickledCall(Struct):
    """What a call of `what` with `arguments` would have given; `state` is what it would have been given then."""

    what: object
    arguments: object
    state: object = None


_VEC_NORMALIZE = PickledName("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
_MOMENTS = PickledName("stable_baselines3.common.running_mean_std", "RunningMeanStd")

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NUMBERS = frozenset(("INT", "LONG", "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "FLOAT", "BINFLOAT"))
_TEXTS = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"))
_VALUES = _NUMBERS | _TEXTS | {"BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
_PUT = frozenset(("PUT", "BINPUT", "LONG_BINPUT"))
_GET = frozenset(("GET", "BINGET", "LONG_BINGET"))
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Reader(Struct):
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
            self.stack.append(PickledName(*argument.split(" ", 1)))
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
        self.stack[-2:] = [PickledName(module, name)]

    def made(self) -> None:
        what, arguments = self.stack[-2:]
        self.stack[-2:] = [PickledCall(what, arguments)]

    def made_with_names(self) -> None:
        what, arguments, names = self.stack[-3:]
        self.stack[-3:] = [PickledCall(what, (arguments, names))]

    def build(self) -> None:
        state = self.stack.pop()
        if not isinstance(self.stack[-1], PickledCall):
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
    """What `raw` describes: plain values, and `PickledCall` for every object. Raises `PickledError`."""
    reader = _Reader()
    try:
        for at, (code, argument, _) in enumerate(pickletools.genops(raw)):
            if at >= _MOST_CODES:
                raise PickledError("it asks for far more than plain statistics do")
            reader.read(code.name, argument)
        return reader.stack[-1]
    except (ValueError, IndexError, KeyError, TypeError, UnicodeError, OverflowError, AttributeError) as error:
        raise PickledError(f"it is damaged: {type(error).__name__}") from None


class Array(Struct, frozen=True):
    """Numbers of numpy's `dtype` in row order; `shape` () is a single one."""

    dtype: str
    shape: tuple[int, ...]
    raw: bytes


class Moments(Struct, frozen=True):
    """Running mean and variance over `count` samples."""

    mean: Array
    var: Array
    count: float


class Statistics(Struct, frozen=True):
    """Moments of returns, and of observations by key ("array" where they are no dictionary), and `env.normalize`."""

    obs: Mapping[str, Moments]
    ret: Moments
    normalize: Mapping[str, Any]


def read_statistics(path: Path) -> Statistics:
    """What `path` holds. Raises `CheckpointError` naming it, and how it can be converted."""
    try:
        state = _state(read_pickled(_bytes(path)), _VEC_NORMALIZE)
        kept = state.get("obs_rms")
        observations = kept if isinstance(kept, Mapping) else {} if kept is None else {"array": kept}
        return Statistics(
            obs={str(key): _moments(it) for key, it in observations.items()},
            ret=_moments(state.get("ret_rms")),
            normalize={ours: it for name, ours in NORMALIZE.items() if (it := _plain(state.get(name))) is not None},
        )
    except PickledError as error:
        raise CheckpointError(
            f"{path}: its statistics cannot be read without unpickling, which is never done: {error}; {_CONVERT}"
        ) from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}") from None


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise PickledError(f"it is larger than {MOST_BYTES >> 20} MiB")
    return read_given(path, MOST_BYTES)


def normalize_of(path: Path) -> dict[str, Any]:
    """`env.normalize` as the statistics in `path` were made. Raises `CheckpointError`."""
    return dict(read_statistics(path).normalize)


def _state(value: object, cls: PickledName) -> Mapping[Any, Any]:
    if not isinstance(value, PickledCall) or value.what != cls or not isinstance(value.state, Mapping):
        what = value.what if isinstance(value, PickledCall) else type(value).__name__
        raise PickledError(f"it holds {_said(what)} where a {cls.name} belongs")
    return value.state


def _moments(value: object) -> Moments:
    state = _state(value, _MOMENTS)
    mean, var, count = (_array(state.get(name)) for name in ("mean", "var", "count"))
    if mean.shape != var.shape or count.shape:
        raise PickledError("its means and variances differ in shape")
    number = state.get("count")
    return Moments(mean, var, _real(number) if isinstance(number, int | float) else _single(count))


def _array(value: object) -> Array:
    """An array, or a single number, in each of the ways numpy describes them in a pickle."""
    if isinstance(value, int | float):
        return Array("<f8", (), struct.pack("<d", _real(value)))
    if (
        not isinstance(value, PickledCall)
        or not isinstance(value.what, PickledName)
        or not isinstance(value.arguments, tuple)
    ):
        raise PickledError(f"it holds {_said(value)} where numbers belong")
    name, given = value.what.name, value.arguments
    if value.what.module not in _MODULES:
        raise PickledError(f"it holds {_said(value.what)} where numbers belong")
    match name, given, value.state:
        case "_reconstruct", _, (_, tuple() as shape, PickledCall() as dtype, bool() as by_column, bytes() as raw):
            return _checked(dtype, shape, raw, by_column=by_column)
        case "scalar", (PickledCall() as dtype, bytes() as raw), None:
            return _checked(dtype, (), raw, by_column=False)
        case "_frombuffer", (
            bytes() | bytearray() as raw,
            PickledCall() as dtype,
            tuple() as shape,
            str() as order,
        ), None:
            return _checked(dtype, shape, bytes(raw), by_column=order == "F")
        case _:
            raise PickledError(f"it holds {_said(value.what)} where numbers belong")


def _checked(dtype: PickledCall, shape: tuple[Any, ...], raw: bytes, *, by_column: bool) -> Array:
    kind = dtype.arguments[0] if isinstance(dtype.arguments, tuple) and dtype.arguments else None
    byte_order = dtype.state[1] if isinstance(dtype.state, tuple) and len(dtype.state) > 1 else "<"
    size = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise PickledError("an array of it has no shape")
        size *= length
    if (
        not isinstance(kind, str)
        or kind not in _DTYPES
        or byte_order not in ("<", "=", "|")
        or (by_column and len(shape) > 1)
    ):
        raise PickledError("an array of it is not of plain floating-point numbers")
    if len(raw) != size * int(kind[1]):
        raise PickledError("an array of it has another length than its shape says")
    return Array(f"<{kind}", shape, raw)


def _plain(value: object) -> float | None:
    """A truth or a number; None for anything else."""
    return value if isinstance(value, bool) else _real(value) if isinstance(value, int | float) else None


def _real(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise PickledError("a number of it is beyond all floating-point ones") from None


def _single(array: Array) -> float:
    number: float = struct.unpack("<d" if array.dtype == "<f8" else "<f", array.raw)[0]
    return number


def _said(value: object) -> str:
    return f"{value.module}.{value.name}"[:80] if isinstance(value, PickledName) else f"a {type(value).__name__}"
