"""Whether a file can be written where a person wants it, asked before the minutes are spent that fill it."""

from __future__ import annotations

import os
from pathlib import Path

from mission_tui.errors import UsageError

__all__ = ["check_output"]


def check_output(option: str, path: Path) -> None:
    """Raise `UsageError` naming `option` where `path` is a folder, or lies where nothing can be written.

    Folders that are missing are left to be made with the file.
    """
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder; name a file in it, such as {path / 'out'}")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    if not there.is_dir():
        raise UsageError(f"{option} {path}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UsageError(f"{option} {path}: nothing can be written in {there}")
