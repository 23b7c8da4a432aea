"""Watch, film, evaluate and export: short processes that play episodes with a run's checkpoints, or write one as a
file.

Evaluate plays episodes and says how well the policy does; the result is written beside the run. Export writes a
checkpoint as an ordinary SB3 zip. Film plays the same episodes with several checkpoints and writes them side by side as
one file.

Watch is a process of its own with a frame for each time that a screen asks for one. Every connection has at most one
player, and no player outlives its connection. The screen says which checkpoint it shows, so a newer one changes nothing
until it is asked for.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from weakref import WeakSet

import msgspec
from msgspec import Struct, field, structs
from msgspec.structs import replace

from mission_tui.errors import MissionError, NeedsAcceptError, UsageError
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.played_frame import FILM_SUFFIXES, MOST_FILMED, Canvas, PlayedFrame, is_sound, picture
from mission_tui.ipc.replies import Accepted, Evaluated, Exported, Filmed, Played, Progress
from mission_tui.ipc.requests import Evaluate, Export, Film, Play, StopPlay
from mission_tui.ipc.server import Session
from mission_tui.records.runs.checkpoint import list_checkpoints
from mission_tui.supervisor.host.children import AskedProcess, run_task
from mission_tui.supervisor.runs import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.targets import Subject, changed_source, named_checkpoint, subject_of

MOST_PLAYERS = 4
START_S, STEP_S = 120.0, 30.0
"""How long the first frame may take, with torch to be loaded and an environment to be made, and each further one."""
_NOTE_CHARACTERS = 500
_NOBODY = "nobody watches any more"
_CPU_ONLY = {"CUDA_VISIBLE_DEVICES": ""}


async def evaluate(core: Core, request: Evaluate) -> AsyncGenerator[Progress | Evaluated]:
    """Progress, then the result. A client that leaves does not end the evaluation: its file is written all the same.

    With `render` the progress is pictures, nothing is written, and it does end. Raises `NeedsAcceptError` where the
    source of the environment has changed, and `MissionError` where it cannot be played.
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
    core.evaluated.add(subject.run.id)
    yield Evaluated(re=request.id, result=result)


async def _shown(request: Evaluate, subject: Subject, canvas: Canvas) -> AsyncGenerator[Progress | Evaluated]:
    """Pictures of one episode as they are drawn, and how it ended. The process ends with its client."""
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


async def film(core: Core, request: Film) -> AsyncGenerator[Progress | Filmed]:
    """Progress, then where the film is. It ends with its client, and leaves no part of a file then.

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


class _PlayerConnection(Struct, eq=False):
    """What one connection watches. `left`: it is gone, and what is being started for it must end."""

    run: str
    process: AskedProcess | None = None
    checkpoint: str = ""
    note: str = ""
    busy: bool = False
    left: bool = False

    def leave(self) -> None:
        """End its player."""
        self.left = True
        if self.process is not None:
            self.process.end()


class Players(Struct):
    """The players of all connections."""

    core: Core
    _connections: dict[Session, _PlayerConnection] = field(default_factory=dict)
    _gone: WeakSet[Session] = field(default_factory=WeakSet)
    """Connections that ended; what they asked for last may come only now."""

    async def play(self, request: Play, session: Session) -> Played:
        """The next frame. Raises `UsageError` for what cannot be played, `MissionError` with what a player said that
        failed; the next request then starts another one.
        """
        connection = self._player_connection(request, session)
        connection.busy = True
        try:
            limit_s = STEP_S
            if connection.process is None:
                limit_s = START_S
                await self._start(connection, request)
            else:
                await connection.process.check()
            if request.checkpoint not in (None, connection.checkpoint):
                run = self.core.run_dir(resolve_run(self.core, request.run))
                connection.checkpoint = named_checkpoint(run, request.checkpoint)
            assert connection.process is not None
            order = structs.replace(request.order, checkpoint=connection.checkpoint)
            answer = await connection.process.ask(msgspec.json.encode(order), limit_s)
            return Played(re=request.id, frame=_frame(answer, request, connection))
        except MissionError:
            self._leave(session, connection)
            raise
        finally:
            connection.busy = False

    def stop(self, request: StopPlay, session: Session) -> Accepted:
        """End the player of this connection."""
        self._end(session)
        return Accepted(re=request.id, runs=())

    def client_left(self, session: Session) -> None:
        """The client hung up: end its player."""
        self._gone.add(session)
        self._end(session)

    def _end(self, session: Session) -> None:
        if (connection := self._connections.get(session)) is not None:
            self._leave(session, connection)

    def _player_connection(self, request: Play, session: Session) -> _PlayerConnection:
        """What the session watches, a new one for another run or after a player that has ended."""
        if session in self._gone:
            raise MissionError(_NOBODY)
        connection = self._connections.get(session)
        if connection is not None and connection.busy:
            raise UsageError("the frame before has not come yet: ask for one at a time")
        if connection is not None and (
            connection.run != request.run or connection.process is None or connection.process.ended
        ):
            self._leave(session, connection)
            connection = None
        if connection is None:
            if len(self._connections) >= MOST_PLAYERS:
                raise UsageError(
                    f"{MOST_PLAYERS} policies are being watched from other screens, which is all that this machine "
                    "should have at once; close one of them"
                )
            connection = self._connections[session] = _PlayerConnection(request.run)
        return connection

    def _leave(self, session: Session, connection: _PlayerConnection) -> None:
        connection.leave()
        if self._connections.get(session) is connection:
            del self._connections[session]

    async def _start(self, connection: _PlayerConnection, request: Play) -> None:
        """Raises `MissionError` when nobody watches any more by the time it could begin."""
        subject = await subject_of(self.core, request.run, request.checkpoint, "evaluate", request.environ)
        connection.note = await changed_source(self.core, subject)
        task = subject.task(
            "mission_tui.trainer.playing.watch",
            *(str(subject.run.path), "--checkpoint", subject.checkpoint, "--parent", str(os.getpid())),
            attended=True,
        )
        if connection.left:
            raise MissionError(_NOBODY)
        connection.checkpoint = subject.checkpoint
        connection.process = AskedProcess(replace(task, environ={**task.environ, **_CPU_ONLY}))


def _frame(answer: dict[str, Any], request: Play, connection: _PlayerConnection) -> PlayedFrame:
    """What the player answered, with foreign text made harmless. Raises `MissionError` for anything else."""
    try:
        frame = msgspec.convert(answer.get("frame"), PlayedFrame)
    except msgspec.ValidationError as error:
        raise MissionError(f"the player answered something else than a frame: {error}") from error
    note = "; ".join(part for part in (frame.note, connection.note) if part)
    taken = frame.pixels is not None and request.order.canvas.cell is not None and is_sound(frame.pixels)
    return structs.replace(
        frame,
        pixels=frame.pixels if taken else None,
        picture=picture(frame.picture, request.order.canvas),
        outcome=None if frame.outcome is None else clean(frame.outcome, 40),
        note=clean(note, _NOTE_CHARACTERS),
    )
