"""Log: a stretch of an attempt's output, line by line made harmless."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from mission_tui.errors import UsageError
from mission_tui.fleet.text import clean_line
from mission_tui.ipc.replies import LogReply
from mission_tui.ipc.requests import GetLog
from mission_tui.plain_files import open_plain
from mission_tui.supervisor.runs.catalog import RunCatalog, resolve_run

MOST_BYTES = 1 << 18
LINE_CHARACTERS = 2000


async def log(core: RunCatalog, request: GetLog) -> LogReply:
    """Up to `limit` bytes from `offset`; the last ones without it, or when the file was cut and ends before it."""
    run_id = resolve_run(core, request.run)
    attempt = request.attempt if request.attempt is not None else core.store.run(run_id).journal.attempt
    folder = core.run_dir(run_id).attempt(attempt)
    if not folder.path.is_dir():
        view = core.store.view(run_id)
        raise UsageError(f"{view.name} has no attempt {attempt}; its newest is {view.attempt}")
    limit = max(0, min(request.limit, MOST_BYTES))
    raw, start, size = await asyncio.to_thread(_read, folder.output, request.offset, limit)
    return LogReply(
        re=request.id, run=run_id, attempt=attempt, text=_harmless(raw), start=start, end=start + len(raw), size=size
    )


def _read(path: Path, offset: int | None, limit: int) -> tuple[bytes, int, int]:
    try:
        with os.fdopen(open_plain(path)[0], "rb") as file:
            size = file.seek(0, os.SEEK_END)
            start = max(0, size - limit) if offset is None or offset > size or offset < 0 else offset
            file.seek(start)
            return _whole_characters(file.read(limit), start + limit < size), start, size
    except FileNotFoundError:
        return b"", 0, 0


def _whole_characters(raw: bytes, more_follows: bool) -> bytes:
    """`raw` without a UTF-8 character cut at its end: the next stretch begins with it."""
    for back in range(1, 4 if more_follows else 0):
        if len(raw) > back and raw[-back] >= 0xC0:
            length = 2 if raw[-back] < 0xE0 else 3 if raw[-back] < 0xF0 else 4
            return raw[:-back] if length > back else raw
    return raw


def _harmless(raw: bytes) -> str:
    """The text with its line breaks and its blanks; everything else that could move a cursor is taken out."""
    return "\n".join(_line(line) for line in raw.decode("utf-8", "replace").split("\n"))


def _line(line: str) -> str:
    return clean_line(line, LINE_CHARACTERS).rstrip()
