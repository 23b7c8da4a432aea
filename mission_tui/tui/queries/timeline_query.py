"""The strip as last answered, and the asking for it: how far back one looks, and how often that may have changed.

It is asked for no more often than a column of it takes, never twice at once, and only by who shows it.
"""

from __future__ import annotations

from collections.abc import Callable

from mission_tui.errors import MissionError
from mission_tui.fleet.strips.strip import Strip
from mission_tui.ipc.requests import GetStrip
from mission_tui.tui.queries.run_data import RunDataClient

__all__ = ["TimelineQuery", "Zoom"]

_REACHES = (
    (15.0, "15s"),
    (60.0, "1m"),
    (300.0, "5m"),
    (900.0, "15m"),
    (3600.0, "1h"),
    (21_600.0, "6h"),
    (86_400.0, "24h"),
)
_USUAL = 2
_CELLS_A_COLUMN = 4
"""A cell that lies in two columns shows its peak in both, so cells are asked for that are finer than columns."""
_MOST_CELLS = 1200
_LEAST_PACE_S, _MOST_PACE_S = 1.0, 30.0
"""A short stretch moves by several columns a second, and each time nearly every cell of it is sent to the terminal."""


class Zoom:
    """How far back the strip goes; one for all screens of a session. It begins at `seconds`, if it can go so far."""

    def __init__(self, seconds: float | None = None) -> None:
        reaches = [reach for reach, _ in _REACHES]
        self._at = reaches.index(seconds) if seconds in reaches else _USUAL

    @property
    def seconds(self) -> float:
        """The stretch that is shown."""
        return _REACHES[self._at][0]

    @property
    def word(self) -> str:
        """The stretch as people say it: `15s`, `24h`."""
        return _REACHES[self._at][1]

    def turn(self, by: int) -> None:
        """A longer stretch, or with -1 a shorter one; at its ends it stays."""
        self._at = max(0, min(self._at + by, len(_REACHES) - 1))


class TimelineQuery:
    """`strip` is the newest answer, `trouble` why the newest question has none; `changed` is called after each."""

    def __init__(self, client: RunDataClient, changed: Callable[[], None]) -> None:
        self._client = client
        self._changed = changed
        self._asked: tuple[float, int, float | None, float] | None = None
        self._wanted: tuple[float, int, float | None] | None = None
        self._open = False
        self.strip: Strip | None = None
        self.trouble: str | None = None

    def request(self, seconds: float, columns: int, moment: float | None = None) -> None:
        """Ask for the last `seconds` in that many columns, if a new one may have begun or something else is wanted.

        In a replay they are those before unix time `moment`, of which nothing new is ever known.
        """
        now, self._wanted = self._client.clock(), (seconds, columns, moment)
        if self._open or columns < 1:
            return
        if self._asked is not None:
            pace = min(_MOST_PACE_S, max(_LEAST_PACE_S, seconds / columns))
            known = moment is not None and self.trouble is None
            if self._asked[:3] == (seconds, columns, moment) and (known or now - self._asked[3] < pace):
                return
        self._asked = seconds, columns, moment, now
        self._open = True
        # The oldest column begins before `seconds` ago, because the newest one is not over yet.
        reach, most = seconds * (1 + 1 / columns), min(_MOST_CELLS, _CELLS_A_COLUMN * columns)
        self._client.start(self._answer(reach, moment, most))

    async def _answer(self, seconds: float, until: float | None, most: int) -> None:
        try:
            reply = await self._client.ask(lambda id_: GetStrip(id=id_, seconds=seconds, until=until, most=most))
        except MissionError as error:
            self.trouble = str(error)
        else:
            self.strip, self.trouble = reply.strip, None
        finally:
            self._open = False
        self._changed()
        if self._wanted is not None and self._asked is not None and self._wanted != self._asked[:3]:
            # Another size, or stretch, while the answer was awaited: nobody may come by to ask for it again.
            self.request(*self._wanted)
