"""Label: short words on a run, to find it and its like by."""

from __future__ import annotations

from mission_tui.errors import UsageError, nearest
from mission_tui.fleet.events.journal import RunLabelled
from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Label
from mission_tui.records.runs.layout import NAME
from mission_tui.supervisor.catalog import resolve_run
from mission_tui.supervisor.core import Core

__all__ = ["label"]

MOST = 16
LONGEST = 24


async def label(core: Core, request: Label) -> Accepted:
    """Journal what changes. Raises `UsageError` for a word that can be no label, or is none of the run's."""
    run_id = resolve_run(core, request.run)
    has = core.store.run(run_id).journal.labels
    _check(core.store.view(run_id).name, has, request)
    added = tuple(dict.fromkeys(word for word in request.add if word not in has))
    removed = tuple(dict.fromkeys(request.remove))
    if not added and not removed:
        return Accepted(re=request.id, runs=(run_id,), notes=("it has these labels already",))
    core.record_request_of(run_id, lambda seq, t: RunLabelled(seq, t, added, removed))
    return Accepted(re=request.id, runs=(run_id,))


def _check(name: str, has: set[str], request: Label) -> None:
    if not request.add and not request.remove:
        raise UsageError("give at least one +LABEL to put on or -LABEL to take off")
    for word in request.add:
        if not NAME.fullmatch(word) or len(word) > LONGEST:
            raise UsageError(
                f"label {word[:40]!r} cannot be used: give 1 to {LONGEST} letters, digits, '.', '_' or '-', first a "
                "letter or digit"
            )
        if word in request.remove:
            raise UsageError(f"label '{word}' is both put on and taken off; name it once")
    for word in request.remove:
        if word not in has:
            raise UsageError(
                f"{name} has no label '{word[:40]}'{nearest(word, has)}; it has {', '.join(sorted(has)) or 'none'}"
            )
    if len((has | set(request.add)) - set(request.remove)) > MOST:
        raise UsageError(f"{name} would have more than {MOST} labels; take some off")
