"""The shape of the source: every module and test opens with a sentence, and folders are knotted no further."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "mission_tui").rglob("*.py"))
KNOTTED_TODAY = 0
"""Folders and modules that import each other in circles, at any level: the number may fall, and never rise."""
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


@pytest.mark.slow
def test_every_module_says_what_it_owns(trees: dict[Path, ast.Module]) -> None:
    """A module opens with a docstring."""
    silent = [name_of(path) for path, tree in trees.items() if tree.body and not ast.get_docstring(tree)]
    assert silent == []


@pytest.mark.slow
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


def test_folders_are_not_knotted_further(trees: dict[Path, ast.Module]) -> None:
    """No more children of a folder import each other in circles than did when this was first counted."""
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}
    uses = {
        name: {used for used in imported(trees[path]) if used in names and used != name} for name, path in names.items()
    }
    knotted = sum(len(knot) for folder in folders(names) for knot in knots(between_children(folder, uses)))
    assert knotted <= KNOTTED_TODAY


def imported(tree: ast.AST) -> Iterator[str]:
    """Dotted names that are imported when the module is loaded: not within functions, not for types alone."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
            case ast.If() if "TYPE_CHECKING" in ast.dump(node.test):
                for other in node.orelse:
                    yield from imported(other)
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
                yield from (f"{module}.{alias.name}" for alias in node.names)
            case _:
                yield from imported(node)


def folders(names: Iterable[str]) -> set[str]:
    """Every package that holds one of the modules `names`."""
    return {name.rsplit(".", 1)[0] for name in names if "." in name}


def between_children(folder: str, uses: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Which direct child of `folder` imports which other."""
    edges: dict[str, set[str]] = {}
    for name, used in uses.items():
        first = child_of(folder, name)
        if first is not None:
            others = {child for other in used if (child := child_of(folder, other)) is not None}
            edges.setdefault(first, set()).update(others - {first})
    return edges


def child_of(folder: str, name: str) -> str | None:
    """The part of dotted `name` right below `folder`; None where it lies elsewhere."""
    inside = name.removeprefix(f"{folder}.")
    return None if inside == name else inside.split(".")[0]


def knots(edges: Mapping[str, set[str]]) -> list[set[str]]:
    """Sets of two and more that all reach one another."""
    reach = {name: reachable(name, edges) for name in edges}
    circles = {frozenset(other for other in reach[name] if name in reach.get(other, ())) for name in edges}
    return [set(circle) for circle in circles if len(circle) > 1]


def reachable(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    """Everything that `name` leads to, itself only by a way around."""
    found: set[str] = set()
    waiting = list(edges.get(name, ()))
    while waiting:
        other = waiting.pop()
        if other not in found:
            found.add(other)
            waiting += edges.get(other, ())
    return found
