"""`attempts/N/terms.json`: on what terms the attempt goes on from its checkpoint; absent when all is as it was."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mission_tui.errors import DamagedError
from mission_tui.fleet.terms import AS_IT_WAS, Terms
from mission_tui.records.atomic import write_json

__all__ = ["read_terms", "write_terms"]


def read_terms(path: Path) -> Terms:
    """The terms in `path`. Raises `DamagedError` for a file that holds something else."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return AS_IT_WAS
    try:
        return msgspec.json.decode(raw, type=Terms)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} does not hold what was written there: {error}") from error


def write_terms(path: Path, terms: Terms) -> None:
    """Write `terms` unless they change nothing. Raises `StorageError`."""
    if terms != AS_IT_WAS:
        write_json(path, terms)
