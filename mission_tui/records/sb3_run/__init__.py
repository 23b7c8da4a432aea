"""A folder that a training with stock Stable-Baselines3, or with its zoo, left behind: what is in it, read as text."""

from __future__ import annotations

from mission_tui.records.sb3_run.folder import Sb3Folder, find_folder
from mission_tui.records.sb3_run.rows import rows_of, updates_in_table
from mission_tui.records.sb3_run.settings import Said, said_in

__all__ = ["Said", "Sb3Folder", "find_folder", "rows_of", "said_in", "updates_in_table"]
