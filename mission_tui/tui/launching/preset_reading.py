"""Reads the presets beside the screen, when it begins and when it is asked to."""

from __future__ import annotations

import asyncio

from mission_tui.tui.desk import Desk

__all__ = ["read_presets"]


async def read_presets(desk: Desk) -> None:
    """Load the presets in a thread, because a folder on a network disk may take its time."""
    desk.presets = await asyncio.to_thread(desk.load_presets)
    desk.redraw()
