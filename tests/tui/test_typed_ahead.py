"""Keys typed faster than a sheet opens are for the sheet, and never act on the screen below."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from textual.events import Key
from textual.widgets import Input

from mission_tui.ipc.replies import Accepted
from mission_tui.ipc.requests import Act, Apply, Clone, Launch, Note, Resume
from mission_tui.tui.screens.questions import ConfirmScreen
from mission_tui.tui.screens.verdict import VerdictScreen
from mission_tui.tui.terminal.typed_ahead import HOLD_S
from tests.tui.fleets import a_fleet, a_run
from tests.tui.stage import Stage, staged


def burst(stage: Stage, keys: str) -> None:
    """All keys at once, as a terminal hands over what was typed while the program was busy; `\\r` is Enter."""
    for key in keys:
        stage.app.post_message(Key({"\r": "enter", ":": "colon"}.get(key, key), key))


@pytest.mark.parametrize(("keys", "text"), [("Nsqupn", "squpn"), ("Rsqupn", "squpn"), ("Tqqs", "qqs"), (":Kxs", "Kxs")])
async def test_letters_go_into_the_line_that_the_first_key_opens(keys: str, text: str) -> None:
    """`s`, `u`, `q` and `n` would stop, undo, leave and open another form below."""
    async with staged() as stage:
        burst(stage, keys)
        await stage.until(lambda: isinstance(stage.app.focused, Input) and stage.app.focused.value == text, text)
        assert [type(request) for request in stage.client.asked if isinstance(request, Act)] == []
        assert len(stage.app.screen_stack) == 2


async def test_an_answer_typed_ahead_answers_the_question() -> None:
    """`K` asks and `y` says yes; alone on the fleet `y` copies."""
    async with staged() as stage:
        burst(stage, "Ky")
        await stage.until(lambda: stage.client.asked_for(Act), "the kill")
        assert [request.verb for request in stage.client.asked_for(Act)] == ["kill"]
        assert not any("clipboard" in toast or "copied" in toast for toast in stage.toasts())


async def test_a_whole_line_with_what_follows_it() -> None:
    """Opened, typed, sent: then keys are the fleet's again, each in its order."""
    async with staged() as stage:
        before = stage.app.app_context.shown.chosen()
        burst(stage, "Tgood\r")
        await stage.until(lambda: stage.client.asked_for(Note), "the note")
        assert [request.text for request in stage.client.asked_for(Note)] == ["good"]
        await stage.until(lambda: len(stage.app.screen_stack) == 1)
        burst(stage, "j")
        await stage.until(lambda: stage.app.app_context.shown.chosen() != before, "the cursor moved")


async def test_keys_wait_for_a_sheet_that_the_supervisor_has_a_say_in() -> None:
    """The advice is judged first; what is typed meanwhile is for the sheet. `s` stops nobody."""
    async with staged() as stage:
        await stage.press("j")
        stage.client.hold = asyncio.Event()  # type: ignore[attr-defined]
        real = stage.client.stream

        async def slow(make: Any) -> Any:
            await stage.client.hold.wait()  # type: ignore[attr-defined]
            async for reply in real(make):
                yield reply

        stage.client.stream = slow  # type: ignore[method-assign]
        burst(stage, "as")
        await stage.pilot.pause()
        stage.client.hold.set()  # type: ignore[attr-defined]
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen), "the verdict")
        await stage.pilot.pause()
        assert stage.client.asked_for(Act) == []
        assert len(stage.client.asked_for(Apply)) == 1


async def test_a_sheet_that_never_comes_keeps_nothing_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its keys are dropped and that is said; later ones are the fleet's."""
    assert HOLD_S <= 2.0
    monkeypatch.setattr("mission_tui.tui.terminal.typed_ahead.HOLD_S", 0.05)
    monkeypatch.setattr("mission_tui.tui.terminal.typed_ahead.PAUSE_S", 0.01)
    async with staged() as stage:
        await stage.press("j")
        stage.client.stream = never  # type: ignore[method-assign, assignment]
        burst(stage, "as")
        await stage.until(lambda: any("changed nothing" in toast for toast in stage.toasts()))
        assert not isinstance(stage.screen, ConfirmScreen)
        burst(stage, "N")
        await stage.until(lambda: isinstance(stage.app.focused, Input), "the line")
        assert stage.client.asked_for(Clone) == []


async def test_a_screen_takes_no_key_before_it_is_there() -> None:
    """However long the program is busy with other things after it was laid over this one, or taken away again."""
    async with staged() as stage:
        stage.app.push_screen(ConfirmScreen("Kill heavy?", (), "kill"))
        assert stage.app.typed._keeping
        await stage.until(lambda: not stage.app.typed._keeping, "it is there")
        stage.app.pop_screen()
        assert stage.app.typed._keeping
        await stage.until(lambda: not stage.app.typed._keeping, "the fleet is")


async def never(_make: Any) -> Any:
    """No answer at all."""
    await asyncio.Event().wait()
    yield None


UNSAVED = a_fleet((a_run("lost", state="ended", outcome="failed", last_checkpoint=None),))


@pytest.mark.parametrize("words", ["ppo.learning_rate=1e-4\r", "s", "K", "1"])
async def test_what_is_typed_for_a_line_that_is_refused_acts_on_nothing(words: str) -> None:
    """An ended run without a checkpoint cannot be resumed with other settings. Of those that were typed already, `l`
    would open its log, `n` a form, and Enter another screen.
    """
    async with staged(UNSAVED) as stage:
        burst(stage, f"R{words}")
        await stage.until(lambda: any("changed nothing" in toast for toast in stage.toasts()), "the keys were dropped")
        assert any("has no checkpoint to go on from" in toast for toast in stage.toasts())
        assert [request for request in stage.client.asked if isinstance(request, (Act, Launch))] == []
        assert len(stage.app.screen_stack) == 1


async def test_who_types_on_after_a_refusal_acts_on_nothing_until_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys come one by one, the refusal between them; after a pause they are the list's again, Esc ends it at once."""
    monkeypatch.setattr("mission_tui.tui.terminal.typed_ahead.PAUSE_S", 60.0)
    async with staged(UNSAVED) as stage:
        for key in ("R", "s", "r", "K"):
            await stage.press(key)
        assert stage.client.asked_for(Resume) == stage.client.asked_for(Act) == []
        assert len(stage.app.screen_stack) == 1
        await stage.press("escape", "r")
        await stage.until(lambda: stage.client.asked_for(Resume), "the resume")


async def test_what_is_typed_for_a_sheet_that_the_run_cannot_have_acts_on_nothing() -> None:
    """A command has no settings to be resumed with; `s` behind `S` would stop it."""
    fleet = a_fleet((a_run("command", can=frozenset({"stop", "pause"})),))
    async with staged(fleet) as stage:
        burst(stage, "Ss")
        await stage.until(lambda: any("changed nothing" in toast for toast in stage.toasts()), "the keys were dropped")
        assert stage.client.asked_for(Act) == []


async def test_keys_behind_a_resume_that_needs_no_sheet_act() -> None:
    """`r` lets a paused run go on at once, and `s` is then for the list."""
    async with staged(a_fleet((a_run("held", state="paused"),))) as stage:
        stage.client.answers[Resume] = lambda request: Accepted(re=request.id, runs=(request.run,))
        burst(stage, "rs")
        await stage.until(lambda: stage.client.asked_for(Act), "the stop")
        assert [request.verb for request in stage.client.asked_for(Act)] == ["stop"]
