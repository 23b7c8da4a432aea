"""The list of runs and the chosen one in detail, one above the other or side by side."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.geometry import Region

from mission_tui.tui.preferences.shares import Split, split_of
from mission_tui.tui.screens.arrangement import DETAIL_LEAST, Arrangement
from mission_tui.tui.widgets.detail import Detail
from mission_tui.tui.widgets.run_table import RunTable
from mission_tui.tui.widgets.split_container import SplitContainer, give_columns

__all__ = ["ListAndDetail"]

_DETAIL_WIDTH, _LIST_WIDTH = 40, 50
"""Beside each other neither is narrower."""


class ListAndDetail(SplitContainer):
    """Its rows are those of the arrangement; how wide the two are beside each other it knows itself."""

    _room, _others = 0, 0
    _beside = False

    def compose(self) -> ComposeResult:
        """The list has what the detail leaves."""
        yield RunTable()
        yield Detail()

    def lay_out(self, shared: Arrangement, rows: int) -> None:
        """As `shared` has it of the `rows` of panes, list and detail."""
        self._room, self._others, self._beside = rows, shared.others, shared.beside
        self.set_class(shared.beside, "-beside")
        if (table := self.query_one(RunTable)).display != shared.listed:
            table.display = shared.listed
        whole = self.app.size.width
        detail = self.shares.cells("beside", whole, _DETAIL_WIDTH, _LIST_WIDTH) if shared.beside else None
        give_columns(table, None if detail is None else whole - detail)

    def split(self) -> Split | None:
        """Sideways where they stand so."""
        table, detail = self.query_one(RunTable), self.query_one(Detail)
        if not (table.display and detail.display):
            return None
        at = detail.region
        if self._beside:
            grip = Region(at.x - 1, at.y, 2, at.height)
            least, other = _DETAIL_WIDTH, _LIST_WIDTH
            return split_of("beside", at, grip, self.size.width, least=least, other_least=other, sideways=True)
        grip = Region(at.x, at.y, at.width, 1)
        return split_of("detail", at, grip, self._room, least=DETAIL_LEAST, other_least=self._others)
