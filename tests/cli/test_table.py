"""One table, two ways to print it."""

from __future__ import annotations

import io
import os
import pty

import pytest

from mission_tui.cli.terminal_output import Table, inert
from tests.drawn import drawn


def example() -> Table:
    table = Table(("run", "steps"), numbers=frozenset({"steps"}))
    table.add("heavy", "1,234")
    table.add("[bold]x[/]", "5")
    return table


def test_plain_tables_are_aligned_columns() -> None:
    """In a pipe, words start and numbers end in the same column, and no line ends in blanks."""
    stream = io.StringIO()
    example().write(stream)
    assert stream.getvalue() == "run         steps\nheavy       1,234\n[bold]x[/]      5\n"


def test_a_table_without_rows_prints_nothing() -> None:
    """No rows, no heading over nothing."""
    stream = io.StringIO()
    Table(("run",)).write(stream)
    assert stream.getvalue() == ""


def test_cells_are_literal_on_a_terminal_too() -> None:
    """On a terminal, text that looks like markup is shown as it is."""
    master, slave = pty.openpty()
    with os.fdopen(slave, "w") as stream:
        example().write(stream)
    shown = drawn(master)
    assert "[bold]x[/]" in shown
    assert "heavy" in shown


@pytest.mark.parametrize(
    ("text", "cell"),
    [("=1+1/x", "'=1+1/x"), ("@sum/x", "'@sum/x"), ("-1/x", "'-1/x"), ("train/approx_kl", "train/approx_kl"), ("", "")],
)
def test_a_cell_is_no_formula(text: str, cell: str) -> None:
    """A script's own metric may be called anything; a spreadsheet shows it and calculates nothing."""
    assert inert(text) == cell
