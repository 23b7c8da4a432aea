"""Note: what a person wants to be remembered of a run, in its journal; the newest is shown with the run."""

from __future__ import annotations

from mission_tui.errors import UsageError
from mission_tui.fleet.events.journal import RunNoted
from mission_tui.fleet.history.run import NOTE_CHARS
from mission_tui.fleet.text import clean
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Note
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core

__all__ = ["note"]


async def note(core: Core, request: Note) -> Accepted:
    """Journal the text as one line. Raises `UsageError` for one that says nothing or is too long."""
    run_id = resolve_run(core, request.run)
    text = clean(request.text, NOTE_CHARS + 1)
    if not text:
        raise UsageError("the note says nothing; write a few words in quotes")
    if len(text) > NOTE_CHARS:
        raise UsageError(f"a note is one line of at most {NOTE_CHARS} characters; this has {len(request.text):,}")
    core.record_request_of(run_id, lambda seq, t: RunNoted(seq, t, text))
    return Accepted(re=request.id, runs=(run_id,))
