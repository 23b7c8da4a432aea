"""Training logs that anyone may have written, read into the records that the health rules judge."""

from __future__ import annotations

from mission_tui.records.logs.log import LogError, TableRow, TrainingLog, by_row, other_algorithm
from mission_tui.records.logs.read import KNOWN_FORMATS, log_of_rows, read_log

__all__ = [
    "KNOWN_FORMATS",
    "LogError",
    "TableRow",
    "TrainingLog",
    "by_row",
    "log_of_rows",
    "other_algorithm",
    "read_log",
]
