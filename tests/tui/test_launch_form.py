"""The form for a run with changes: checked while one types, submitted only when it is right."""

from __future__ import annotations

from msgspec import structs

from mission_tui.ipc.requests import Check, Launch, LaunchItem
from mission_tui.tui.draft import assignments, meaning
from mission_tui.tui.screens.launch_form import LaunchForm
from mission_tui.tui.screens.smoke import SmokeScreen
from tests.tui.fake_client import a_spec
from tests.tui.stage import Stage, staged


async def opened(stage: Stage) -> None:
    await stage.press("n")
    await stage.until(lambda: isinstance(stage.screen, LaunchForm))
    await stage.shows("rollout 32 x 256 = 8,192")


async def test_the_form_shows_the_numbers_that_decide_a_run() -> None:
    """Rollout, batch, gradient steps, steps and updates of the chosen preset, before anything is typed."""
    async with staged() as stage:
        await opened(stage)
        await stage.shows("batch 1,024   epochs 4")
        await stage.shows("gradient steps 32 an update")
        await stage.shows("50,000,000 steps in 6,104 updates")


async def test_a_change_is_resolved_while_it_is_typed() -> None:
    """A line `ppo.n_steps=512` changes the rollout at once."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", *"ppo.n_steps=512")
        await stage.shows("rollout 32 x 512 = 16,384")


async def test_a_wrong_word_is_named_and_nothing_can_be_started() -> None:
    """The error stands below; Ctrl-S does nothing until it is gone."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", *"ppo.n_stps=512")
        await stage.shows("unknown key 'ppo.n_stps'")
        await stage.press("ctrl+s")
        assert isinstance(stage.screen, LaunchForm)
        assert not stage.client.asked_for(Launch)


async def test_submitting_starts_with_name_and_number() -> None:
    """Preset, changes, name and count become one launch; several runs of one name are numbered."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("down", "down", "tab", *"ppo.n_steps=512", "tab", *"night", "tab", "backspace", "2")
        await stage.shows("2 runs; the first:")
        await stage.press("enter")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        assert [(item.name, item.spec.preset, item.spec.ppo.n_steps) for item in request.items] == [
            ("night-1", "heavy", 512),
            ("night-2", "heavy", 512),
        ]


async def test_enter_on_the_list_starts_the_preset() -> None:
    """The shortest way: `n`, arrow, Enter."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("down")
        await stage.shows("CartPole until solved")
        await stage.press("enter")
        await stage.until(lambda: stage.client.asked_for(Launch))
        assert stage.client.asked_for(Launch)[0].items[0].spec.preset == "fast"


async def test_a_number_that_is_none_is_named() -> None:
    """`runs of each` takes 1 to 64."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", "tab", "tab", "backspace", "0")
        await stage.shows("runs of each: a number from 1 to 64")


async def test_what_stands_in_the_form_can_be_tried_first() -> None:
    """Ctrl-T: each step with what came of it, memory and hours; then the form is there as it was, nothing started."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", *"ppo.n_steps=512", "ctrl+t")
        await stage.until(lambda: isinstance(stage.screen, SmokeScreen))
        await stage.shows("✓ versions")
        await stage.shows("✗ imports     env.imports: module 'mine' cannot be imported")
        await stage.shows("- rollout")
        await stage.shows("2h30 for the whole run")
        (request,) = stage.client.asked_for(Check)
        assert request.spec.ppo.n_steps == 512
        await stage.press("escape")
        await stage.shows("rollout 32 x 512 = 16,384")
        assert not stage.client.asked_for(Launch)


async def test_escape_leaves_the_form() -> None:
    """Nothing is started."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", "x", "escape")
        assert not isinstance(stage.screen, LaunchForm)
        assert not stage.client.asked_for(Launch)


async def test_letters_in_the_form_are_text() -> None:
    """`q`, `s` and `3` typed into a field neither leave nor stop nor start."""
    async with staged() as stage:
        await opened(stage)
        await stage.press("tab", "tab", *"qs3K")
        await stage.pilot.pause(0.2)
        assert isinstance(stage.screen, LaunchForm)
        assert not stage.client.asked


def test_assignments_are_lines_without_blanks_and_remarks() -> None:
    """Blank lines and lines that begin with `#` say nothing."""
    assert assignments("ppo.n_steps=512\n\n  # a remark\n run.seed=1,2 ") == ("ppo.n_steps=512", "run.seed=1,2")


def test_the_meaning_of_several_items_says_how_many() -> None:
    """The first one's numbers stand for all."""
    items = [LaunchItem(spec=a_spec()), LaunchItem(spec=a_spec())]
    assert meaning(items)[0].startswith("2 runs; the first:")


def test_another_algorithm_is_said_with_the_engine_that_trains_it() -> None:
    """The fast engine knows PPO alone; the form says so before a run is launched, and of PPO nothing."""
    plain = a_spec()
    masked = structs.replace(plain, ppo=structs.replace(plain.ppo, algo="maskable_ppo"))
    assert "maskable_ppo of sb3-contrib   engine stock" in meaning([LaunchItem(spec=masked)])
    assert not any("engine" in line for line in meaning([LaunchItem(spec=plain)]))
