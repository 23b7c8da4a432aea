"""Keys that start runs: at once, together, undone, and never by accident."""

from __future__ import annotations

import pytest

from mission_tui.ipc.replies import Launched
from mission_tui.ipc.requests import Launch, Undo
from mission_tui.tui.screens.fleet import FleetScreen
from mission_tui.tui.screens.launch_form import LaunchForm
from mission_tui.tui.state.presets import PresetChoice
from tests.tui.fleets import a_fleet
from tests.tui.stage import PRESETS, Stage, staged


async def launched(stage: Stage, *keys: str) -> None:
    """Press launch keys and let the moment pass in which they are held."""
    await stage.pilot.press(*keys)
    await stage.until(lambda: len(stage.app._gate._held) == len(keys), "the keys came through")
    stage.clock.advance(0.5)


async def test_a_digit_starts_its_preset_at_once() -> None:
    """`3` asks for one run of heavy, with the working folder, interpreter and environment of the shell."""
    async with staged() as stage:
        await launched(stage, "3")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        assert [item.spec.preset for item in request.items] == ["heavy"]
        assert (request.cwd, request.python, request.environ) == ("/home/ada/lab", "/usr/bin/python3", {"PATH": "/bin"})
        await stage.until(lambda: any("u undoes for 10 s" in toast for toast in stage.toasts()))


async def test_p_starts_the_whole_set() -> None:
    """`P` asks for every preset of the set in one request, so that all start or none."""
    async with staged() as stage:
        await launched(stage, "P")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        assert [item.spec.preset for item in request.items] == ["large-batch", "wide", "deep"]


FOREIGN = PresetChoice("mine", "of this repository", "7", from_folder="./presets/mine.toml", ref="here:mine")
TAKEN = PresetChoice("demo", "not the shipped one", "1", from_folder="./presets/demo.toml", ref="here:demo")
SHIPPED = PresetChoice("shipped:demo", "MissionGym", "1", ref="shipped:demo")


async def test_a_key_of_the_working_folder_asks_and_starts_nothing() -> None:
    """The form opens with it, says from which file it comes and what it names; Ctrl-S starts it then, by its `ref`."""
    async with staged(presets=(*PRESETS[1:], FOREIGN)) as stage:
        await stage.shows("7 mine…")
        await launched(stage, "7")
        await stage.until(lambda: isinstance(stage.screen, LaunchForm))
        await stage.shows("comes from ./presets/mine.toml in this folder and names no code of its own")
        assert not stage.client.asked_for(Launch)
        await stage.press("ctrl+s")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        assert [item.spec.preset for item in request.items] == ["mine"]


async def test_what_is_typed_ahead_of_the_form_starts_nothing_of_the_working_folder() -> None:
    """A key and Enter in one burst: what it names has to stand there before it can be started."""
    async with staged(presets=(*PRESETS[1:], FOREIGN)) as stage:
        await launched(stage, "7")
        await stage.until(lambda: isinstance(stage.screen, LaunchForm))
        form = stage.screen
        assert isinstance(form, LaunchForm)
        # As before the first picture of it, which a quick machine has drawn by now.
        form._preview._shown = ""
        form.action_submit()
        await stage.shows("comes from ./presets/mine.toml")
        await stage.still()
        assert not stage.client.asked_for(Launch)
        assert stage.screen is form


async def test_a_key_that_the_working_folder_takes_too_means_the_other_one() -> None:
    """`1` of a shipped preset starts that, by what cannot be taken; the help and the bar say so."""
    async with staged(presets=(TAKEN, SHIPPED)) as stage:
        await stage.shows("1 shipped:demo")
        await launched(stage, "1")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        assert [item.spec.preset for item in request.items] == ["demo"]


@pytest.mark.slow
async def test_the_list_of_commands_asks_about_the_working_folder_too() -> None:
    """`:` and its name open the form as well."""
    async with staged(presets=(*PRESETS, FOREIGN)) as stage:
        await stage.press("colon")
        await stage.press(*"start mine")
        await stage.shows("start mine…")
        await stage.press("enter")
        await stage.until(lambda: isinstance(stage.screen, LaunchForm))
        await stage.shows("comes from ./presets/mine.toml")
        assert not stage.client.asked_for(Launch)


async def test_what_was_launched_is_chosen_so_that_the_next_key_means_it() -> None:
    """After `3` the cursor stands on the new run, not on the one that was looked at before."""
    async with staged() as stage:
        screen = stage.app.screen
        assert isinstance(screen, FleetScreen)
        await launched(stage, "3")
        await stage.until(lambda: screen.view_state.chosen == "20261121-120000-heavy-new0")


async def test_u_undoes_within_ten_seconds() -> None:
    """`u` removes exactly what the last key started; the footer offers it meanwhile."""
    async with staged() as stage:
        await launched(stage, "1")
        await stage.shows("u undo")
        await stage.press("u")
        await stage.until(lambda: stage.client.asked_for(Undo))
        assert stage.client.asked_for(Undo)[0].runs == ("20261121-120000-demo-new0",)
        await stage.press("u")
        assert len(stage.client.asked_for(Undo)) == 1


async def test_u_is_too_late_after_ten_seconds() -> None:
    """Then it says so, and asks for nothing."""
    async with staged() as stage:
        await launched(stage, "1")
        await stage.until(stage.app.app_context.undoable)
        stage.clock.advance(10.1)
        await stage.press("u")
        await stage.until(lambda: any("nothing to undo" in toast for toast in stage.toasts()))
        assert not stage.client.asked_for(Undo)


async def test_a_key_on_the_first_picture_waits_for_the_presets() -> None:
    """They are read after it; a person who is quicker starts what the key means all the same."""
    async with staged() as stage:
        stage.app.app_context.presets = ()
        await launched(stage, "1")
        await stage.until(lambda: stage.client.asked_for(Launch))


async def test_undo_takes_launches_back_one_by_one() -> None:
    """Two launches are undone newest first."""
    async with staged() as stage:
        await launched(stage, "1")
        await stage.until(lambda: len(stage.client.asked_for(Launch)) == 1)
        await launched(stage, "2")
        await stage.until(lambda: len(stage.app.app_context.undo_stack) == 2)
        await stage.press("u")
        await stage.until(lambda: len(stage.client.asked_for(Undo)) == 1)
        await stage.press("u")
        await stage.until(lambda: len(stage.client.asked_for(Undo)) == 2)
        assert [request.runs[0][16:] for request in stage.client.asked_for(Undo)] == ["fast-new0", "demo-new0"]


async def test_undo_that_found_nobody_still_means_the_same_deed() -> None:
    """While no supervisor answers nothing is taken back, and nothing is forgotten: the next `u` does it."""
    async with staged() as stage:
        await launched(stage, "1")
        await stage.until(stage.app.app_context.undoable)
        stage.client.vanish()
        await stage.press("u")
        await stage.until(lambda: any("no supervisor answers" in toast for toast in stage.toasts()))
        stage.client.come_back()
        await stage.press("u")
        await stage.until(lambda: not stage.app.app_context.undoable())
        assert len(stage.client.asked_for(Undo)) == 2


async def test_a_burst_of_keys_starts_nothing() -> None:
    """Three launch keys at once are a paste or a held key: nothing starts, and the screen says why."""
    async with staged() as stage:
        await launched(stage, "1", "1", "2")
        await stage.until(lambda: any("3 keys at once were ignored" in toast for toast in stage.toasts()))
        assert not stage.client.asked_for(Launch)


async def test_two_quick_keys_start_two_presets_together() -> None:
    """Two keys in a moment are a person's; one `u` takes both back."""
    async with staged() as stage:
        await launched(stage, "1", "2")
        await stage.until(lambda: stage.client.asked_for(Launch))
        (request,) = stage.client.asked_for(Launch)
        assert [item.spec.preset for item in request.items] == ["demo", "fast"]


async def test_a_paste_starts_nothing() -> None:
    """Text pasted into the terminal is not keys."""
    from textual.events import Paste

    async with staged() as stage:
        stage.app.post_message(Paste("1 2 3 P"))
        stage.clock.advance(0.5)
        await stage.pilot.pause(0.2)
        assert not stage.client.asked_by_hand


async def test_a_key_that_no_preset_carries_says_how_to_give_it_one() -> None:
    """`7` names the setting that would make it work."""
    async with staged() as stage:
        await launched(stage, "7")
        await stage.until(lambda: any('key = "7"' in toast for toast in stage.toasts()))
        assert not stage.client.asked_for(Launch)


async def test_a_broken_preset_says_what_is_wrong() -> None:
    """The reason the file cannot be used is shown instead of a start."""
    broken = (PresetChoice("mine", key="5", error="presets/mine.toml: ppo.n_stps: unknown key"),)
    async with staged(presets=broken) as stage:
        await launched(stage, "5")
        await stage.until(lambda: "presets/mine.toml: ppo.n_stps: unknown key" in stage.toasts())
        assert not stage.client.asked_for(Launch)


async def test_warnings_of_a_launch_are_shown() -> None:
    """What will be slow and why comes as a toast of its own."""
    async with staged() as stage:
        stage.client.answers[Launch] = lambda request: Launched(
            re=request.id, runs=stage.client.snapshot.runs[:1], warnings=("16 runs share 2 cores",)
        )
        await launched(stage, "1")
        await stage.until(lambda: "16 runs share 2 cores" in stage.toasts())


async def test_launch_keys_work_on_a_run_screen_too() -> None:
    """A preset can be started from wherever runs are shown."""
    async with staged(a_fleet()) as stage:
        await stage.press("enter")
        await launched(stage, "2")
        await stage.until(lambda: stage.client.asked_for(Launch))


async def test_a_set_of_long_runs_is_started_from_the_list_alone() -> None:
    """On the screen of a run its key names the one that saves the chart; a digit starts its preset there too."""
    async with staged() as stage:
        await stage.press("enter", "P")
        await stage.until(lambda: any("Ctrl-S saves this chart" in toast for toast in stage.toasts()))
        await launched(stage, "1")
        await stage.until(lambda: stage.client.asked_for(Launch), "the launch")
        assert [item.spec.preset for item in stage.client.asked_for(Launch)[0].items] == ["demo"]
