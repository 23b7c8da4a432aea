"""Foreign text in every place of the screen that shows some, as an emulator sees it.

A round is one fleet with two hundred different strings in its names, causes, findings, presets, settings and
logs, looked at on every tab and sheet. What is painted holds no control and no hidden character, what is sent to the
terminal is colours and positions and nothing else, and the emulator's title, modes and cursor are what they were.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import unicodedata
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pyte
from msgspec import structs

from mission_tui.fleet.findings import Finding
from mission_tui.fleet.snapshot import FleetSnapshot, RunView
from mission_tui.ipc.replies import DetailsReply, LogReply
from mission_tui.ipc.requests import GetDetails, GetLog
from mission_tui.tui.preset_choice import PresetChoice
from mission_tui.tui.written import Pen, Written
from tests.faults.campaign.part import Part, Tell, Violation, chance
from tests.tui.fake_client import details
from tests.tui.fleets import GPU, NOW, a_fleet, a_run, host
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
SIZES = ((80, 24), (160, 45), (100, 30))
ROUNDS_A_STAGE = 12
SENT = re.compile(r"\x1b\[[0-9;:]*[mHC]|\x1b\]8;[^\x1b\x07]*\x1b\\|\r\n|\n")
"""Colours, positions and ends of lines: all that a picture needs."""

Text = Callable[[], str]


def hostile(luck: random.Random) -> str:
    """One string: fragments, and characters from anywhere."""
    parts = [luck.choice(FRAGMENTS) for _ in range(luck.randrange(1, 5))]
    parts += [chr(luck.randrange(0x110000)) for _ in range(luck.randrange(3))]
    luck.shuffle(parts)
    return "".join(parts)


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
    async with staged(_fleet(text, 1), size=size, presets=presets) as stage:
        _answer(stage, text)
        for revision, index in enumerate(leg, start=2):
            luck = chance(seed, index)
            try:
                await stage.arrive(_fleet(text, revision))
                async for where in _visit(stage):
                    wrong += [f"round {index}, {size}, after {where}: {it}" for it in _harm(stage, size)]
            except Exception as error:  # noqa: BLE001 - a screen that raises is what is looked for
                wrong.append(f"round {index}, {size}: {type(error).__name__}: {error}")
                break
            if not stage.app.is_running:
                wrong.append(f"round {index}: the screen ended")
                break
    return wrong


async def _visit(stage: Stage) -> AsyncIterator[str]:
    """Every tab of the chosen run, its own screen, every sheet."""
    for keys in (("down",), ("]",), ("]",), ("]",), ("]",), ("enter",), ("]",), ("]",), ("]",), ("]",), ("escape",)):
        await stage.press(*keys)
        yield " ".join(keys)
    for key in ("x", "colon", "question_mark", "n", "K", "e", "S", "N", "E", "T", "L"):
        await stage.press(key)
        yield key
        await stage.press("escape")


def _harm(stage: Stage, size: tuple[int, int]) -> Iterator[str]:
    for line in stage.lines():
        if bad := [char for char in line if unicodedata.category(char) in ("Cc", "Cf", "Cs")]:
            yield f"{bad!r} is painted in {line!r}"
    update: Any = stage.app.screen._compositor.render_update(full=True)
    sent = Written(update, Pen(stage.app.console)).render_segments(stage.app.console)
    if rest := [char for char in SENT.sub("", sent) if unicodedata.category(char) == "Cc"]:
        yield f"{rest[:5]!r} is sent to the terminal"
    emulator = pyte.Screen(*size)
    modes = set(emulator.mode)
    pyte.Stream(emulator).feed(sent)
    if emulator.title or emulator.icon_name or emulator.mode != modes or emulator.charset:
        yield f"the emulator's state changed: title {emulator.title!r}, modes {emulator.mode ^ modes}"


def _fleet(text: Text, revision: int) -> FleetSnapshot:
    """Six live runs, an ended one and a machine; no two strings are the same."""
    live = tuple(_view(text, number) for number in range(6))
    dead = structs.replace(_view(text, 9), state="ended", outcome="failed", kind="unknown", cause=text(), ended_t=NOW)
    fleet = a_fleet((*live, dead), gpus=(structs.replace(GPU, name=text()),), revision=revision)
    return structs.replace(fleet, runs_root=f"/{text()}", host=host(name=text(), gpu_note=text()))


def _view(text: Text, number: int) -> RunView:
    finding = Finding(
        "f", text(), "warning", 3, 9, text(), text(), text(), (text(),), evidence=({text(): 1.0, "update": 1.0},)
    )
    return a_run(
        text(),
        id=f"run-{number}",
        preset=text(),
        description=text(),
        env_id=text(),
        group=text(),
        findings=(finding,),
        metrics={"rollout/ep_rew_mean": "nan", text(): 1.0},
        outcomes={text(): 3},
        last_checkpoint=text(),
    )


def _answer(stage: Stage, text: Text) -> None:
    """Details and logs are foreign text too."""

    def tell_details(request: GetDetails) -> DetailsReply:
        told = details(request.id, stage.client.snapshot.runs[0])
        return structs.replace(
            told,
            effective={"reasons": {text(): text()}, "ppo": {text(): text()}, text(): {"x": [text()]}},
            attempts=(structs.replace(told.attempts[0], outcome="failed", cause=text(), from_checkpoint=text()),),
            checkpoints=(structs.replace(told.checkpoints[0], name=text(), reason=text()),),
            evaluations=({"checkpoint": text(), "mean": 1.0, "outcomes": {text(): 1}},),
        )

    def tell_log(request: GetLog) -> LogReply:
        lines = "\n".join(text() for _ in range(20))
        return LogReply(re=request.id, run=request.run, attempt=1, text=lines, start=0, end=10, size=10)

    stage.client.answers[GetDetails] = tell_details
    stage.client.answers[GetLog] = tell_log


PART = Part("hostile-strings", ("I8", "I9"), 600, _run)
