"""A run of a command on the screen: keys that it cannot take say why and ask for nothing, unknown values are dashes."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.fleet.views.snapshot import SERIES, RunView
from mission_tui.ipc.requests import Act, Apply, Evaluate
from mission_tui.tui.screens.questions import LineInputScreen
from mission_tui.tui.widgets.bars import hints
from tests.tui.fleets import LIVE, a_fleet, a_run, ended
from tests.tui.stage import staged

COMMAND = a_run(
    "loop", preset="command", description="python train.py", can=(), update=None, timesteps=None, total_timesteps=None,
    steps_per_s=None, eta_s=None, rollout_s=None, update_s=None, metrics={}, series=dict.fromkeys(SERIES, ()),
    outcomes={}, last_checkpoint=None, connected=False, phase=None, env_id="", n_envs=0, n_steps=0, seed=None,
)  # fmt: skip


def labels(view: RunView) -> set[str]:
    """What the footer offers for `view`."""
    return {hint.label for hint in hints("fleet", (), view, readonly=False, undoable=False)}


@pytest.mark.parametrize(
    ("key", "verb"), [("p", "pause"), ("B", "park"), ("C", "checkpoint"), ("e", "evaluate"), ("a", "apply")]
)
async def test_a_key_that_a_command_cannot_take_says_why(key: str, verb: str) -> None:
    """One sentence with what can be done instead; the supervisor is not even asked."""
    async with staged(a_fleet((COMMAND,))) as stage:
        await stage.press(key)
        said = f"cannot {verb} loop: it runs a command, which"
        await stage.until(lambda: any(toast.startswith(said) for toast in stage.toasts()))
        assert stage.client.asked_for(Act) + stage.client.asked_for(Evaluate) + stage.client.asked_for(Apply) == []


async def test_of_several_marked_runs_those_that_can_are_asked() -> None:
    """A command among trainings does not keep them from being paused, and is left alone."""
    async with staged(a_fleet((COMMAND, LIVE[0]))) as stage:
        await stage.press("space", "space", "p")
        await stage.until(lambda: stage.client.asked_for(Act))
        assert [request.runs for request in stage.client.asked_for(Act)] == [(LIVE[0].id,)]


def test_the_footer_offers_no_pause_of_a_command() -> None:
    """What would only be refused is not offered, nor a policy to watch; stop and kill are."""
    assert {"pause", "watch"} <= labels(LIVE[0])
    assert {"pause", "watch", "stop", "kill"} & labels(COMMAND) == {"stop", "kill"}
    assert "watch" not in labels(ended("loop-0000", 5, "failed", can=()))


def test_the_footer_names_the_key_that_adopts_a_foreign_run() -> None:
    """There is nothing else that could be done with it; of one's own runs it says nothing."""
    foreign = labels(ended("theirs-0000", 5, "finished", flags=("foreign",)))
    assert "adopt" in foreign
    assert not {"watch", "resume", "evaluate"} & foreign
    assert "adopt" not in labels(LIVE[0])


async def test_what_a_command_has_not_reported_is_never_a_zero() -> None:
    """Its screen names the command, says that nothing was reported, and shows a dash for the share that is done."""
    async with staged(a_fleet((COMMAND,))) as stage:
        await stage.shows("python train.py")
        await stage.shows("a command that has reported nothing")
        await stage.press("enter")
        await stage.shows("Esc back")
        assert "─ -  " in stage.text()
        assert "-/-" not in stage.text()
        assert "0 x 0" not in stage.text()


async def test_kill_does_not_call_a_command_worthless() -> None:
    """Nobody knows what it has saved, so "learned nothing yet" would be a guess; SIGTERM is named as gentler."""
    async with staged(a_fleet((COMMAND,))) as stage:
        await stage.press("K")
        await stage.shows("loop: what its command has not saved itself is lost")
        await stage.shows("SIGTERM")
        assert "learned nothing" not in stage.text()


async def test_a_command_is_not_asked_for_settings_it_cannot_take() -> None:
    """`S` says why before anything is typed."""
    async with staged(a_fleet((COMMAND,))) as stage:
        await stage.press("S")
        await stage.until(lambda: any(toast.startswith("cannot set anything of loop") for toast in stage.toasts()))
        assert not isinstance(stage.screen, LineInputScreen)


async def test_a_command_has_no_preset_to_be_held_against() -> None:
    """`v` asks for another run at once."""
    async with staged(a_fleet((COMMAND, LIVE[0]))) as stage:
        await stage.press("d")
        await stage.shows("v only what differs from another run")
        await stage.press("v")
        await stage.shows("Compare the settings of loop with")


def test_what_saved_nothing_may_begin_anew() -> None:
    """The footer has the key: the supervisor takes it, and says that nothing of before is left."""
    dead = {"state": "ended", "outcome": "killed", "last_checkpoint": None}
    assert "resume" in labels(structs.replace(LIVE[0], **dead))
    assert "resume" in labels(structs.replace(COMMAND, **dead))
    assert "resume" in labels(structs.replace(LIVE[0], **dead | {"last_checkpoint": "000004096"}))
