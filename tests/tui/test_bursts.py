"""Keys that arrive together, as a slow line sends them, do what they do one by one; none leaks to a screen below."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest import mock

import pytest
from textual.events import Event, Key
from textual.keys import _character_to_key

from mission_tui.fleet.views.snapshot import FleetSnapshot
from mission_tui.ipc import replies, requests
from mission_tui.ipc.requests import Request
from mission_tui.tui.app import MissionApp
from mission_tui.tui.screens.fleet import FleetScreen
from tests.tui.fleets import ENDED, a_fleet
from tests.tui.stage import Stage, staged, unpainted

ANSWER_S = 0.01
ENDS_A_TEXT = {"enter", "escape", "tab", "ctrl+s", "ctrl+t", "ctrl+o"}
EVERY_PLACE = "MISSION_TUI_NIGHT" in os.environ
APART = (1, 2, 5, 30) if EVERY_PLACE else (1, 30)
"""Turns of the loop between single keys; without any they are one write."""
LOOKS = (requests.GetSnapshot, requests.GetHistory, requests.GetDetails, requests.GetLog, requests.GetStrip)


def pressed(text: str) -> list[Key]:
    """`\\r` is Enter, `\\x15` Ctrl-U, `\\x13` Ctrl-S, `\\x1b` Escape, `\\t` Tab, `\\x7f` backspace."""
    controls = {"\r": "enter", "\x15": "ctrl+u", "\x13": "ctrl+s", "\x1b": "escape", "\t": "tab", "\x7f": "backspace"}
    return [Key(controls.get(it) or _character_to_key(it), it) for it in text]


@dataclass(frozen=True, slots=True)
class Burst:
    """What is typed from the fleet, which actions that are, and what the supervisor is asked to change, in order.

    It ends on the fleet again, or after Escape pressed `back` times.
    """

    typed: str
    actions: Sequence[str]
    asked: Sequence[object]
    fleet: Callable[[], FleetSnapshot] = a_fleet
    back: int = 0
    text: Sequence[str] = field(default=())


def places(typed: Sequence[Event]) -> Iterator[int]:
    """Where to split a burst in two: wherever what happened before differs, in kind; `make night` takes every place.

    That is behind the first two keys, which open something, behind each that ends a text, and within each text once.
    """
    ends = [0, 1, 2, *(at for at, it in enumerate(typed, 1) if not isinstance(it, Key) or it.key in ENDS_A_TEXT)]
    ends = sorted({*ends, len(typed)})
    within = {(begin + end) // 2 for begin, end in pairwise(ends) if end - begin > 3}
    yield from range(1, len(typed)) if EVERY_PLACE else sorted({*ends, *within} - {0, len(typed)})


def said(request: Request) -> object:
    """The part of a request that was typed."""
    match request:
        case requests.Rename(name=name):
            return f"name {name}"
        case requests.Note(text=text):
            return f"note {text}"
        case requests.Label(add=add, remove=remove):
            return f"label {add} {remove}"
        case requests.Clone(assignments=words) | requests.Set(assignments=words) | requests.Resume(assignments=words):
            accept = " agreed" if getattr(request, "accept", False) else ""
            return f"{type(request).__name__.lower()} {' '.join(words)}{accept}"
        case requests.Act(verb=verb, runs=runs):
            return f"{verb} {' '.join(runs)}"
        case requests.Launch(items=items):
            return f"launch {items[0].spec.ppo.n_steps}"
    return type(request).__name__


def refusing(stage: Stage) -> None:
    """A supervisor that takes its time and refuses whatever has an exclamation mark."""
    real, answer = stage.client.stream, stage.client._answer

    def answered(request: Any) -> Any:
        if "!" in str(said(request)):
            return replies.Refused(re=request.id, message=f"{said(request)} has a mark in it")
        return answer(request)

    async def slow(make: Any) -> AsyncIterator[Any]:
        await asyncio.sleep(ANSWER_S)
        async for reply in real(make):
            yield reply

    stage.client._answer = answered  # type: ignore[method-assign]
    stage.client.stream = slow  # type: ignore[method-assign]


@asynccontextmanager
async def watched(burst: Burst) -> AsyncIterator[tuple[Stage, list[str]]]:
    """The screen, and the actions that keys have called."""
    called: list[str] = []
    do, launch = MissionApp.action_do, MissionApp.action_launch

    def noted_do(app: MissionApp, name: str) -> None:
        called.append(name)
        do(app, name)

    def noted_launch(app: MissionApp, key: str) -> None:
        called.append(f"launch {key}")
        launch(app, key)

    with (
        mock.patch.object(MissionApp, "action_do", noted_do),
        mock.patch.object(MissionApp, "action_launch", noted_launch),
    ):
        async with staged(burst.fleet()) as stage:
            refusing(stage)
            yield stage, called


async def plays(stage: Stage, called: list[str], burst: Burst, parts: Sequence[str], turns: int) -> None:
    """Type the `parts`, each at once, `turns` of the loop apart; what comes of it is what comes of single keys."""
    called.clear()
    stage.client.asked.clear()

    def asked() -> list[object]:
        return [said(request) for request in stage.client.asked if not isinstance(request, (*LOOKS, requests.Quote))]

    def outcome() -> tuple[list[str], list[object]]:
        return called, asked()

    for part in parts:
        for key in pressed(part):
            stage.app.post_message(key)
        for _ in range(turns):
            await asyncio.sleep(0)
    expected = (list(burst.actions), list(burst.asked))
    deep = 2 if burst.back else 1

    def arrived() -> bool:
        return outcome() == expected and len(stage.app.screen_stack) == deep

    try:
        await stage.until(arrived, f"{parts} do what single keys do")
    except AssertionError as error:
        raise AssertionError(f"{parts} gave {outcome()} on {stage.app.screen_stack}") from error
    await stage.pilot.pause()
    assert outcome() == expected, parts
    for text in burst.text:
        await stage.shows(text)
    for _ in range(burst.back):
        await stage.press("escape")
    await stage.until(lambda: isinstance(stage.screen, FleetScreen), "the fleet again")


LIVE_RUN = "20261121-104207-heavy-3f9a"
OVER: Callable[[], FleetSnapshot] = lambda: a_fleet(ENDED[1:])  # noqa: E731 - its first has a checkpoint
LINES = {
    "name, refused once": Burst("Ebad!\r\x154sKqn\r", ["rename"], ["name bad!", "name 4sKqn"]),
    "name, refused twice": Burst(
        "Ebad!\r\x15s!4\r\x15K1q\r", ["rename"], ["name bad!", "name s!4", "name K1q"]
    ),
    "name, mended at its end": Burst("Ebad!\r\x7f4\r", ["rename"], ["name bad!", "name bad4"]),
    "name, given up": Burst("Ebad!\r\x15sK!4\x1b", ["rename"], ["name bad!"]),
    "note, with a key after it": Burst(
        "Tno!\r\x15good 4!\x7f\rs", ["note", "stop"], ["note no!", "note good 4", f"stop {LIVE_RUN}"]
    ),
    "labels": Burst("Lno!\r\x15+s -K 4\r", ["label"], ["label ('no!',) ()", "label ('s', '4') ('K',)"]),
    "clone": Burst("Nno!\r\x15run.seed=4\r", ["clone"], ["clone no!", "clone run.seed=4"]),
    "settings, and yes to what they do": Burst(
        "Sno!\r\x15ppo.n_epochs=4\ry", ["set"], ["set no!", "set ppo.n_epochs=4", "set ppo.n_epochs=4 agreed"]
    ),
    "settings, and no": Burst("Sppo.n_epochs=4\rn", ["set"], ["set ppo.n_epochs=4"]),
    "resume with settings": Burst(
        "Rno!\r\x15env.n_envs=4\r", ["resume with"], ["resume no!", "resume env.n_envs=4"], fleet=OVER
    ),
    "a command that is not complete": Burst(";log 's4!\r\x15'\r\x1b", ["command"], []),
    "the palette, then its line": Burst(
        ":wrong\x15note\rno!\r\x15s4\r", ["palette", "note"], ["note no!", "note s4"]
    ),
    "the palette, given up": Burst(":sK4!\x1b", ["palette"], []),
    "a question": Burst("Ky", ["kill"], [f"kill {LIVE_RUN}"]),
    "a question, no": Burst("Kn", ["kill"], []),
    "the menu and its key": Burst("xEno!\r\x15s4\r", ["actions", "rename"], ["name no!", "name s4"]),
    "the filter, then a key": Burst("/psK4!\x15\x7fheavy-3\rs\x1b", ["stop"], [f"stop {LIVE_RUN}"]),
    "the search in a log": Burst("\r/sK4!\x15warn\r\x1b\x1b", [], []),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
async def test_every_split_of_a_burst_does_what_single_keys_do(name: str) -> None:
    """Whole, in two pieces at each of its `places`, and key by key, some turns of the loop apart."""
    burst = LINES[name]
    typed = burst.typed
    async with watched(burst) as (stage, called):
        await plays(stage, called, burst, [typed], 0)
        with unpainted():
            for at in places(pressed(typed)):
                await plays(stage, called, burst, [typed[:at], typed[at:]], at * 7 % 23)
            for turns in APART:
                await plays(stage, called, burst, list(typed), turns)


@pytest.mark.parametrize("name", ["name, refused twice", "note, with a key after it"])
async def test_a_line_that_is_refused_keeps_the_keys_after_it(name: str) -> None:
    """`4` would start a preset, `!` open a shell, `s` stop the run: in one write none of them does."""
    burst = LINES[name]
    async with watched(burst) as (stage, called):
        await plays(stage, called, burst, [burst.typed], 0)


@pytest.mark.slow
async def test_every_split_of_a_burst_into_the_form_starts_what_it_says() -> None:
    """Also where the first attempt is refused: its letters are no commands, and no key is lost or comes too early."""
    typed = "n\tppo.n_steps=0\x13\x15ppo.n_steps=64\t4sK\x13"
    burst = Burst(typed, ["new"], ["launch 64"])
    async with watched(burst) as (stage, called):
        await plays(stage, called, burst, [typed], 0)
        with unpainted():
            for at in places(pressed(typed)):
                await plays(stage, called, burst, [typed[:at], typed[at:]], at * 7 % 23)


async def test_what_is_typed_for_a_shell_before_it_is_there_is_dropped() -> None:
    """Neither the shell nor the fleet gets it: `s` in `ls` would stop the run."""
    with (
        mock.patch("mission_tui.tui.verbs.looking.os.path.isdir", return_value=True),
        mock.patch("mission_tui.tui.verbs.looking.subprocess.run") as shell,
        mock.patch("textual.app.App.suspend"),
    ):
        async with watched(Burst("!ls\r", [], [])) as (stage, called):
            for key in pressed("!ls\r"):
                stage.app.post_message(key)
            await stage.until(lambda: shell.called)
            await stage.until(lambda: any("3 keys" in toast for toast in stage.toasts()))
            assert called == ["shell"]
            assert not stage.client.asked_for(requests.Act)
