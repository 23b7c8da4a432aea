"""A policy at play, frame by frame: the screen asks for the next one when it has shown the last, so nothing queues.

What the terminal has not taken yet, and a line that carries no more, put off the next question and no key. The player
ends when `close` is called, and with the screen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from msgspec import Struct, structs

from mission_tui.errors import MissionError
from mission_tui.fleet.views.played_frame import Canvas, PlayedFrame, PlayOrder
from mission_tui.ipc.client_environment import Origin
from mission_tui.ipc.requests import AnsweredBy, Play, StopPlay

Answer = TypeVar("Answer")


class PlaySpeed(Struct, frozen=True):
    """`fps` frames a second with `steps` steps each, as it is written."""

    word: str
    fps: float
    steps: int


PACES = (
    PlaySpeed("1 step/s", 1.0, 1),
    PlaySpeed("3 steps/s", 3.0, 1),
    PlaySpeed("6 steps/s", 6.0, 1),
    PlaySpeed("12 steps/s", 12.0, 1),
    PlaySpeed("24 steps/s", 12.0, 2),
    PlaySpeed("60 steps/s", 12.0, 5),
    PlaySpeed("120 steps/s", 12.0, 10),
    PlaySpeed("600 steps/s", 12.0, 50),
)
USUAL_PACE = 3
LINE_BYTES_S = 60_000
"""What the screen may take of the terminal's line while it shows frames."""
_AIMED_BYTES_S = 0.9 * LINE_BYTES_S
"""What is aimed at: what a frame costs is known only after the next one was asked for."""
_FEWER_COLOURS_BYTES = LINE_BYTES_S / 4
"""Pictures in all colours that cost more than this would come less than four times a second: 256 are enough then."""
_DEAR_FRAMES = 3
_IDLE_SHARE = 8.0
"""A frame is not due before so many times what the screen has computed since the last: with what it does anyway, that
keeps it near a tenth of a core, and pictures of many colours come less often.
"""
_MOST_REST_S = 1.0
_LONGEST_S = 5.0
"""However much was written, a whole screen that was painted anew included, the next frame comes after so long."""
_SEEN_S = 1.0
"""So long one sees how an episode ended before the next begins."""
UNATTENDED_S = 1800.0
"""After so long without a key nobody looks any more."""


class FeedClient(Protocol):
    """What a feed needs of the context."""

    @property
    def origin(self) -> Origin: ...

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer: ...

    def start(self, work: Coroutine[Any, Any, None]) -> None: ...

    def line_load(self) -> tuple[int, float]:
        """Bytes written to the terminal so far, and seconds that pictures nobody asked for have to wait."""


class PlayerFeed:
    """Asks for frames of one run while it is `open`; `changed` is called for each, and for whatever else is new.

    `canvas` says how large pictures may be; None while there is no room at all. `checkpoint` is None until the first
    frame says which is the newest. After `trouble` nothing is asked until `again`.
    """

    def __init__(
        self, client: FeedClient, run: str, canvas: Callable[[], Canvas | None], changed: Callable[[], None]
    ) -> None:
        self._client, self._run, self._room, self._changed = client, run, canvas, changed
        self.frame: PlayedFrame | None = None
        self.trouble = ""
        self.held = False
        self.unattended = False
        self.checkpoint: str | None = None
        self.open = False
        self._pace = USUAL_PACE
        self._wish: PlayOrder | None = None
        self._wake = asyncio.Event()
        self._working = False
        self._due = self._touched = 0.0
        self._used_s, self._written = time.process_time(), client.line_load()[0]
        self._drawn_for: Canvas | None = None
        self._dear = self._dear_pixels = 0

    @property
    def pace(self) -> PlaySpeed:
        return PACES[self._pace]

    def start(self) -> None:
        """Begin to ask, or go on."""
        self.open = True
        self._touch()
        if not self._working and not self.trouble:
            self._working = True
            self._client.start(self._work())

    def close(self) -> None:
        """Ask no more; the player ends. What was seen stays until another one plays."""
        if not self.open:
            return
        self.open = False
        self._wake.set()
        self._client.start(self._stop())

    def again(self) -> None:
        """After trouble: start another player."""
        self.trouble, self.frame = "", None
        self.start()

    def hold(self) -> None:
        """Hold, or go on."""
        self.held = not self.held
        self._touch()

    def step(self) -> None:
        """Hold, and go one step further."""
        self.held = True
        self._ask_for(steps=1)

    def next_episode(self) -> None:
        """Begin the next episode."""
        self._ask_for(restart=True)

    def reset(self, seed: int) -> None:
        """Begin the episode of `seed`."""
        self._ask_for(seed=seed)

    def turn(self, by: int) -> PlaySpeed:
        """Faster or slower."""
        self._pace = max(0, min(self._pace + by, len(PACES) - 1))
        self._touch()
        return self.pace

    def begin_with(self, checkpoint: str, seed: int) -> None:
        """What plays first, once it is open."""
        self.checkpoint, self._wish = checkpoint, PlayOrder(canvas=Canvas(), steps=0, seed=seed)

    def take(self, checkpoint: str) -> None:
        """Play with another checkpoint from now on: the same episode, to see what is different."""
        if checkpoint == self.checkpoint and not self.trouble:
            return
        self.checkpoint = checkpoint
        self._ask_for(seed=None if self.frame is None else self.frame.seed)
        if self.trouble:
            self.again()

    def beside(self, names: Sequence[str], by: int) -> str | None:
        """The checkpoint so many places from this one among `names`, which are in order; None where there is none."""
        if not names:
            return None
        at = names.index(self.checkpoint) if self.checkpoint in names else len(names) - 1
        return names[max(0, min(at + by, len(names) - 1))]

    def wake(self) -> None:
        """The picture may be of another size now, or be seen again."""
        canvas = self.canvas()
        if self.open and canvas is not None and canvas != self._drawn_for:
            self._wake.set()

    def uncovered(self) -> None:
        """What lay over it is gone."""
        self._wake.set()

    def canvas(self) -> Canvas | None:
        """The room for a picture, in pixels, or in as many colours as the line carries."""
        room = self._room()
        if room is not None and room.cell is not None and self._dear_pixels >= _DEAR_FRAMES:
            room = structs.replace(room, cell=None)
        if room is None or room.colours != "full" or self._dear < _DEAR_FRAMES:
            return room
        return structs.replace(room, colours="256")

    def _ask_for(self, steps: int = 0, *, restart: bool = False, seed: int | None = None) -> None:
        self._wish = PlayOrder(canvas=Canvas(), steps=steps, restart=restart, seed=seed)
        self._touch()

    def _touch(self) -> None:
        self.unattended = False
        self._touched = asyncio.get_running_loop().time()
        self._wake.set()
        self._changed()

    async def _stop(self) -> None:
        with suppress(MissionError):  # it has ended then, with its supervisor
            await self._client.ask(lambda id_: StopPlay(id=id_))

    async def _work(self) -> None:
        try:
            while self.open:
                order = self._order()
                if order is None:
                    self._wake.clear()
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._wake.wait(), self._rest_s())
                else:
                    await self._show(order)
        except MissionError as error:
            if self.open:
                self.trouble = str(error)
                self._changed()
        finally:
            self._working = False

    def _order(self) -> PlayOrder | None:
        """What is to be asked for now; None while nothing is due."""
        canvas = self.canvas()
        if canvas is None:
            return None
        if (wish := self._wish) is not None:
            self._wish = None
            return PlayOrder(canvas=canvas, steps=wish.steps, restart=wish.restart, seed=wish.seed)
        if self.frame is None or canvas != self._drawn_for:
            return PlayOrder(canvas=canvas, steps=0)
        now = asyncio.get_running_loop().time()
        if not self.held and now - self._touched > UNATTENDED_S:
            self.held = self.unattended = True
            self._changed()
        if self.held or now < self._due:
            return None
        return PlayOrder(canvas=canvas, steps=self.pace.steps)

    def _rest_s(self) -> float | None:
        if self.held or self.canvas() is None:
            return None
        return max(0.001, self._due - asyncio.get_running_loop().time())

    async def _show(self, order: PlayOrder) -> None:
        loop = asyncio.get_running_loop()
        environ, checkpoint = self._client.origin["environ"], self.checkpoint
        used_s, began = time.process_time(), loop.time()
        reply = await self._client.ask(
            lambda id_: Play(id=id_, run=self._run, order=order, checkpoint=checkpoint, environ=environ)
        )
        if not self.open:
            return
        self.frame, self._drawn_for = reply.frame, order.canvas
        if self.checkpoint is None or self.checkpoint == checkpoint:
            self.checkpoint = reply.frame.checkpoint
        self._changed()
        await asyncio.sleep(0)
        # A frame is painted after this, so what the one before has cost is known now.
        written, rest_s = self._client.line_load()
        while rest_s > 0 and self.open:
            # The terminal is behind: what it has not been shown is not asked for either.
            await asyncio.sleep(rest_s)
            _, rest_s = self._client.line_load()
        busy_s = min(_MOST_REST_S, _IDLE_SHARE * (used_s - self._used_s))
        cost_bytes = max(0, written - self._written)
        if reply.frame.pixels is not None:
            self._dear_pixels = self._dear_pixels + 1 if cost_bytes > _FEWER_COLOURS_BYTES else 0
        elif order.canvas.colours == "full":
            self._dear = self._dear + 1 if cost_bytes > _FEWER_COLOURS_BYTES else 0
        self._used_s, self._written = used_s, written
        seen_s = _SEEN_S if reply.frame.over else 0.0
        self._due = began + max(1 / self.pace.fps, min(_LONGEST_S, cost_bytes / _AIMED_BYTES_S), busy_s, seen_s)
