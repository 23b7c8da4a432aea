"""The supervisor as the screen uses it: a protocol, following it while the screen lives, and moving through a replay.

The screen never sees a socket: it iterates over snapshots until the link is lost, and asks; each call connects anew if
need be, so losing the supervisor is an exception to show and never a state to repair.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Generic, Literal, Protocol, TypeVar

from mission_tui.errors import MissionError, NoSupervisorError, ProtocolError, StoppedSupervisorError
from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc.replies import Progress
from mission_tui.ipc.requests import AnsweredBy, GoTo

Answer = TypeVar("Answer")
Question = TypeVar("Question")
Found = TypeVar("Found")
Loss = Literal["gone", "stopped", "refuses", "silent"]
Lost = Callable[[str, Loss], None]
_FIRST_WAIT_S = 0.25
_LONGEST_WAIT_S = 2.0
STEPS = (("1s", 1.0), ("10s", 10.0), ("1m", 60.0), ("10m", 600.0), ("1h", 3600.0), ("6h", 21600.0), ("1d", 86400.0))


class MachineClient(Protocol):
    """What is asked of one machine. Both raise `MissionError`s."""

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer: ...

    def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncIterator[Answer | Progress]: ...


class FleetClient(Protocol):
    """A supervisor as the screen uses it. All methods raise `MissionError`s: for refusals, and when nobody answers."""

    def watch(self) -> AsyncIterator[FleetSnapshot]:
        """Snapshots as they change, at most four a second, until the link is lost."""

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer:
        """The answer to the request that `make` builds from an id."""

    def stream(self, make: Callable[[int], AnsweredBy[Answer]]) -> AsyncIterator[Answer | Progress]:
        """Progress of a long request, and at the end its answer."""

    def at(self, machine: str) -> MachineClient:
        """The same, with what names no run asked of `machine`, on a screen of several."""

    def wake(self) -> None:
        """From now on a supervisor that was stopped on request is started again."""

    async def close(self) -> None:
        """Let go of the supervisor."""


async def follow(client: FleetClient, arrived: Callable[[FleetSnapshot], None], lost: Lost) -> None:
    """Follow until cancelled. `lost` gets the reason each time the link ends or cannot be made, and what that means:
    one that is there and takes no word from us is of another version.
    """
    wait_s = _FIRST_WAIT_S
    while True:
        why = "it ended"
        loss: Loss = "gone"
        try:
            async for snapshot in client.watch():
                wait_s = _FIRST_WAIT_S
                arrived(snapshot)
        except MissionError as error:
            why = str(error)
            if isinstance(error, StoppedSupervisorError):
                loss = "stopped"
            elif not isinstance(error, NoSupervisorError | ProtocolError):
                loss = "refuses"
        lost(why, loss)
        await asyncio.sleep(wait_s)
        wait_s = min(_LONGEST_WAIT_S, wait_s * 1.6)


class LatestQuery(Generic[Question, Found]):
    """One question at a time, and the newest wins.

    Of questions that come while an answer is awaited only the last is asked after it. `take` gets an answer, or why
    there is none, unless something newer was asked or it was dropped; with `takes_all` only if it was not dropped. A
    question is asked once nothing newer has come for `settle_s`.
    """

    def __init__(
        self,
        start: Callable[[Coroutine[Any, Any, None]], None],
        ask: Callable[[Question], Awaitable[Found]],
        take: Callable[[Question, Found | MissionError], None],
        *,
        settle_s: float = 0.0,
        takes_all: bool = False,
    ) -> None:
        self._start, self._ask, self._take = start, ask, take
        self._settle_s, self._takes_all = settle_s, takes_all
        self._next: tuple[Question, float] | None = None
        self._asked: tuple[Question, float] | None = None
        self.is_open = False

    def request(self, question: Question) -> None:
        """Ask, at once or after the answer that is awaited."""
        self._next = question, asyncio.get_running_loop().time()
        if not self.is_open:
            self.is_open = True
            self._start(self._work())

    def drop(self) -> None:
        """Ask nothing more; the answer that is awaited does not count."""
        self._next = self._asked = None

    async def _work(self) -> None:
        try:
            while (asked := self._next) is not None:
                wait_s = asked[1] + self._settle_s - asyncio.get_running_loop().time()
                if self._settle_s and wait_s > 0:
                    await asyncio.sleep(wait_s)
                    continue
                self._next, self._asked = None, asked
                await self._answer(asked)
        finally:
            self.is_open = False

    async def _answer(self, asked: tuple[Question, float]) -> None:
        try:
            found: Found | MissionError = await self._ask(asked[0])
        except MissionError as error:
            found = error
        if self._asked is asked and (self._takes_all or self._next is None):
            self._take(asked[0], found)


class ReplayClient(Protocol):
    """What scrubbing needs of the context."""

    snapshot: FleetSnapshot | None

    async def ask(self, make: Callable[[int], AnsweredBy[Answer]]) -> Answer: ...

    def start(self, work: Coroutine[Any, Any, None]) -> None: ...


class ReplaySeek:
    """One per screen session. Keys that come while a moment is being read add up, and only their sum is gone to."""

    def __init__(self, client: ReplayClient) -> None:
        self._client = client
        self._at = 2
        self._target: float | None = None
        self._query = LatestQuery(client.start, self._go_to, self._gone)

    @property
    def step(self) -> str:
        """How far a key goes, as it is written."""
        return STEPS[self._at][0]

    def turn(self, by: int) -> None:
        """Take the next smaller or larger step."""
        self._at = min(max(0, self._at + by), len(STEPS) - 1)

    def move(self, steps: int) -> None:
        """Go so many steps forward, from where the last key led."""
        snapshot = self._client.snapshot
        if snapshot is not None:
            self.seek((snapshot.t if self._target is None else self._target) + steps * STEPS[self._at][1])

    def seek(self, moment: float) -> None:
        """Go to unix time `moment`, or to the end that is nearer to it."""
        replay = self._client.snapshot.replay if self._client.snapshot else None
        if replay is None:
            return
        self._target = min(max(moment, replay.since), replay.until)
        self._query.request(self._target)

    async def _go_to(self, moment: float) -> None:
        await self._client.ask(lambda id_: GoTo(id=id_, t=moment))

    def _gone(self, _moment: float, error: MissionError | None) -> None:
        if error is not None:
            self._target = None
            raise error
