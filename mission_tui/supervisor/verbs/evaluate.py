"""Evaluate and export: a short process plays episodes with a checkpoint, or writes it as an ordinary SB3 zip.

The result of an evaluation is written beside the run.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import msgspec

from mission_tui.errors import MissionError, NeedsAcceptError, UsageError
from mission_tui.fleet.views.episode_picture import Canvas, picture
from mission_tui.ipc.replies import Evaluated, Exported, Progress
from mission_tui.ipc.requests import Evaluate, Export
from mission_tui.supervisor.host.tasks import run_task
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.targets import Subject, changed_source, subject_of


async def evaluate(core: Core, request: Evaluate) -> AsyncGenerator[Progress | Evaluated]:
    """Progress, then the result. A client that leaves does not end the evaluation: its file is written all the same.

    With `render` the progress is pictures, nothing is written, and it does end.
    """
    subject = await subject_of(core, request.run, request.checkpoint, "evaluate", request.environ)
    judged = not request.accept and request.policy == "trained"
    if judged and (changed := await changed_source(core, subject)):
        raise NeedsAcceptError(f"{changed}; --accept evaluates all the same")
    if request.render is not None:
        async with aclosing(_shown(request, subject, request.render)) as shown:
            async for reply in shown:
                yield reply
        return
    # Two that were asked for in the same second are two results.
    stamp = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    out = subject.run.evaluations / f"{subject.checkpoint}-{stamp}.json"
    words = ["--checkpoint", subject.checkpoint, "--episodes", str(request.episodes), "--seed", str(request.seed)]
    words += ["--seeds", str(request.seeds)]
    words += [*(() if request.deterministic else ("--stochastic",)), *(("--reel",) if request.reel else ())]
    words += ["--policy", request.policy, "--out", str(out)]
    task = subject.task("mission_tui.trainer.playing.evaluate", str(subject.run.path), *words)
    result = None
    async for said in subject.hear(task):
        if "result" in said:
            result = said["result"]
        elif isinstance(done := said.get("done"), int) and isinstance(total := said.get("total"), int):
            yield Progress(re=request.id, done=done, total=total, note="episodes")
    if not isinstance(result, dict):
        raise MissionError(f"the evaluation of {subject.run.id} gave no result; {out} may hold one")
    yield Evaluated(re=request.id, result=result)


async def _shown(request: Evaluate, subject: Subject, canvas: Canvas) -> AsyncGenerator[Progress | Evaluated]:
    """Pictures of one episode as they are drawn, and how it ended. The process ends with whoever looks."""
    words = ["--checkpoint", subject.checkpoint, "--seed", str(request.seed), "--policy", request.policy]
    words += ["--canvas", msgspec.json.encode(canvas).decode(), *(() if request.deterministic else ("--stochastic",))]
    task = subject.task("mission_tui.trainer.playing.show", str(subject.run.path), *words, attended=True)
    async with aclosing(subject.hear(task)) as hearing:
        async for said in hearing:
            if isinstance(frame := said.get("frame"), str) and isinstance(step := said.get("step"), int):
                yield Progress(re=request.id, done=step, total=0, note=picture(frame, canvas))
            elif isinstance(result := said.get("result"), dict):
                yield Evaluated(re=request.id, result=result)


async def export(core: Core, request: Export) -> Exported:
    """Write the zip at the absolute `path`. Raises `MissionError` with what the process said."""
    path = Path(request.path)
    if not path.is_absolute():
        raise UsageError(f"the export's path must be absolute, not '{path}'")
    subject = await subject_of(core, request.run, request.checkpoint, "export")
    words = ("--checkpoint", subject.checkpoint, str(path))
    task = subject.task("mission_tui.trainer.export", str(subject.run.path), *words)
    async for _ in run_task(task):
        pass
    return Exported(re=request.id, path=str(path), checkpoint=subject.checkpoint)
