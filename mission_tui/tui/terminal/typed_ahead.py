"""Passes keys on one at a time, and keeps those that are for a screen which is still to come.

A key travels from the program to the widget with the focus, outwards through the screen, and back to the bindings;
what it does there may send further messages the same way. Letters take effect in the widget, Enter and Ctrl-U on the
way back: of a burst, as a slow line sends it, each key waits until the one before has done all that it does. A sheet
takes some turns of the loop, or an answer of the supervisor, until it is there; what comes meanwhile never acts on the
screen below, nor what is typed on where the sheet was refused: of `Rppo.n_epochs=4` the `p` would pause the run. What
is pasted waits its turn like a key. Launch keys are held until they are surely neither a paste nor a key held down.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, NamedTuple
from weakref import WeakSet

from textual.app import App
from textual.events import Key, Paste
from textual.message_pump import MessagePump
from textual.screen import Screen

HOLD_S = 2.0
"""Keys are kept this long for a sheet or an answer that does not come, and then dropped: they were meant for that."""
PAUSE_S = 0.8
"""Whoever was refused a sheet has seen it, once no key came for so long; what came sooner was typed for the sheet."""
_TYPED = {"enter", "tab", "backspace", "delete", "left", "right", "home", "end"} | {
    f"ctrl+{letter}" for letter in "adehkuw"
}
"""What edits a line, or sends it."""
_PAINTED_S = 0.02
_LOST_S = 2.0
"""After so long a key is taken to be done: a widget that was removed with the key in its queue tells nobody."""

Typed = Key | Paste
Pass = Callable[[Typed], Awaitable[None]]
WINDOW_S = 0.15
_MOST_AT_ONCE = 2


class _Sent(NamedTuple):
    """A key on its way: the screen it went through, whether a widget had the focus there, and when (monotonic s)."""

    event: Typed
    screen: Screen[Any]
    focused: bool
    t: float


class TypedAhead:
    """One per app. `go` passes a key on; `dropped` is called with the number of keys that were given up."""

    def __init__(self, app: App[Any], go: Pass, dropped: Callable[[int], None]) -> None:
        self._app, self._go, self._dropped = app, go, dropped
        self._waiting: deque[Typed] = deque()
        self._sent: _Sent | None = None
        self._begin: MessagePump | None = None
        self._coming: WeakSet[Screen[Any]] = WeakSet()
        self._asked_on: Screen[Any] | None = None
        self._works: dict[int, Screen[Any]] = {}
        self._answered: set[int] = set()
        self._refused_on: Screen[Any] | None = None
        self._refused_t = 0.0
        self._ignored = 0
        self._request = self._wait = 0

    async def take(self, event: Typed) -> None:
        """Take what comes from the terminal, or comes back because no widget had a use for it."""
        if not event.is_forwarded:
            if not self._was_for_refused(event):
                self._waiting.append(event)
                self._follow_sent()
                await self._pass_on()
        elif self._keeping or self._strayed(event):
            again = Key(event.key, event.character) if isinstance(event, Key) else Paste(event.text)
            self._waiting.appendleft(again)
            await self._pass_on()
        else:
            await self._go(event)

    def keep_for(self, work: Coroutine[Any, Any, None], *, sheet: bool = False) -> Coroutine[Any, Any, None]:
        """`work`, to be carried out beside the screen; from now until it is over, keys never act on the present screen.

        They are for the screens that it lays over this one, and for this one once it is over; but with `sheet`, work
        that lays none over this one has refused to, unless it says `done`.
        """
        self._request += 1
        self._works[self._request] = self._app.screen
        if not sheet:
            self._answered.add(self._request)
        self._await_on(self._app.screen)
        return self._until_over(self._request, work)

    async def _until_over(self, request: int, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        finally:
            base = self._works.pop(request, None)
            # While the program ends there is no screen any more.
            if request not in self._answered and self._app.screen_stack[-1:] == [base]:
                self.refuse()
            self._answered.discard(request)
            if self._asked_on is not None and self._asked_on not in self._works.values():
                self._asked_on = None
                self._app.call_later(self._pass_on)

    def done(self) -> None:
        """What was asked for on the present screen is done without another: keys are for this one."""
        self._answered.update(request for request, base in self._works.items() if base is self._app.screen)

    def refuse(self) -> None:
        """No screen comes of a key. What was typed behind it, and goes on without a pause, was meant for that."""
        self._refused_on, self._refused_t = self._app.screen, time.monotonic()
        while self._waiting and _is_typed(self._waiting[0]):
            self._waiting.popleft()
            self._ignored += 1
        if self._waiting:
            self._refused_on = None
        self._app.set_timer(PAUSE_S, self._say_ignored)

    def _was_for_refused(self, event: Typed) -> bool:
        if self._refused_on is not self._app.screen or event.time - self._refused_t > PAUSE_S or not _is_typed(event):
            self._refused_on = None
            return False
        self._refused_t = event.time
        self._ignored += 1
        return True

    def _say_ignored(self) -> None:
        """Say how many keys were ignored, once a pause has come: so it is said once."""
        left = self._refused_t + PAUSE_S - time.monotonic()
        if left > 0 and self._refused_on is not None:
            self._app.set_timer(left, self._say_ignored)
        elif self._ignored:
            ignored, self._ignored = self._ignored, 0
            self._dropped(ignored)

    def is_flooded(self, keys: Collection[str]) -> bool:
        """Whether more of `keys` wait than a person presses at once: they were pasted, or one was held down."""
        head = itertools.takewhile(lambda event: isinstance(event, Key) and event.character in keys, self._waiting)
        return 1 + sum(1 for _ in head) > _MOST_AT_ONCE

    def forget(self) -> None:
        """Drop what is kept: it was meant for something that was no screen."""
        lost = len(self._waiting)
        self._waiting.clear()
        if lost:
            self._dropped(lost)

    def changed(self, screen: Screen[Any]) -> None:
        """Another screen lies on top. It gets what is kept as soon as it can take keys and no work is done over it."""
        self._coming.add(screen)
        self._asked_on = self._refused_on = None
        self._answered.update(request for request, base in self._works.items() if base is not screen)
        if screen in self._works.values():
            self._await_on(screen)
        elif getattr(screen, "surprises", False):
            self.refuse()

        def ready() -> None:
            # A line takes the focus by a message to the program, which was sent when the screen was mounted.
            self._app.call_later(self._ready, screen)

        screen.call_later(ready)

    @property
    def _keeping(self) -> bool:
        screen = self._app.screen
        return screen is self._asked_on or screen in self._coming

    def _strayed(self, event: Typed) -> bool:
        """Whether `event` went through a screen that was left meanwhile, or before a line there took the focus."""
        sent = self._sent
        if sent is None or sent.event is not event:
            return False
        return sent.screen is not self._app.screen or (not sent.focused and self._app.focused is not None)

    async def _pass_on(self) -> None:
        """Send the next key, unless one is on its way or keys are kept."""
        if self._sent is not None and time.monotonic() - self._sent.t > _LOST_S:
            self._sent = None
        if self._waiting and self._sent is None and not self._keeping:
            focused, screen = self._app.focused, self._app.screen
            self._sent = sent = _Sent(self._waiting.popleft(), screen, focused is not None, time.monotonic())
            begin = focused or screen
            try:
                await self._go(sent.event)
            finally:
                self._begin = begin
                if self._waiting:
                    self._follow_sent()
                else:
                    # What a single key does is painted first.
                    asyncio.get_running_loop().call_later(_PAINTED_S, self._follow_sent)

    def _follow_sent(self) -> None:
        """Find out when the key that was sent is done: once outwards behind it, and again behind the messages that it
        made its widget send.
        """
        begin, sent = self._begin, self._sent
        self._begin = None
        if begin is not None and sent is not None:
            _follow(begin, self._app, lambda: _follow(begin, self._app, lambda: self._done(sent)))

    async def _done(self, sent: _Sent) -> None:
        if self._sent is sent:
            self._sent = None
            await self._pass_on()

    async def _ready(self, screen: Screen[Any]) -> None:
        self._coming.discard(screen)
        await self._pass_on()

    def _await_on(self, screen: Screen[Any]) -> None:
        self._asked_on = screen
        self._wait += 1
        wait = self._wait

        def expire() -> None:
            if wait == self._wait and self._asked_on is screen:
                self._asked_on = None
                self._works = {request: base for request, base in self._works.items() if base is not screen}
                self.refuse()
                self._app.call_later(self._pass_on)  # an Esc is not typed for a line: it turns away from what waits

        self._app.set_timer(HOLD_S, expire)


def _is_typed(event: Typed) -> bool:
    """Whether it would have gone into a line, or sent that."""
    return isinstance(event, Paste) or event.is_printable or event.key in _TYPED


def _follow(node: MessagePump | None, app: App[Any], then: Callable[[], object]) -> None:
    """Call `then` when `node`, and everything around it up to `app`, has done what it has to do by now."""
    while node is not None and node is not app:
        around = node._parent
        if node.call_later(_follow, around, app, then):
            return
        node = around
    app.call_later(then)


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
