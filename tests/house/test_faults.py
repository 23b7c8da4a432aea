"""`docs/faults.md` says of each fault what covers it, and that is so."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.faults.parts import ALL

ROOT = Path(__file__).parents[2]
ROWS = {"T": 10, "S": 14, "W": 16, "K": 18, "D": 11, "C": 9, "G": 9, "I": 9, "N": 8, "L": 3, "R": 4}
ROW_OF_A_TEST = re.compile(r"test_([a-z]\d+)_")
NAMED = re.compile(r"`(?:(?P<file>tests/[\w/]+\.py)::)?(?P<test>test_\w+)`")


def table() -> dict[str, str]:
    """What covers each row, by its number."""
    document = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").partition("## What it found")[0]
    return dict(re.findall(r"^\| ([A-Z]\d+) \|.*\| ([^|]+) \|$", document, re.MULTILINE))


def names_in(path: Path) -> set[str]:
    """The tests of one file."""
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def fault_tests() -> set[str]:
    """The tests of `tests/faults/`."""
    return {name for path in (ROOT / "tests" / "faults").glob("test_*.py") for name in names_in(path)}


def test_every_row_of_the_catalogue_is_there_once() -> None:
    """100 rows, each covered by something or with the reason why not."""
    document = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").partition("## What it found")[0]
    rows = re.findall(r"^\| ([A-Z]\d+) \|", document, re.MULTILINE)
    assert rows == [f"{letter}{number}" for letter, count in ROWS.items() for number in range(1, count + 1)]
    assert table().keys() == set(rows)
    assert [row for row, covered in table().items() if not re.match(r"(part )?`|not yet: \S", covered)] == []


def test_a_fault_test_stands_in_the_row_it_is_named_after() -> None:
    """Each test of tests/faults/ begins with its row's number and is named in that row, and in no other."""
    written = fault_tests()
    assert [name for name in written if not ROW_OF_A_TEST.match(name)] == []
    cited = {
        (found["test"], row)
        for row, covered in table().items()
        for found in NAMED.finditer(covered)
        if not found["file"]
    }
    assert cited == {(name, name.split("_")[1].upper()) for name in written}


@pytest.mark.slow
def test_tests_of_other_rooms_that_a_row_names_exist() -> None:
    """`tests/room/test_x.py::test_y` in both tables and SECURITY.md, is a test of that file, a bare name of here."""
    security = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    found_by_it = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8").partition("## What it found")[2]
    absent = [
        found[0]
        for text in (*table().values(), security, found_by_it)
        for found in NAMED.finditer(text)
        if found["file"] and not ((ROOT / found["file"]).is_file() and found["test"] in names_in(ROOT / found["file"]))
    ]
    assert absent == []
    bare = {found["test"] for found in NAMED.finditer(found_by_it) if not found["file"]}
    assert bare <= fault_tests()
    assert len(NAMED.findall(security)) > 15


def test_parts_of_the_campaign_stand_in_the_rows_they_cover() -> None:
    """A part's own list of rows and the table say the same."""
    told = {(row, name) for row, covered in table().items() for name in re.findall(r"part `([\w-]+)`", covered)}
    assert told == {(row, part.name) for part in ALL for row in part.rows}
    assert len({part.name for part in ALL}) == len(ALL)
