"""News of processes that dead runs left behind: told when there are more of them than at the last look. Pure."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import FleetSnapshot, stale_sentence
from mission_tui.tui.drawing import numbers

__all__ = ["StaleNews"]


class StaleNews:
    """Remembers how many were told of."""

    def __init__(self) -> None:
        self._told = 0

    def update(self, snapshot: FleetSnapshot) -> str | None:
        """A sentence with the key that helps, when there is something new to say."""
        count, before = sum(run.processes for run in snapshot.stale), self._told
        self._told = count
        if count <= before:
            return None
        sizes = [
            f"{numbers.size(total)}{of}"
            for of, total in (
                ("", sum(run.memory_bytes or 0 for run in snapshot.stale)),
                (" of VRAM", sum(run.vram_bytes or 0 for run in snapshot.stale)),
            )
            if total
        ]
        holding = f", holding {' and '.join(sizes)}" if sizes else ""
        return f"{stale_sentence(snapshot.stale)}{holding}: X shows and removes them"
