"""One table of facts on a stream: drawn by Rich on a terminal, plain aligned columns elsewhere.

Rich is imported only for a terminal: a piped `status` must not pay for it. Cells are literal text, never markup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from mission_tui.cli.terminal_output import console_on, draw, write_lines
from mission_tui.fleet.text import clean_line

if TYPE_CHECKING:
    from rich.table import Table as RichTable


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(slots=True)
class Table:
    """Rows under `columns`; a column named in `numbers` is aligned to the right."""

    columns: Sequence[str]
    numbers: frozenset[str] = frozenset()
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """One more row, a cell per column: a line of printable characters each, whoever wrote them."""
        assert len(cells) == len(self.columns)
        self.rows.append(tuple(map(clean_line, cells)))

    def write(self, stream: TextIO) -> None:
        """Print the table; nothing at all when it has no rows."""
        if not self.rows:
            return
        if stream.isatty():
            draw(self.rich(), console_on(stream))
        else:
            write_lines(self.plain(), stream)

    def plain(self) -> str:
        """The table as lines of aligned text."""
        lines = [tuple(self.columns), *self.rows]
        widths = [max(len(line[place]) for line in lines) for place in range(len(self.columns))]
        return "\n".join("  ".join(self._cells(line, widths)).rstrip() for line in lines)

    def _cells(self, line: Sequence[str], widths: Sequence[int]) -> list[str]:
        return [
            cell.rjust(width) if column in self.numbers else cell.ljust(width)
            for column, cell, width in zip(self.columns, line, widths, strict=True)
        ]

    def rich(self) -> RichTable:
        """The same table for a Rich console."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in self.columns:
            table.add_column(column, justify="right" if column in self.numbers else "left")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in row))
        return table


def inert(text: str) -> str:
    """`text` for a cell of a CSV file: what a spreadsheet would take for a formula has an apostrophe before it."""
    return f"'{text}" if text.startswith(_FORMULA) else text
