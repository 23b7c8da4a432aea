"""Film: a short process plays the same episodes with several checkpoints and writes them side by side as one file."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

from mission_tui.errors import MissionError, NeedsAcceptError, UsageError
from mission_tui.fleet.views.episode_picture import FILM_SUFFIXES, MOST_FILMED
from mission_tui.ipc.replies import Filmed, Progress
from mission_tui.ipc.requests import Film
from mission_tui.records.runs.checkpoint import list_checkpoints
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.targets import Subject, changed_source, subject_of


async def film(core: Core, request: Film) -> AsyncGenerator[Progress | Filmed]:
    """Progress, then where the film is. It ends with whoever asked, and leaves no part of a file then.

    Raises `UsageError` and `CheckpointError` as `subject_of`, `MissionError` with what the process said.
    """
    path = Path(request.path)
    if not path.is_absolute() or path.suffix not in FILM_SUFFIXES:
        raise UsageError(f"a film is an absolute path that ends in {', '.join(FILM_SUFFIXES)}, not '{path}'")
    named = [await _subject(core, request, name) for name in request.checkpoints or (None,)]
    subject = named[-1]
    names = [it.checkpoint for it in named] if request.checkpoints else _spread(subject, request.spread)
    if len(names) > MOST_FILMED:
        raise UsageError(f"{len(names)} checkpoints do not fit into one film: name at most {MOST_FILMED}")
    if not request.accept and (changed := await changed_source(core, subject)):
        raise NeedsAcceptError(f"{changed}; --accept films all the same")
    view = core.store.view(subject.run.id)
    words = ["--checkpoints", ",".join(names), "--episodes", str(request.episodes), "--seed", str(request.seed)]
    words += [] if request.fps is None else ["--fps", str(request.fps)]
    words += ["--title", f"{view.name}   {subject.spec.env.id}", "--out", str(path)]
    words += ["--parent", str(os.getpid())]
    task = subject.task("mission_tui.trainer.playing.film", str(subject.run.path), *words, attended=True)
    result = None
    async with aclosing(subject.hear(task)) as hearing:
        async for said in hearing:
            if isinstance(said.get("result"), dict):
                result = said["result"]
            elif isinstance(done := said.get("done"), int) and isinstance(total := said.get("total"), int):
                yield Progress(re=request.id, done=done, total=total, note=str(said.get("doing", "")))
    if result is None:
        raise MissionError(f"the film of {subject.run.id} gave no result")
    yield Filmed(re=request.id, result=result)


async def _subject(core: Core, request: Film, name: str | None) -> Subject:
    return await subject_of(core, request.run, name, "evaluate", request.environ)


def _spread(subject: Subject, many: int) -> list[str]:
    """So many of the checkpoints that are kept, evenly from the first to the newest; 0: all that fit one film."""
    if many == 1:
        return [subject.checkpoint]
    names = [manifest.name for manifest in list_checkpoints(subject.run.checkpoints)]
    most = min(len(names), many or MOST_FILMED)
    return [names[round(at * (len(names) - 1) / max(1, most - 1))] for at in range(most)]
