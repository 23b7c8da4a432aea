"""The newest so many values of a series, in as little memory as they need.

A supervisor judges a thousand runs by some seventy windows each, of which most are short or empty. A deque takes 700
bytes before its first value, a window 80; a number in `Numbers` takes 8 bytes, and one in a list 32.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

T = TypeVar("T")

if TYPE_CHECKING:
    _Floats = array[float]
else:
    _Floats = array
_append = _Floats.append
_add: Any = list.append


class Window(list[T]):
    """The last `maxlen` items that were appended, oldest first; what else a list can do knows no limit."""

    __slots__ = ("maxlen",)

    def __init__(self, maxlen: int, items: Iterable[T] = ()) -> None:
        super().__init__()
        self.maxlen = maxlen
        self.extend(items)

    def append(self, item: T) -> None:
        """Add an item; of more than `maxlen` the oldest goes."""
        _add(self, item)
        if len(self) > self.maxlen:
            del self[0]

    def extend(self, items: Iterable[T]) -> None:
        """Add all of `items`; the last `maxlen` stay."""
        super().extend(items)
        del self[: -self.maxlen]


class Sorted(Window[float]):
    """The last `maxlen` numbers, with a sorted copy: for a median that is asked for in every update; no NaN."""

    __slots__ = ("_sorted",)

    def __init__(self, maxlen: int) -> None:
        super().__init__(maxlen)
        self._sorted: list[float] = []

    def append(self, item: float) -> None:
        """Add a number; of more than `maxlen` the oldest goes."""
        ordered = self._sorted
        if len(self) >= self.maxlen:
            del ordered[bisect_left(ordered, self[0])]
            del self[0]
        _add(self, item)
        insort(ordered, item)

    def clear(self) -> None:
        """Forget all of them."""
        super().clear()
        self._sorted.clear()

    def __deepcopy__(self, known: object) -> Self:
        """Another one; a list's own copy would add to a sorted copy that is whole already."""
        other = type(self)(self.maxlen)
        for item in self:
            other.append(item)
        return other

    @property
    def median(self) -> float:
        """As `statistics.median` has it; there is a number at least."""
        ordered, half = self._sorted, len(self) // 2
        return ordered[half] if len(self) % 2 else (ordered[half - 1] + ordered[half]) / 2


class Numbers(_Floats):
    """The last `maxlen` floats that were appended, oldest first."""

    __slots__ = ("maxlen",)
    maxlen: int

    def __new__(cls, maxlen: int) -> Self:
        """An empty one."""
        empty = cast(Self, super().__new__(cls, "d"))
        empty.maxlen = maxlen
        return empty

    def append(self, number: float) -> None:
        """Add a number; of more than `maxlen` the oldest goes."""
        _append(self, number)
        if len(self) > self.maxlen:
            del self[0]

    def clear(self) -> None:
        """Forget all of them."""
        del self[:]

    def __deepcopy__(self, known: object) -> Self:
        """Another one of the same limit; an array's own copy would be a bare array."""
        other = type(self)(self.maxlen)
        other.extend(self)
        return other
