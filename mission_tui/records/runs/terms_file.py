"""`attempts/N/terms.json`: on what terms the attempt goes on from its checkpoint; absent when all is as it was."""

from __future__ import annotations

from pathlib import Path

from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.records.files.atomic import read_json, write_json

__all__ = ["read_terms", "write_terms"]


def read_terms(path: Path) -> Terms:
    """The terms in `path`. Raises `DamagedError` for a file that holds something else."""
    return read_json(path, Terms) or AS_IT_WAS


def write_terms(path: Path, terms: Terms) -> None:
    """Write `terms` unless they change nothing. Raises `StorageError`."""
    if terms != AS_IT_WAS:
        write_json(path, terms)
