"""How every campaign ends: its rows printed for a person and, where asked, written for the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.results import Row, Sheet, busy_elsewhere, write_sheet

__all__ = ["finish"]

WORDS = {True: "met", False: "MISSED", None: "no goal judged"}


def finish(title: str, command: str, rows: Sequence[Row], file: Path | None) -> None:
    """Print the rows, and write them as a sheet to `file`."""
    for row in rows:
        print(_line(row), flush=True)
    if file is not None:
        write_sheet(Sheet(title, command, tuple(rows), elsewhere=busy_elsewhere()), file)


def _line(row: Row) -> str:
    ours = f"{row.ours.median:,.4g} ({row.ours.low:,.4g} to {row.ours.high:,.4g}) {row.unit}" if row.ours else "-"
    peer = f", {row.against} {row.peer.median:,.4g} ({row.peer.low:,.4g} to {row.peer.high:,.4g})" if row.peer else ""
    ratio = f", {row.ratio.median:.3g} x ({row.ratio.low:.3g} to {row.ratio.high:.3g})" if row.ratio else ""
    return f"{row.what}: {ours}{peer}{ratio}; goal {row.goal}: {WORDS[row.met]}. {row.note}"
