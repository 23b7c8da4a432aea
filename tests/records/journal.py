"""A small journal for tests: real records, short enough to try every byte of it."""

from __future__ import annotations

from pathlib import Path

from mission_tui.fleet.events.journal import FleetEvent, RunPaused
from mission_tui.records.jsonl import AppendLog, read_all


def write_journal(path: Path, count: int) -> bytes:
    """Append `count` records to `path` and return the bytes of the file."""
    log = AppendLog(path, sync_every_s=3600.0)
    for _ in range(count):
        log.append(paused)
    log.close()
    return path.read_bytes()


def paused(seq: int) -> RunPaused:
    """The record number `seq` of every test journal."""
    return RunPaused(seq=seq, t=1000.0 + seq, attempt=1)


def seqs(path: Path) -> list[int]:
    """The numbers of the valid records in `path`."""
    return [record.seq for record in read_all(path, FleetEvent)[0]]
