"""Reads the presets beside the screen, when it begins and when it is asked to."""

from __future__ import annotations

import asyncio

from mission_tui.tui.state.app_context import AppContext

__all__ = ["read_presets"]


async def read_presets(app_context: AppContext) -> None:
    """Load the presets in a thread, because a folder on a network disk may take its time."""
    app_context.presets = await asyncio.to_thread(app_context.load_presets)
    app_context.redraw()
