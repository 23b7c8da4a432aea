"""`!`: a shell in the run's folder; leaving it comes back."""

from __future__ import annotations

import asyncio
import os
import subprocess

from mission_tui.errors import UsageError
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["shell"]


async def shell(app_context: AppContext, runs: tuple[RunView, ...]) -> None:
    """Lend the terminal to the person's shell. Raises `UsageError` where the folder is not on this machine."""
    folder = runs[0].run_dir
    if not await asyncio.to_thread(os.path.isdir, folder):
        raise UsageError(f"{folder} is not a folder of this machine")
    app_context.suspend(lambda: subprocess.run([os.environ.get("SHELL") or "/bin/sh"], cwd=folder, check=False))
