"""Foreign text in every place of the screen that shows some, as an emulator sees it.

A round is one fleet, of the present or of a replay, with hundreds of different strings in every field of every message
that may hold one, looked at by a dozen keys of the table of actions, whatever they open; strings are pasted into what
is typed into, too. The first round of each stage is a tour of all there is: where all finds room, a part that it never
drew with foreign text is a violation. What is painted holds no control and no hidden character, what is sent to the
terminal is colours and positions and nothing else, and the emulator's title, modes and cursor are what they were.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import traceback
from collections.abc import Iterable, Iterator

from mission_tui.tui.actions import ACTIONS, Action, Place, offered
from mission_tui.tui.screens.sheets import ErrorScreen
from mission_tui.tui.state.news import desktop_note
from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.faults.hostile.emulator import Emulator, hidden
from tests.faults.hostile.reach import Reach, parts
from tests.faults.hostile.supervisor import answer_foreign, foreign_fleet, foreign_presets
from tests.faults.hostile.texts import hostile
from tests.faults.hostile.visits import (
    REPLAY,
    SHOWN_MISHAP,
    TOUR,
    ask_where,
    home,
    paste,
    show_mishap,
    through_command,
    through_form,
)
from tests.tui.fleets import NOW
from tests.tui.stage import Stage, hurried, staged

__all__ = ["PART", "TOURED"]

SIZES = ((80, 24), (160, 45), (100, 30), (40, 12))
TOURED = (160, 45)
"""Where all parts find room."""
ROUNDS_A_STAGE = 6
KEYS_A_ROUND = 12
REPLAYED = 1 / 6
MARKED = 1 / 2
"""Of the strings begin with a sign by which they are known on the screen; on a tour all do."""
ANSWER_S, STILL, LOOKS = 0.15, 2, 60
LEAVING = frozenset({"leave", "suspend", "replay", "shell"})
BY_NAME = {action.name: action for action in ACTIONS}
NUMBERS = frozenset({"ReplayLine", "ComparisonChart", "Selector", "Timeline", "EvidenceChart", "HintLine"})
"""Parts that are drawn, and have no room for a word of somebody else."""


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    waiting = iter(rounds)
    for first in waiting:
        leg = itertools.chain((first,), itertools.islice(waiting, ROUNDS_A_STAGE - 1))
        yield from asyncio.run(_play(leg, SIZES[first // ROUNDS_A_STAGE % len(SIZES)], seed, tell))


async def _play(leg: Iterator[int], size: tuple[int, int], seed: int, tell: Tell) -> list[Violation]:
    """The rounds of one leg on one stage; what was wrong."""
    luck = chance(seed, 0)

    def text() -> str:
        tell("strings", 1)
        return hostile(luck)

    first = foreign_fleet(text, luck, 1, replay=False)
    with hurried():
        async with staged(first, size, presets=foreign_presets(text), last_seen_t=NOW - 9000) as stage:
            visitor = _Visitor(stage, size, tell)
            for revision, index in enumerate(leg, start=2):
                luck = chance(seed, index)
                if not await visitor.round(index, luck, 1000 * revision):
                    break
    return visitor.wrong


class _Visitor:
    """Goes over one staged screen, and looks at what is painted and sent after each key. `wrong` is what was found."""

    def __init__(self, stage: Stage, size: tuple[int, int], tell: Tell) -> None:
        self._stage, self._size, self._tell = stage, size, tell
        self._emulator, self._reach = Emulator(stage, size), Reach()
        self._luck, self._index, self._last = random.Random(0), 0, ""
        self._touring = False
        self.wrong: list[Violation] = []

    async def round(self, index: int, luck: random.Random, revision: int) -> bool:
        """Look at one fleet, the first time at all there is; false where the screen is not to be used any more."""
        self._index, self._luck = index, luck
        self._touring = toured = index % ROUNDS_A_STAGE == 0
        try:
            self.seen("arriving")
            answer_foreign(self._stage, self.text, luck, refuses=not toured)
            self._stage.app.clear_notifications()
            self._stage.app.app_context.toast(self.text(), "warning")
            if toured:
                await self._tour(revision)
            else:
                await self._arrive(revision, replay=luck.random() < REPLAYED)
                for action in _route(luck):
                    await self._press(action.keys[0], f"{action.name!r} on {type(self._stage.screen).__name__}")
                    await home(self._stage)
            self._emulator.repaint()
            self.seen(self._last)
        except Exception as error:  # noqa: BLE001 - a screen that raises is what is looked for
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._complain(f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")
            return False
        if not self._stage.app.is_running:
            self._complain("the screen ended")
        return self._stage.app.is_running

    async def _tour(self, revision: int) -> None:
        for part, keys in enumerate((TOUR, REPLAY)):
            await self._arrive(revision + part, replay=keys is REPLAY)
            for key in keys:
                await self._press(key, f"{key!r} of the tour")
            await home(self._stage)
        await self._arrive(revision + 2, replay=False)
        for visit in (through_form, through_command, ask_where, show_mishap):
            await visit(self._stage, self.text, self.seen)
        if self._size != TOURED:
            return
        undrawn, unforeign = parts() - self._reach.drawn, parts() - NUMBERS - self._reach.foreign
        for what, missed in (("drawn", undrawn), ("drawn with foreign text", unforeign)):
            if missed:
                self._complain(f"never {what}: {', '.join(sorted(missed))}")
        self._tell("tours on which each part drew some", not unforeign)

    async def _arrive(self, revision: int, *, replay: bool) -> None:
        self._last = "arriving"
        fleet = foreign_fleet(self.text, self._luck, revision, replay=replay)
        await self._stage.arrive(fleet)
        note = desktop_note([(view, finding) for view in fleet.runs for finding in view.findings])
        if hidden(note.removeprefix("\x1b]9;").removesuffix("\x07")):
            self._complain(f"the note to the terminal is {note!r}")
        self.seen(self._last)

    async def _press(self, key: str, what: str) -> None:
        self._last = what
        if key == "~":
            await self._answered()
        else:
            await self._stage.press(key.removeprefix("!"))
        self.seen(what)
        if self._stage.app.focused is not None and key[0] not in "!~":
            await paste(self._stage, self.text)
            self.seen(f"pasting after {what}")
        self._tell("keys", 1)

    async def _answered(self) -> None:
        """Wait until answers are drawn and nothing changes any more: one may be asked for after another."""
        same = 0
        before = ""
        for _ in range(LOOKS):
            await asyncio.sleep(ANSWER_S)
            await self._stage.pilot.pause()
            now = self._stage.text()
            same = same + 1 if now == before else 0
            before = now
            if same == STILL:
                return

    def seen(self, what: str) -> None:
        """Look at the picture after `what`."""
        self._last = what
        screen = self._stage.screen
        strips = list(screen._compositor.render_strips())
        self._tell("lines painted", self._reach.look(screen, strips))
        for harm in self._emulator.harm(strips):
            self._complain(harm)
        if isinstance(screen, ErrorScreen) and what != SHOWN_MISHAP:
            self._complain("".join(screen._said[-3:]).replace("\n", " | "))

    def text(self) -> str:
        """The next foreign string."""
        self._tell("strings", 1)
        return hostile(self._luck, marked=self._touring or self._luck.random() < MARKED)

    def _complain(self, what: str) -> None:
        self.wrong.append(f"round {self._index}, {self._size}, after {self._last}: {what}")


def _route(luck: random.Random) -> Iterator[Action]:
    """The three places in some order, and keys of each."""
    places: list[tuple[Place, str]] = [("fleet", "back"), ("run", "open"), ("machine", "machine")]
    for place, way in luck.sample(places, 3):
        actions = {action.name: action for action in offered(place, readonly=False) if action.name not in LEAVING}
        yield BY_NAME[way]
        yield from luck.choices(list(actions.values()), k=KEYS_A_ROUND // 3 - 1)


PART = Part("hostile-strings", ("I8", "I9"), 160, _run)
