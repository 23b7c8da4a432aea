"""`b`: ring for new critical findings, or stay quiet until asked again; toasts come either way."""

from __future__ import annotations

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["bell"]


async def bell(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Turn the bell off or on, until it is turned again."""
    app_context.alarm.muted = not app_context.alarm.muted
    rings = "stays quiet; toasts still tell of critical findings" if app_context.alarm.muted else "rings again"
    app_context.toast(f"the terminal {rings}", seconds=3.0)
