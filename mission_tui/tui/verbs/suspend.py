"""Ctrl-Z: back to the shell that started the screen; `fg` returns."""

from __future__ import annotations

import os

from mission_tui.fleet.views.snapshot import RunView
from mission_tui.tui.app_context import AppContext

__all__ = ["suspend"]


async def suspend(app_context: AppContext, _runs: tuple[RunView, ...]) -> None:
    """Stop this process, if there is a shell with job control that can let it go on again."""
    parent = os.getppid()
    try:
        shell = os.getsid(parent) == os.getsid(0) and os.getpgid(parent) != os.getpgrp()
    except ProcessLookupError:
        shell = False
    if shell:
        app_context.suspend()
    else:
        app_context.toast("no shell started this screen that could bring it back: q leaves, and all runs go on")
