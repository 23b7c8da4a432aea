"""Health files on disk. One that is absent says nothing; one that is broken is an error, never passed over."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mission_tui.fleet.specs.health_file import HealthFile, read_health
from mission_tui.records.files.toml_file import read_toml

__all__ = ["load_health", "load_health_file"]


def load_health(paths: Sequence[Path]) -> tuple[HealthFile, ...]:
    """The health files among `paths` that exist, in their order. Raises `PresetError` naming file, key and remedy."""
    return tuple(load_health_file(path) for path in paths if path.is_symlink() or path.exists())


def load_health_file(path: Path) -> HealthFile:
    """The health file at `path`. Raises `PresetError`, also when there is none."""
    return read_health(read_toml(path), path)
