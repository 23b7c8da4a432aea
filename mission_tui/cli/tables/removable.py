"""What can be removed, or lies in the trash, as a table and as facts of a document."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from mission_tui.cli.tables.numbers import duration, size
from mission_tui.cli.tables.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mission_tui.ipc.replies import Removable

__all__ = ["removable_facts", "removable_table", "total_bytes"]


def total_bytes(items: Sequence[Removable]) -> int:
    """Bytes of all of them."""
    return sum(item.size_bytes for item in items)


def removable_facts(items: Sequence[Removable]) -> list[dict[str, Any]]:
    """Each with its run, checkpoint, bytes and since when it lies in the trash."""
    return [msgspec.to_builtins(item) for item in items]


def removable_table(items: Sequence[Removable], kept_s: float) -> Table:
    """A row each; what lies in the trash says for how long it can be taken back."""
    table = Table(("run", "name", "what", "bytes", "goes for good in"), numbers=frozenset({"bytes"}))
    for item in items:
        left = None if item.trashed_t is None else max(0.0, item.trashed_t + kept_s - time.time())
        what = "run" if item.checkpoint is None else f"checkpoint {item.checkpoint}"
        table.add(item.run, item.name, what, size(item.size_bytes), duration(left))
    return table
