"""Foreign text in every place of the screen that shows some, as an emulator sees it.

A round is one fleet with hundreds of different strings in every field of every message that may hold one, looked at by
two dozen keys of the table of actions, whatever they open; strings are pasted into what is typed into, too. What is
painted holds no control and no hidden character, what is sent to the terminal is colours and positions and nothing
else, and the emulator's title, modes and cursor are what they were.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import pyte
from msgspec import structs
from textual.events import Paste

from mission_tui.fleet.compare import RETURN, compare
from mission_tui.fleet.views.snapshot import FleetSnapshot, OtherRoot, RunView
from mission_tui.ipc import replies, requests, tidying
from mission_tui.ipc.request import Request
from mission_tui.tui.actions import ACTIONS, Action, Place, offered
from mission_tui.tui.launching.preset_choice import PresetChoice
from mission_tui.tui.screens.mishap import MishapScreen
from mission_tui.tui.screens.shown import Shown
from mission_tui.tui.terminal.written import Pen, Written
from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.tui.fleets import BUSY, ENDED, a_fleet, queued
from tests.tui.poison import Poison
from tests.tui.sides import a_side
from tests.tui.stage import Stage, staged

__all__ = ["PART", "hostile"]

FRAGMENTS = (
    "[/", "[/]", "[bold]", "[red", "[@click=app.leave]x[/]", "[link=file:///etc/passwd]", "$(x)", "{0}",
    "%s", "\\",
    "\x1b[2J", "\x1b[31m", "\x1b[?1049l", "\x1b[6n", "\x1b]0;title\x07", "\x1b]8;;http://x\x1b\\",
    "\x1b]52;c;aGk=\x07",
    "\x1bP+q544e\x1b\\", "\x1b^x\x1b\\", "\x1b_x\x1b\\", "\x1bc", "\x1b#8", "\x9b31m", "\x9d0;t\x9c",
    "\x90x\x9c", "\x84",
    "\u202e", "\u2066", "\u2069", "\u200b", "\u200d", "\ufeff", "\u2028", "\u2029", "\u00ad", "\u061c",
    "\ufff9", "\U000e0041",
    "Z\u0351\u036b\u0343\u0323\u0348", "e\u0301" * 20, "\u0e33" * 4, "日本語", "ﷺ", "\uff21", "🚀", "👩‍👩‍👧",
    "🏳️‍🌈", "\U0001f1e9", "\ud800",
    "\udfff", "\t", "\r", "\n", "\b", "\x00", "\x07", "\x7f", "\x0e", "\x0f", "plain", "a" * 200, " ",
    "\u3000", "\u00a0", "",
)  # fmt: skip
SIZES = ((80, 24), (160, 45), (100, 30), (40, 12))
ROUNDS_A_STAGE = 12
KEYS_A_ROUND = 24
LEAVING = frozenset({"leave", "suspend", "replay"})
SENT = re.compile(r"\x1b\[[0-9;:]*[mH]")
"""Colours and positions: all that a picture needs."""

BY_NAME = {action.name: action for action in ACTIONS}

Text = Callable[[], str]


def hostile(luck: random.Random) -> str:
    """One string: fragments, and characters from anywhere."""
    parts = [luck.choice(FRAGMENTS) for _ in range(luck.randrange(1, 5))]
    parts += [chr(luck.randrange(0x110000)) for _ in range(luck.randrange(3))]
    luck.shuffle(parts)
    return "".join(parts)


class Emulator(pyte.Screen):
    """Takes what a staged screen sends, as its terminal would; `wrong` is what should not have come.

    Every change is searched for what is no colour and no position; the whole picture is drawn as well, once a round,
    because that takes long.
    """

    def __init__(self, stage: Stage, size: tuple[int, int]) -> None:
        self.bells = 0
        super().__init__(*size)
        self.wrong: list[str] = []
        self._before = self._state()
        self._stage, self._pen = stage, Pen(stage.app.console)
        self._stream = pyte.Stream(self)

        def take(_screen: object, update: Any) -> None:
            if update is not None:
                self._sent(update)

        setattr(stage.app, "_display", take)  # noqa: B010 - a spy

    def bell(self, *_: Any) -> None:
        self.bells += 1

    def repaint(self) -> None:
        """The whole picture."""
        self._stream.feed(self._sent(self._stage.screen._compositor.render_update(full=True)))
        if self._state() != self._before:
            self.wrong.append(f"the terminal's state was {self._before}, and is {self._state()}")
            self._before = self._state()

    def _sent(self, update: Any) -> str:
        sent = Written(update, self._pen).render_segments(self._stage.app.console)
        if rest := [char for char in SENT.sub("", sent) if unicodedata.category(char) in ("Cc", "Cf", "Cs")]:
            self.wrong.append(f"{rest[:5]!r} is sent to the terminal")
        return sent

    def _state(self) -> tuple[object, ...]:
        kept = self.title, self.icon_name, frozenset(self.mode), self.charset, self.margins
        return *kept, self.cursor.hidden, self.bells


def _run(rounds: Iterable[int], seed: int, tell: Tell) -> Iterator[Violation]:
    waiting = iter(rounds)
    for first in waiting:
        leg = itertools.chain((first,), itertools.islice(waiting, ROUNDS_A_STAGE - 1))
        yield from asyncio.run(_play(leg, SIZES[first // ROUNDS_A_STAGE % len(SIZES)], seed, tell))


async def _play(leg: Iterator[int], size: tuple[int, int], seed: int, tell: Tell) -> list[Violation]:
    """The rounds of one leg on one stage; what was wrong."""
    luck = chance(seed, 0)
    wrong: list[Violation] = []

    def text() -> str:
        tell("strings", 1)
        return hostile(luck)

    presets = (PresetChoice(text(), text(), "1"), PresetChoice("broken", key="2", error=text()))
    async with staged(_fleet(text, luck, 1), size=size, presets=presets) as stage:
        emulator = Emulator(stage, size)
        for revision, index in enumerate(leg, start=2):
            luck = chance(seed, index)
            _answer(stage, text, luck)
            last = "arriving"
            try:
                await stage.arrive(_fleet(text, luck, revision))
                stage.app.clear_notifications()
                stage.app.desk.tell(text(), "warning")
                for action in _route(luck):
                    last = f"{action.name!r} on {type(stage.screen).__name__}"
                    await _look(stage, action, text)
                    wrong += [f"round {index}, {size}, after {last}: {it}" for it in _harm(stage, emulator)]
                    tell("keys", 1)
                emulator.repaint()
            except Exception as error:  # noqa: BLE001 - a screen that raises is what is looked for
                where = traceback.extract_tb(error.__traceback__)[-1]
                said = f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})"
                wrong.append(f"round {index}, {size}, after {last}: {said}")
                break
            if not stage.app.is_running:
                wrong.append(f"round {index}, {size}, after {last}: the screen ended")
                break
    return wrong


def _route(luck: random.Random) -> Iterator[Action]:
    """The three places in some order, and keys of each."""
    places: list[tuple[Place, str]] = [("fleet", "back"), ("run", "open"), ("machine", "machine")]
    for place, way in luck.sample(places, 3):
        actions = {action.name: action for action in offered(place, readonly=False) if action.name not in LEAVING}
        yield BY_NAME[way]
        yield from luck.choices(list(actions.values()), k=KEYS_A_ROUND // 3 - 1)


async def _look(stage: Stage, action: Action, text: Text) -> None:
    """Press the action's key; paste into what it opens; go back to a screen of runs."""
    await stage.press(action.keys[0])
    if stage.app.focused is not None:
        stage.app.focused.post_message(Paste(text()))
        await stage.press("down")
    for _ in range(4):
        if isinstance(stage.screen, Shown) and stage.app.focused is None:
            break
        await stage.press("escape")


def _harm(stage: Stage, emulator: Emulator) -> Iterator[str]:
    for line in stage.lines():
        if bad := [char for char in line if unicodedata.category(char) in ("Cc", "Cf", "Cs")]:
            yield f"{bad!r} is painted in {line!r}"
    if isinstance(stage.screen, MishapScreen):
        yield "".join(stage.screen._said[-3:]).replace("\n", " | ")
    yield from emulator.wrong
    emulator.wrong.clear()


def _fleet(text: Text, luck: random.Random, revision: int) -> FleetSnapshot:
    """Live runs, one that waits, ended ones, and a machine; no two strings are the same."""
    poison = Poison(text, luck)
    runs = tuple(poison.poisoned(view) for view in (*BUSY.runs[:3], queued("beast-0c1d"), *ENDED))
    fleet = structs.replace(poison.poisoned(a_fleet(revision=revision)), revision=revision, runs=runs)
    return structs.replace(fleet, elsewhere=(OtherRoot(root=text()), OtherRoot(root=text())))


def _answer(stage: Stage, text: Text, luck: random.Random) -> None:
    """Whatever the supervisor is asked, it answers with foreign text; of eight questions one is refused."""
    client, poison = stage.client, Poison(text, luck)
    usual = type(client)._answer

    def answer(request: Request) -> Any:
        if luck.randrange(8) == 0:
            return replies.Refused(re=request.id, message=text())
        match request:
            case requests.Clone():
                return replies.Accepted(re=request.id, runs=(), notes=(text(),))
            case requests.Compare(by=by):
                sides = [a_side(poison.poisoned(view), 1 + at, 2.0) for at, view in enumerate(_views(stage)[:3])]
                found = compare(sides, RETURN, by, 200.0)
                return replies.ComparisonReply(re=request.id, comparison=msgspec.to_builtins(found))
            case tidying.Clean():
                ours = replies.Stale(key="1", kind="process", verdict="ours", pid=7)
                stale = (ours, replies.Stale(key="2", kind="file", verdict="unverifiable"))
                return replies.CleanReply(re=request.id, stale=tuple(poison.poisoned(each) for each in stale))
            case requests.GetLog(run=run):
                lines = "\n".join(text() for _ in range(20))
                return replies.LogReply(re=request.id, run=run, attempt=1, text=lines, start=0, end=10, size=10)
            case requests.GetStrip():
                # A day of the fake's phases would take longer than all the rest of a round.
                return poison.poisoned(usual(client, structs.replace(request, seconds=min(900.0, request.seconds))))
            case _:
                return poison.poisoned(usual(client, request))

    setattr(client, "_answer", answer)  # noqa: B010 - instead of the fake's own


def _views(stage: Stage) -> tuple[RunView, ...]:
    return stage.client.snapshot.runs


PART = Part("hostile-strings", ("I8", "I9"), 600, _run)
