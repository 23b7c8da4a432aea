"""The journal of a tune: its first line says what is tuned and how, then a line for each probe as it comes.

It lies in `tuning/NAME/journal.jsonl` of the runs root. A torn last line costs that one probe.
"""

from __future__ import annotations

from pathlib import Path

from mission_tui.errors import DamagedError
from mission_tui.fleet.tuning.record import ProbeDone, TuneBegun, TuneRecord
from mission_tui.records.files.tail import read_all

__all__ = ["newest_tune", "read_tune", "tune_journal"]


def tune_journal(root: Path, name: str) -> Path:
    """Where the journal of the tune called `name` lies; nothing is created."""
    return root / "tuning" / name / "journal.jsonl"


def newest_tune(root: Path, preset: str) -> str | None:
    """The name of the tune of `preset` that was worked on last; None where there is none."""
    found: list[tuple[float, str]] = []
    for path in (root / "tuning").glob("tune-*/journal.jsonl"):
        try:
            begun, _ = read_tune(path)
        except (DamagedError, OSError):
            continue
        if begun.spec.preset == preset:
            found.append((path.lstat().st_mtime, path.parent.name))
    return max(found)[1] if found else None


def read_tune(path: Path) -> tuple[TuneBegun, tuple[ProbeDone, ...]]:
    """What the journal at `path` tells. Raises `DamagedError` where its first line is not whole."""
    records, _ = read_all(path, TuneRecord)
    if not records or not isinstance(records[0], TuneBegun):
        raise DamagedError(f"{path} does not begin as the journal of a tune")
    return records[0], tuple(each for each in records[1:] if isinstance(each, ProbeDone))
