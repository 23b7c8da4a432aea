"""Bursts into every sheet there is: no key of one acts below it, and what is pasted keeps its place among the keys."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec import structs
from textual.events import Key, Paste
from textual.screen import Screen

from mission_tui.errors import UsageError
from mission_tui.fleet.views.snapshot import FleetSnapshot, Replay
from mission_tui.ipc import replies, requests
from mission_tui.tui import screens
from mission_tui.tui.actions import ACTIONS
from mission_tui.tui.app import MissionApp
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.launch_form import LaunchForm, MachinePicker, SmokeScreen
from mission_tui.tui.screens.questions import ConfirmScreen, LeftoversScreen, LineInputScreen, Picker
from mission_tui.tui.screens.sheets import AwayScreen, ErrorScreen, EvaluationScreen, HelpScreen, OutputScreen, Sheet
from mission_tui.tui.screens.verdict import TrialScreen, VerdictScreen
from tests.tui.fake_client import FEWER_EPOCHS, Respond
from tests.tui.fleets import ENDED, GPU1, HERE, NOW, TRIAL, a_fleet, a_run, several
from tests.tui.stage import Stage, staged, unpainted
from tests.tui.test_bursts import APART, LINES, LOOKS, OVER, places, pressed, refusing, said
from tests.tui.test_looks import SICK
from tests.tui.test_other_roots import B, C, a_fleet_beside
from tests.tui.test_verbs import LEFT

KEYS = {"\x14": "ctrl+t", "\x0f": "ctrl+o", "␡": "delete"}
NOT_TYPED_FOR = {"compare", "machine", "shell", "suspend"}
"""Screens with a list of runs of their own, and what leaves the terminal to another program."""
NOBODY_TYPED = (*LOOKS, requests.Quote, requests.Play, requests.StopPlay)
PAST = structs.replace(a_fleet(), replay=Replay(since=NOW - 3600, until=NOW))
YOUNG = a_fleet((a_run("young", last_checkpoint=None),))
FOREIGN = a_fleet((a_run("strange", flags=("foreign",)), *ENDED))
TRIED = a_fleet((a_run("sick-11c0", trials=(TRIAL,)), *ENDED))


def typed_events(text: str) -> list[Key | Paste]:
    """What a terminal hands over: letters as keys, and what stands between ⟦ and ⟧ as one paste."""
    events: list[Key | Paste] = []
    for part in re.split("(⟦[^⟧]*⟧)", text):
        if part.startswith("⟦"):
            events.append(Paste(part[1:-1]))
        else:
            events += [Key(KEYS[it], None) if it in KEYS else pressed(it)[0] for it in part]
    return events


@dataclass(frozen=True, slots=True)
class SheetBurst:
    """What is typed at once, once the keys `first` have brought `seen`; the sheets it opens, the actions its keys are,
    and what the supervisor is asked for.
    """

    typed: str
    sheets: tuple[type[Sheet[Any]], ...]
    actions: Sequence[str] = ()
    asked: Sequence[str] = ()
    fleet: FleetSnapshot = field(default_factory=a_fleet)
    answers: Mapping[type, Respond] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    seen: str = ""
    opened: Callable[[Stage], None] = lambda _stage: None


def _judged(request: Any) -> Any:
    return replies.VerdictReply(re=request.id, run=request.run, verdict=FEWER_EPOCHS, accept_needed=True)


def _adoptable(request: Any) -> Any:
    items = tuple(replies.Adoptable(run=it, name=it, why="no seal", rows=(), digest="d") for it in request.runs)
    return replies.AdoptableReply(re=request.id, items=items)


def _left(stale: tuple[replies.LeftoverRow, ...]) -> Respond:
    return lambda request: replies.CleanReply(re=request.id, stale=stale)


def _save(saving: Any, _replace: bool) -> Any:
    raise UsageError(f"{saving.name} cannot be saved")


def _mishap(stage: Stage) -> None:
    stage.app.push_screen(ErrorScreen(ValueError("a chart")))


WRONG = "s4K!\r\x15␡"
"""Where it leaked it would stop and kill the run, start a preset, open a shell and the run, and remove it."""
LINE = (LineInputScreen,)
SHEETS: dict[str, SheetBurst] = {
    "the help": SheetBurst(f"?{WRONG}\x1b", (HelpScreen,), ["help"]),
    "what happened": SheetBurst(f"M{WRONG}\x1b", (AwayScreen,), ["away"], options={"last_seen_t": NOW - 100_000}),
    "nothing happened": SheetBurst(f"M{WRONG}\x1b", (), ["away"]),
    "an evaluation": SheetBurst(f"e{WRONG}\x1b", (EvaluationScreen,), ["evaluate"], ["Evaluate"]),
    "a command's output": SheetBurst(f";paths\r{WRONG}\x1b", (LineInputScreen, OutputScreen), ["command"]),
    # Where `s` means what it says there, and stops the run.
    "a question": SheetBurst(f"K{WRONG[1:]}\x1b", (ConfirmScreen,), ["kill"]),
    "a question, pasted into": SheetBurst("K⟦yes\ny\n⟧\x1b", (ConfirmScreen,), ["kill"]),
    "what dead runs left": SheetBurst(
        f"X{WRONG}\x1b", (LeftoversScreen,), ["clean"], ["Clean"], answers={requests.Clean: _left(LEFT)}
    ),
    "nothing left": SheetBurst(f"X{WRONG}\x1b", (), ["clean"], ["Clean"], answers={requests.Clean: _left(())}),
    "a foreign run": SheetBurst(
        f"D{WRONG}\x1b", (ConfirmScreen,), ["adopt"], ["GetAdoptable"], FOREIGN, {requests.GetAdoptable: _adoptable}
    ),
    "nothing foreign": SheetBurst(f"D{WRONG}\x1b", (), ["adopt"]),
    "a line, pasted into": SheetBurst("E⟦b!\nK⟧\r\x15x⟦4sK\ny⟧n\r", LINE, ["rename"], ["name b! K", "name x4sK yn"]),
    "a trial's line": SheetBurst("Vno!\r\x15s4K\x1b", LINE, ["try"], ["Try"]),
    "a trial": SheetBurst("Vt4dns!\r\x15\x1b", (TrialScreen,), ["try"], fleet=TRIED),
    "advice": SheetBurst(f"a{WRONG}\x1b", (VerdictScreen,), ["apply"], ["Apply"], SICK),
    "advice, refused": SheetBurst(f"a{WRONG}s\x1b", (), ["apply"]),
    "advice to set": SheetBurst(
        f"A{WRONG}\x1b", (VerdictScreen,), ["set advice"], ["set ppo.learning_rate=0.05"], SICK
    ),
    "advice to set, refused": SheetBurst(f"A{WRONG}s\x1b", (), ["set advice"]),
    "a resume": SheetBurst(
        f"r{WRONG}\x1b", (VerdictScreen,), ["resume"], ["resume "], OVER(), {requests.Resume: _judged}
    ),
    "a resume with settings": SheetBurst(
        f"Rs\r{WRONG}\x1b\x1b", (LineInputScreen, VerdictScreen), ["resume with"], ["resume s"],
        answers={requests.Resume: _judged},
    ),
    "settings": SheetBurst(
        f"Sno!\r\x15s\r{WRONG}\x1b\x1b", (LineInputScreen, VerdictScreen), ["set"], ["set no!", "set s"]
    ),
    "a time of a replay": SheetBurst(f"gno!\r\x15s4K\r{WRONG}\x1b", LINE, ["go to"], fleet=PAST),
    "a time of the present": SheetBurst(f"g03:12\r{WRONG}\x1b", (), ["go to"]),
    "another runs root": SheetBurst("Wsno!\r\x15s4K!\x1b", (Picker,), ["elsewhere"], fleet=a_fleet_beside(B, C)),
    "no other runs root": SheetBurst(f"Wgpu\r{WRONG}\x1b", (), ["elsewhere"]),
    "the palette": SheetBurst(":⟦note⟧\r⟦s4K⟧\r", (Picker, LineInputScreen), ["palette", "note"], ["note s4K"]),
    "another run's settings": SheetBurst(
        "vsK4!\x15K4\r\x15\x1b\x1b", (Picker,), first=("d", "v"), seen="preset heavy as it is now"
    ),
    "no other run": SheetBurst(
        f"v{WRONG}\x1b\x1b", (), first=("d", "v"), seen="preset one as it is now", fleet=a_fleet((a_run("one"),))
    ),
    "a reel": SheetBurst("fsK4!\x15\x1b\x1b", (Picker,), first=("w",), seen="next action"),
    "no reel yet": SheetBurst(f"wf{WRONG}\x1b\x1b", (), fleet=YOUNG),
    "a seed": SheetBurst("gno!\r\x15sK4!\x1b\x1b", LINE, first=("w",), seen="next action"),
    "no seed yet": SheetBurst(f"g42\r{WRONG}\x1b\x1b", (), first=("w",), seen="no checkpoint yet", fleet=YOUNG),
    "which machine": SheetBurst("1sK!4\x15\x1b", (MachinePicker,), ["launch 1"], fleet=several(HERE, GPU1)),
    "which machine, and its key": SheetBurst(
        "12", (MachinePicker,), ["launch 1"], ["launch 256"], fleet=several(HERE, GPU1)
    ),
    "the form": SheetBurst("ns4K!\x15⟦K4⟧\x1b", (LaunchForm,), ["new"]),
    "the form, pasted into": SheetBurst("n\t⟦ppo.n_steps=64⟧\x13", (LaunchForm,), ["new"], ["launch 64"]),
    "a smoke run": SheetBurst(f"n\x14{WRONG}\x1b\x1b", (LaunchForm, SmokeScreen), ["new"], ["Check"]),
    "a preset's name": SheetBurst(
        "n\x0fs4K\r\x15s4K!\r\x1b\x1b", (LaunchForm, LineInputScreen), ["new"], options={"save_preset": _save}
    ),
    "an error": SheetBurst(f"{WRONG}\x1b", (), opened=_mishap),
}  # fmt: skip


def every_sheet() -> Iterator[type[Sheet[Any]]]:
    """Each class of a sheet, of whatever module of the room."""
    for module in pkgutil.iter_modules(screens.__path__, f"{screens.__name__}."):
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and issubclass(found, Sheet) and found is not Sheet:
                yield found


def test_every_sheet_and_every_key_that_opens_one_has_a_burst() -> None:
    """A new one fails here without."""
    assert {it for burst in SHEETS.values() for it in burst.sheets} | {ErrorScreen} == set(every_sheet())
    begun = {name for burst in SHEETS.values() for name in burst.actions}
    begun |= {name for burst in LINES.values() for name in burst.actions}
    assert {it.name for it in ACTIONS if it.sheet} - begun <= NOT_TYPED_FOR


class Played:
    """What keys have called and which screens came since `clear`."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.called: list[str] = []
        self.came: list[type[Screen[Any]]] = []

    def clear(self) -> None:
        """Begin anew."""
        for kept in (self.called, self.came, self.stage.client.asked):
            kept.clear()

    def outcome(self) -> tuple[object, ...]:
        """Actions, requests, sheets."""
        asked = [str(said(it)) for it in self.stage.client.asked if not isinstance(it, NOBODY_TYPED)]
        sheets = tuple(it for it in self.came if issubclass(it, Sheet))
        return self.called, [it for it in asked if not it.startswith("checkpoint")], sheets


async def plays(played: Played, burst: SheetBurst, parts: Sequence[Sequence[Key | Paste]], turns: int) -> None:
    """Hand over the `parts`, each at once; what comes of them is what was meant, and the fleet is there again."""
    stage = played.stage
    for key in burst.first:
        await stage.press(key)
    if burst.seen:
        await stage.shows(burst.seen)
    burst.opened(stage)
    played.clear()
    for part in parts:
        for event in part:
            stage.app.post_message(event)
        for _ in range(turns):
            await asyncio.sleep(0)
    expected = (list(burst.actions), list(burst.asked), burst.sheets)

    def arrived() -> bool:
        return played.outcome() == expected and len(stage.app.screen_stack) == 1

    try:
        await stage.until(arrived, f"{parts} do what was meant")
    except AssertionError as error:
        raise AssertionError(f"{parts} gave {played.outcome()} on {stage.app.screen_stack}") from error
    await stage.pilot.pause()
    assert played.outcome() == expected, parts
    assert isinstance(stage.screen, FleetScreen)


def _splits(typed: str) -> Iterator[tuple[list[list[Key | Paste]], int]]:
    """Whole, in two pieces at each of its `places`, and one by one, some turns of the loop apart."""
    yield [typed_events(typed)], 0
    for at in places(typed_events(typed)):
        yield [typed_events(typed)[:at], typed_events(typed)[at:]], at * 7 % 23
    for turns in APART:
        yield [[event] for event in typed_events(typed)], turns


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line says a word and ends."""
    says = tmp_path / "says"
    says.write_text("#!/bin/sh\necho paths\n")
    says.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(says))


async def _play_all(burst: SheetBurst, splits: Iterator[tuple[list[list[Key | Paste]], int]]) -> None:
    do, launch, push = MissionApp.action_do, MissionApp.action_launch, MissionApp.push_screen

    def noted_do(app: MissionApp, name: str) -> None:
        played.called.append(name)
        do(app, name)

    def noted_launch(app: MissionApp, key: str) -> None:
        played.called.append(f"launch {key}")
        launch(app, key)

    def noted_push(app: MissionApp, screen: Screen[Any], *how: Any, **more: Any) -> Any:
        played.came.append(type(screen))
        return push(app, screen, *how, **more)

    patches = (("action_do", noted_do), ("action_launch", noted_launch), ("push_screen", noted_push))
    with ExitStack() as stack:
        for name, noted in patches:
            stack.enter_context(mock.patch.object(MissionApp, name, noted))
        shell = stack.enter_context(mock.patch("mission_tui.tui.verbs.looking.subprocess.run"))
        async with staged(burst.fleet, **burst.options) as stage:
            stage.client.answers.update(burst.answers)
            refusing(stage)
            played, painted = Played(stage), False
            for parts, turns in splits:
                stage.app.app_context.kept_form = None
                stage.app.app_context.messages.clear()
                stage.client.show(burst.fleet)
                await plays(played, burst, parts, turns)
                if not painted:
                    painted = True
                    stack.enter_context(unpainted())
            assert not shell.called


@pytest.mark.slow
@pytest.mark.parametrize("name", SHEETS)
async def test_no_split_of_a_burst_leaks_from_its_sheet(name: str, program: None) -> None:
    """What was meant for the sheet does what it does there, and nothing below it."""
    await _play_all(SHEETS[name], _splits(SHEETS[name].typed))


@pytest.mark.parametrize(
    "name", ["a time of the present", "no seed yet", "a trial", "a line, pasted into", "which machine, and its key"]
)
async def test_a_burst_in_one_write_does_what_was_meant(name: str, program: None) -> None:
    """`03:12` behind a `g` that finds no replay would start presets, and what is pasted overtook the keys before it."""
    await _play_all(SHEETS[name], itertools.islice(_splits(SHEETS[name].typed), 1))


async def test_a_key_that_is_held_down_asks_nothing_where_there_are_several_machines() -> None:
    """Of a paste, too, the first key would ask where, and the next ones answer."""
    async with staged(several(HERE, GPU1)) as stage:
        for event in typed_events("1111"):
            stage.app.post_message(event)
        await stage.until(lambda: any("changed nothing" in toast for toast in stage.toasts()), "they were dropped")
        await stage.pilot.pause()
        assert len(stage.app.screen_stack) == 1
        assert not stage.client.asked_for(requests.Launch)
