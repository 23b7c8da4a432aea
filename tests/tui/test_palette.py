"""The palette finds commands and settings by what people call them, and the help explains signs and numbers."""

from __future__ import annotations

import pytest

from mission_tui.ipc.requests import Set
from mission_tui.tui.screens.questions import Choices, LineInputScreen, Picker
from mission_tui.tui.screens.verdict import VerdictScreen
from mission_tui.tui.state.presets import PresetChoice
from tests.tui.fleets import a_fleet, a_run
from tests.tui.stage import Stage, staged


async def found(stage: Stage, words: str) -> list[str]:
    """The choices that typing `words` into the palette leaves."""
    await stage.press("colon")
    await stage.until(lambda: isinstance(stage.screen, Picker))
    await stage.press(*(" " if it == " " else it for it in words.replace(" ", "\0").split("\0")[0]))
    for rest in words.split(" ")[1:]:
        await stage.press("space", *rest)
    labels = [choice.label for choice in stage.screen.query_one(Choices).choices]
    await stage.press("escape")
    return labels


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ("delete", "remove"),
        ("restart", "resume"),
        ("quit", "leave"),
        ("theme", "colours"),
        ("learning rate", "ppo.learning_rate"),
        ("entropy", "ppo.ent_coef"),
        ("save", "checkpoint"),
    ],
)
async def test_what_people_call_it_finds_it(words: str, label: str) -> None:
    """`delete` is `remove` here, and `quit` is `leave`."""
    async with staged() as stage:
        assert label in await found(stage, words)


async def test_a_whole_name_is_first() -> None:
    """Enter after `demo` does not start `demo-mine`, which stands above it."""
    async with staged(presets=(PresetChoice("demo-mine"), PresetChoice("demo"))) as stage:
        assert (await found(stage, "demo"))[:2] == ["start demo", "start demo-mine"]


async def test_a_setting_that_is_taken_is_begun_for_the_chosen_run() -> None:
    """Its line waits for the value; what that does is shown before it is set."""
    async with staged() as stage:
        await stage.press("colon", *"learning", "space", *"rate", "enter")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.shows("ppo.learning_rate=")
        await stage.press(*"1e-4", "enter")
        await stage.until(lambda: isinstance(stage.screen, VerdictScreen))
        assert stage.client.asked_for(Set)[-1].assignments == ("ppo.learning_rate=1e-4",)


async def test_the_help_explains_signs_and_numbers() -> None:
    """Each shape of a state, an end and a severity, and the short names of metrics; actions stand there by name."""
    async with staged(size=(100, 90)) as stage:
        await stage.press("question_mark")
        await stage.shows("pause: hold at the next update")
        await stage.press("end")
        for said in (
            "◐",
            "⊘",
            "ended: killed",
            "▲",
            "warning: look at it",
            "explained variance: 1 where",
            "entropy over",
        ):
            await stage.shows(said)


async def test_settings_of_the_palette_are_those_of_the_chosen_runs_algorithm() -> None:
    """What a run takes while it trains, and what a resume changes; another algorithm's are not offered."""
    async with staged(a_fleet((a_run("walker", algo="sac"),))) as stage:
        assert {"sac.learning_rate", "sac.gamma"} <= set(await found(stage, "setting"))
        assert not [label for label in await found(stage, "setting") if label.startswith("ppo.")]
        assert "sac.policy" not in await found(stage, "policy")


async def test_a_setting_that_only_a_resume_changes_is_begun_on_its_line() -> None:
    """`gamma` is found, and leads to what `R` asks."""
    async with staged() as stage:
        await stage.press("colon", *"gamma", "enter")
        await stage.until(lambda: isinstance(stage.screen, LineInputScreen))
        await stage.shows("with other settings")
        await stage.shows("ppo.gamma=")
