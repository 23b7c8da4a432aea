"""A comparison as files that can be sent on: Markdown for people, CSV and JSON for programs, SVG for the curves.

They appear together, each whole, and replace those that were there.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mission_tui.cli.comparison.facts import comparison_facts
from mission_tui.cli.comparison.svg import curves_svg
from mission_tui.cli.comparison.tables import comparison_tables
from mission_tui.cli.tables.documents import SCHEMA
from mission_tui.cli.tables.numbers import inert
from mission_tui.errors import UsageError
from mission_tui.fleet.text import clean
from mission_tui.records.files.atomic import write_atomic_group
from mission_tui.records.files.storage import StorageError

if TYPE_CHECKING:
    from mission_tui.cli.tables.table import Table
    from mission_tui.fleet.compare import Comparison

__all__ = ["write_report"]


def write_report(folder: Path, found: Comparison) -> None:
    """`comparison.md`, `.csv`, `.json`, `.svg` and `curves.csv` in `folder`, made if need be.

    Raises `UsageError` when there can be no such folder, `StorageError` when it cannot be written.
    """
    document = msgspec.json.encode({"schema": SCHEMA, **comparison_facts(found, curves=True)})
    contents = {
        "comparison.json": msgspec.json.format(document, indent=1),
        "comparison.csv": _csv(_result_rows(found)),
        "curves.csv": _csv(_curve_rows(found)),
        "comparison.svg": curves_svg(found).encode(),
        "comparison.md": _markdown(found).encode(),
    }
    try:
        write_atomic_group(folder, contents)
    except StorageError as error:
        if folder.is_dir():
            raise
        raise UsageError(f"--report {folder}: cannot be made a folder: {os.strerror(error.errno or 0)}") from None


def _markdown(found: Comparison) -> str:
    parts = ["# " + " | ".join(_escaped(run.name) for run in found.runs), "![curves](comparison.svg)"]
    for title, table in comparison_tables(found):
        parts += [f"## {_escaped(title)}", _markdown_table(table)]
    if found.notes:
        parts += ["## To mind", "\n".join(f"- {_escaped(note)}" for note in found.notes)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    rule = ["--:" if column in table.numbers else "---" for column in table.columns]
    rows = [[_escaped(cell) for cell in row] for row in (table.columns, *table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))


def _escaped(text: str) -> str:
    """Names and values are anybody's: none of them is markup."""
    return "".join(f"\\{character}" if character in "\\`*_[]<>|#!" else character for character in text)


def _result_rows(found: Comparison) -> Iterator[Sequence[object]]:
    names = [name for name in found.runs[0].result.__struct_fields__ if name != "findings"]
    yield ["run", "name", "preset", "seed", "group", "state", "outcome", *names, "warnings", "criticals"]
    for run in found.runs:
        own = (run.id, run.name, run.preset, run.seed, found.cohorts[run.cohort].name, run.state, run.outcome)
        counts = (run.result.findings.get("warning", 0), run.result.findings.get("critical", 0))
        yield [*own, *(getattr(run.result, name) for name in names), *counts]


def _curve_rows(found: Comparison) -> Iterator[Sequence[object]]:
    yield ["curve", "timesteps" if found.by == "step" else "seconds", found.metric, "least", "greatest"]
    for curve in (*found.curves, *found.bands):
        blank = [""] * len(curve.x)
        for row in zip(curve.x, curve.y, curve.low or blank, curve.high or blank, strict=True):
            yield [curve.name, *row]


def _csv(rows: Iterator[Sequence[object]]) -> bytes:
    """Words are anybody's, also those of a run directory that somebody sent: none of them is a formula."""
    text = io.StringIO()
    said = ([inert(clean(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(said)
    return text.getvalue().encode()
