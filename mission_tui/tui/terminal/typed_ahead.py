"""Keeps keys that were pressed after the one that opens a screen until that screen can take them.

A key travels from the program through the screen and back to the bindings, and a sheet takes some turns of the loop, or
an answer of the supervisor, until it is there. Whatever comes meanwhile never acts on the screen below. Launch keys are
held until they are surely neither a paste nor a key held down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from weakref import WeakSet, ref

from textual.app import App
from textual.events import Key
from textual.screen import Screen

HOLD_S = 2.0
"""Keys are kept this long for a sheet that does not come, and then dropped: they were meant for that sheet."""
_MOST = 64

Pass = Callable[[Key], Awaitable[None]]
WINDOW_S = 0.15
_MOST_AT_ONCE = 2


class TypedAhead:
    """One per app. `go` passes a key on; `dropped` is called with the number of keys that were given up."""

    def __init__(self, app: App[Any], go: Pass, dropped: Callable[[int], None]) -> None:
        self._app, self._go, self._dropped = app, go, dropped
        self._on_the_way: deque[tuple[int, Key, ref[Screen[Any]]]] = deque(maxlen=_MOST)
        self._kept: list[tuple[int, Key]] = []
        self._coming: WeakSet[Screen[Any]] = WeakSet()
        self._asked_on: Screen[Any] | None = None
        self._request = self._number = 0

    async def take(self, event: Key) -> None:
        """Let a key through, or keep it while a screen is on its way."""
        number, screen = self._arrived(event)
        if self._keeping:
            self._kept.append((number, event))
        elif event.is_forwarded and (screen is not None and (screen is not self._app.screen or self._app.focused)):
            # It was sent through a screen that was closed meanwhile, or before the line that has the focus had it.
            await self._go(_again(event))
        else:
            await self._go(event)

    async def until_over(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry out `work`, for whose sheet keys are kept since `expect`."""
        request = self._request
        try:
            await work
        finally:
            self._close(request)

    def expect(self) -> int:
        """From now on keys are for a sheet that is to come over the present screen. Gives what `give_up` takes."""
        self._request += 1
        self._asked_on = self._app.screen
        request = self._request
        self._app.set_timer(HOLD_S, lambda: self._expire(request))
        return request

    def changed(self, screen: Screen[Any]) -> None:
        """Another screen lies on top: what was expected is here as soon as it can take keys."""
        self._asked_on = None
        self._coming.add(screen)

        def ready() -> None:
            # A line takes the focus by a message to the program, which was sent when the screen was mounted.
            self._app.call_later(self._ready, screen)

        screen.call_later(ready)

    @property
    def _keeping(self) -> bool:
        screen = self._app.screen
        return screen is self._asked_on or screen in self._coming

    def _arrived(self, event: Key) -> tuple[int, Screen[Any] | None]:
        """The place of the key in the order of pressing, and the screen through which it was sent."""
        for entry in self._on_the_way:
            if entry[1] is event:
                self._on_the_way.remove(entry)
                return entry[0], entry[2]()
        self._number += 1
        if not event.is_forwarded and self._app.focused is None and not self._keeping:
            self._on_the_way.append((self._number, event, ref(self._app.screen)))
        return self._number, None

    async def _ready(self, screen: Screen[Any]) -> None:
        self._coming.discard(screen)
        await self._release()

    def _close(self, request: int) -> None:
        if request == self._request and self._asked_on is not None:
            self._asked_on = None
            self._app.call_later(self._release)

    def _expire(self, request: int) -> None:
        if request == self._request and self._asked_on is not None:
            self._asked_on = None
            lost, self._kept = len(self._kept), []
            if lost:
                self._dropped(lost)

    async def _release(self) -> None:
        """What was kept goes its way, in the order of pressing; what it opens keeps the rest in turn."""
        while self._kept and not self._keeping:
            self._kept.sort(key=lambda entry: entry[0])
            _, event = self._kept.pop(0)
            await self._go(_again(event))


def _again(event: Key) -> Key:
    return Key(event.key, event.character)


class LaunchGate:
    """Collects launch keys that follow each other within `WINDOW_S`. Times are the caller's monotonic seconds."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._last = float("-inf")

    def press(self, key: str, now: float) -> None:
        """Take a key; it is held until the window after it has passed."""
        self._held.append(key)
        self._last = now

    def release(self, now: float) -> tuple[tuple[str, ...], int]:
        """The keys to act on and the number ignored; both empty while the window of the newest key is still open."""
        if not self._held or now - self._last < WINDOW_S:
            return (), 0
        held, self._held = tuple(self._held), []
        return (held, 0) if len(held) <= _MOST_AT_ONCE else ((), len(held))
