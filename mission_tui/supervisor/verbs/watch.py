"""Watch: a policy plays in a process of its own, a frame for each time that a screen asks for one.

Every connection has at most one player, and no player outlives its connection. The screen says which checkpoint it
shows, so a newer one changes nothing until it is asked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakSet

import msgspec
from msgspec import structs

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.text import clean
from mission_tui.fleet.views.episode_picture import picture
from mission_tui.fleet.views.played_frame import PlayedFrame
from mission_tui.ipc.replies import Accepted, Played
from mission_tui.ipc.requests import Play, StopPlay
from mission_tui.ipc.server import Session
from mission_tui.supervisor.host.asked_process import AskedProcess
from mission_tui.supervisor.runs.catalog import resolve_run
from mission_tui.supervisor.runs.core import Core
from mission_tui.supervisor.runs.targets import changed_source, named_checkpoint, subject_of

MOST_PLAYERS = 4
START_S, STEP_S = 120.0, 30.0
"""How long the first frame may take, with torch to be loaded and an environment to be made, and each further one."""
_NOTE_CHARACTERS = 500
_NOBODY = "nobody watches any more"
_CPU_ONLY = {"CUDA_VISIBLE_DEVICES": ""}


@dataclass(eq=False)
class _Seat:
    """What one connection watches. `left`: nobody does any more, and what is being started for it must end."""

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


@dataclass
class Players:
    """The players of all connections."""

    core: Core
    _seats: dict[Session, _Seat] = field(default_factory=dict)
    _gone: WeakSet[Session] = field(default_factory=WeakSet)
    """Connections that ended; what they asked for last may come only now."""

    async def play(self, request: Play, session: Session) -> Played:
        """The next frame. Raises `UsageError` for what cannot be played, `MissionError` with what a player said that
        failed; the next request then starts another one.
        """
        seat = self._seat(request, session)
        seat.busy = True
        try:
            limit_s = STEP_S
            if seat.process is None:
                limit_s = START_S
                await self._start(seat, request)
            else:
                await seat.process.check()
            if request.checkpoint not in (None, seat.checkpoint):
                run = self.core.run_dir(resolve_run(self.core, request.run))
                seat.checkpoint = named_checkpoint(run, request.checkpoint)
            assert seat.process is not None
            order = structs.replace(request.order, checkpoint=seat.checkpoint)
            answer = await seat.process.ask(msgspec.json.encode(order), limit_s)
            return Played(re=request.id, frame=_frame(answer, request, seat))
        except MissionError:
            self._leave(session, seat)
            raise
        finally:
            seat.busy = False

    def stop(self, request: StopPlay, session: Session) -> Accepted:
        """End the player of this connection."""
        self._end(session)
        return Accepted(re=request.id, runs=())

    def client_left(self, session: Session) -> None:
        """Nobody is there to watch any more."""
        self._gone.add(session)
        self._end(session)

    def _end(self, session: Session) -> None:
        if (seat := self._seats.get(session)) is not None:
            self._leave(session, seat)

    def _seat(self, request: Play, session: Session) -> _Seat:
        """The seat of the connection, a new one for another run or after a player that has ended."""
        if session in self._gone:
            raise MissionError(_NOBODY)
        seat = self._seats.get(session)
        if seat is not None and seat.busy:
            raise UsageError("the frame before has not come yet: ask for one at a time")
        if seat is not None and (seat.run != request.run or seat.process is None or seat.process.ended):
            self._leave(session, seat)
            seat = None
        if seat is None:
            if len(self._seats) >= MOST_PLAYERS:
                raise UsageError(
                    f"{MOST_PLAYERS} policies are being watched from other screens, which is all that this machine "
                    "should have at once; close one of them"
                )
            seat = self._seats[session] = _Seat(request.run)
        return seat

    def _leave(self, session: Session, seat: _Seat) -> None:
        seat.leave()
        if self._seats.get(session) is seat:
            del self._seats[session]

    async def _start(self, seat: _Seat, request: Play) -> None:
        """Raises `MissionError` when nobody watches any more by the time it could begin."""
        subject = await subject_of(self.core, request.run, request.checkpoint, "evaluate", request.environ)
        seat.note = await changed_source(self.core, subject)
        task = subject.task(
            "mission_tui.trainer.playing.watch",
            *(str(subject.run.path), "--checkpoint", subject.checkpoint, "--parent", str(os.getpid())),
            attended=True,
        )
        if seat.left:
            raise MissionError(_NOBODY)
        seat.checkpoint = subject.checkpoint
        seat.process = AskedProcess(replace(task, environ={**task.environ, **_CPU_ONLY}))


def _frame(answer: dict[str, Any], request: Play, seat: _Seat) -> PlayedFrame:
    """What the player answered, with foreign text made harmless. Raises `MissionError` for anything else."""
    try:
        frame = msgspec.convert(answer.get("frame"), PlayedFrame)
    except msgspec.ValidationError as error:
        raise MissionError(f"the player answered something else than a frame: {error}") from error
    note = "; ".join(part for part in (frame.note, seat.note) if part)
    return structs.replace(
        frame,
        picture=picture(frame.picture, request.order.canvas),
        outcome=None if frame.outcome is None else clean(frame.outcome, 40),
        note=clean(note, _NOTE_CHARACTERS),
    )
