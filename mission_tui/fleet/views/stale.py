"""What processes of dead runs are called, on one line: for the screen, the command line and the journal alike."""

from __future__ import annotations

from collections.abc import Sequence

from mission_tui.fleet.views.snapshot import StaleRun

__all__ = ["stale_sentence"]


def stale_sentence(stale: Sequence[StaleRun]) -> str:
    """`3 stale processes of heavy-3f9a`; empty when there are none."""
    count = sum(run.processes for run in stale)
    if not count:
        return ""
    whose = stale[0].name if len(stale) == 1 else f"{len(stale)} dead runs"
    return f"{count} stale process{'es' if count > 1 else ''} of {whose}"
