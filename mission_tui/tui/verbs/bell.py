"""`b`: ring for new critical findings, or stay quiet until asked again; toasts come either way."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.desk import Desk

__all__ = ["bell"]


async def bell(desk: Desk, _runs: tuple[RunView, ...]) -> None:
    """Turn the bell off or on, until it is turned again."""
    desk.alarm.muted = not desk.alarm.muted
    rings = "stays quiet; toasts still tell of critical findings" if desk.alarm.muted else "rings again"
    desk.tell(f"the terminal {rings}", seconds=3.0)
