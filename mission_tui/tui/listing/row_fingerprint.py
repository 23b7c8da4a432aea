"""The parts of a run's view that the list shows: views with the same fingerprint draw the same row.

A live run's view is another one several times a second, mostly by a sign of life or a reading of its processes.
"""

from __future__ import annotations

from msgspec import structs

from mission_tui.fleet.views.snapshot import RunView

__all__ = ["row_fingerprint"]


def row_fingerprint(view: RunView) -> RunView:
    """`view` without what neither a pane nor a line of the list shows."""
    return structs.replace(view, connected=True, heartbeat_t=None, phase_t=None, size_bytes=None, usage=None)
