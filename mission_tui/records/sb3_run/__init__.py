"""A folder that a training with stock Stable-Baselines3, or with its zoo, left behind: what is in it, read as text."""

from __future__ import annotations

from mission_tui.records.sb3_run.folder import (
    Sb3Folder,
    episodes_of,
    find_folder,
    rows_of,
    trained_to,
    updates_in_table,
)
from mission_tui.records.sb3_run.settings import FoundSettings, find_settings

__all__ = [
    "FoundSettings",
    "Sb3Folder",
    "episodes_of",
    "find_folder",
    "find_settings",
    "rows_of",
    "trained_to",
    "updates_in_table",
]
