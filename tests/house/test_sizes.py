"""The shape of the source: small modules, small functions, a sentence at the top of each module."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "mission_tui").rglob("*.py"))
LINES_OF_A_MODULE = 400
LINES_OF_A_FUNCTION = 60
METHODS_OF_A_CLASS = 20
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Every module of the package, parsed."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES}


def test_there_is_source_to_look_at() -> None:
    """The tests below would pass on nothing; the package is not nothing."""
    assert len(SOURCES) > 50


def test_no_module_is_longer_than_a_reader_can_hold() -> None:
    """A module has at most 400 lines."""
    long = {name_of(path): n for path in SOURCES if (n := len(path.read_text().splitlines())) > LINES_OF_A_MODULE}
    assert long == {}


def test_no_function_is_longer_than_a_screen(trees: dict[Path, ast.Module]) -> None:
    """A function has at most 60 lines."""
    long = {
        f"{name_of(path)}:{node.name}": span
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (span := (node.end_lineno or 0) - node.lineno + 1) > LINES_OF_A_FUNCTION
    }
    assert long == {}


def test_no_class_swallows_everything(trees: dict[Path, ast.Module]) -> None:
    """A class has at most 20 methods, properties included."""
    large = {
        f"{name_of(path)}:{node.name}": methods
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and (methods := sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body))
        > METHODS_OF_A_CLASS
    }
    assert large == {}


def test_every_module_says_what_it_owns(trees: dict[Path, ast.Module]) -> None:
    """A module opens with a docstring."""
    silent = [name_of(path) for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    assert silent == []


def test_every_test_says_what_it_shows() -> None:
    """A test has a docstring that states the behaviour."""
    silent = [
        f"{name_of(path)}:{node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_modules_are_nouns_of_the_field() -> None:
    """No module is named for being left over."""
    assert [name_of(path) for path in SOURCES if path.stem in VAGUE_NAMES] == []
