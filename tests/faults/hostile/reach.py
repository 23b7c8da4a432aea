"""Which parts of the screen were drawn, and which of them with foreign text in them.

The parts are found by walking the packages, so a new widget, screen or section counts without being named here.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from types import FunctionType, ModuleType
from typing import Any
from unittest import mock

from rich.cells import cell_len
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from mission_tui import tui
from mission_tui.tui import screens, sections, widgets
from tests.faults.hostile.texts import MARK

__all__ = ["Reach", "called", "drawing_functions", "parts", "screens_of_the_program"]

_BASES = frozenset({"Lines", "PlainChart", "Sheet", "SnapshotScreen"})
"""Nothing of these alone is ever on a screen."""
_THEIRS = frozenset({"Input", "TextArea", "Toast"})
"""Textual's own, which are shown as they come."""


def parts() -> frozenset[str]:
    """Every widget and screen that the program can show, by the name of its class."""
    ours = frozenset(name for package in (widgets, screens) for name in _classes(package, Widget)) - _BASES
    return ours | _THEIRS


def screens_of_the_program() -> frozenset[str]:
    """Every screen and sheet."""
    return frozenset(_classes(screens, Screen)) - _BASES


def drawing_functions() -> frozenset[str]:
    """Every function that sections and widgets offer to others, as `module.function`."""
    return frozenset(name for name, _ in _functions())


class Reach:
    """`drawn` are the classes that were seen, `foreign` those in whose cells foreign text was seen."""

    def __init__(self) -> None:
        self.drawn: set[str] = set()
        self.foreign: set[str] = set()
        self._before: frozenset[str] = frozenset()

    def look(self, screen: Screen[Any], strips: Sequence[Strip]) -> int:
        """Take in one picture of `screen`, which is painted as `strips`; how many of its lines show foreign text that
        was not there before.
        """
        marks = list(_marks(strips))
        shown = frozenset(strips[y].text for _, y in marks)
        more, self._before = len(shown - self._before), shown
        seen = [(screen, screen.region), *((it, a.intersection(b)) for it, (a, b) in _visible(screen).items())]
        for widget, region in seen:
            names = {kind.__name__ for kind in type(widget).__mro__} - _BASES
            self.drawn |= names
            if any(region.contains(x, y) for x, y in marks):
                self.foreign |= names
        return more


@contextmanager
def called() -> Iterator[set[str]]:
    """Collects the functions of sections and widgets that are called in the block, as `module.function`."""
    found: set[str] = set()
    users = [importlib.import_module(it.name) for it in pkgutil.walk_packages(tui.__path__, f"{tui.__name__}.")]
    with ExitStack() as patches:
        for name, function in _functions():
            for module in users:
                for known in [known for known, value in vars(module).items() if value is function]:
                    patches.enter_context(mock.patch.object(module, known, _noted(name, function, found)))
        yield found


def _noted(name: str, function: Callable[..., Any], found: set[str]) -> Callable[..., Any]:
    @wraps(function)
    def noted(*given: Any, **named: Any) -> Any:
        found.add(name)
        return function(*given, **named)

    return noted


def _functions() -> Iterator[tuple[str, FunctionType]]:
    for package in (sections, widgets):
        for module in _modules(package):
            for name, function in vars(module).items():
                if isinstance(function, FunctionType) and function.__module__ == module.__name__ and name[0] != "_":
                    yield f"{module.__name__.rpartition('.')[2]}.{name}", function


def _visible(screen: Screen[Any]) -> Any:
    return screen._compositor.visible_widgets


def _marks(strips: Iterable[Strip]) -> Iterator[tuple[int, int]]:
    for y, strip in enumerate(strips):
        text, at = strip.text, strip.text.find(MARK)
        while at >= 0:
            yield cell_len(text[:at]), y
            at = text.find(MARK, at + 1)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        yield importlib.import_module(found.name)


def _classes(package: ModuleType, base: type) -> Iterator[str]:
    for module in _modules(package):
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, base) and value.__module__ == module.__name__:
                yield name
