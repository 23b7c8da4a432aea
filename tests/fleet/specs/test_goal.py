"""`run.goal`: how it can be written, and what is said of what means nothing."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.preset import PresetFile, read_preset, resolve
from mission_tui.fleet.specs.quantity import Goal, parse_goal
from mission_tui.fleet.specs.spec import Spec


@pytest.mark.parametrize(
    ("written", "goal"),
    [
        (475, Goal("return", 475.0)),
        ("-110.5", Goal("return", -110.5)),
        ("reached 475", Goal("return", 475.0)),
        ("success 80%", Goal("success", 0.8)),
        ("reached 80 %", Goal("success", 0.8)),
        ("success 0.8", Goal("success", 0.8)),
        ("80%", Goal("success", 0.8)),
    ],
)
def test_a_goal_is_a_return_or_a_share_of_successes(written: float | str, goal: Goal) -> None:
    """However it is written, it says itself in words that mean the same again."""
    assert parse_goal(written) == goal
    assert parse_goal(goal.words) == goal


@pytest.mark.parametrize(
    ("written", "near"),
    [("soon", "475"), ("success 180%", "'success 100%'"), ("0%", "'success 1%'"), ("nan", "475"), (True, "475")],
)
def test_what_means_no_goal_is_refused_with_the_nearest_that_does(written: float | str, near: str) -> None:
    """One sentence with the key and the value."""
    with pytest.raises(ValueError, match=r"run\.goal = .*") as refused:
        parse_goal(written)
    assert near in str(refused.value)


def spec_of(toml: str, *words: str) -> Spec:
    """The spec of a preset with these lines in its `run` table and these `--set` words."""
    table = tomllib.loads(f'[env]\nid = "CartPole-v1"\n[run]\ntotal_timesteps = 1000\n{toml}')
    file = read_preset(table, Path("mine.toml"))

    def base(name: str) -> PresetFile:
        raise AssertionError(name)

    return resolve(file, base, expand(words)[0] if words else ())


def test_presets_and_set_words_take_a_number_or_words() -> None:
    """A number stays one, whichever way it comes."""
    assert spec_of("goal = 475").run.goal == spec_of("", "run.goal=475").run.goal == 475.0
    assert spec_of('goal = "success 80%"').run.goal == spec_of("", "run.goal=success 80%").run.goal == "success 80%"


def test_a_preset_with_a_goal_that_means_nothing_is_refused() -> None:
    """The error names the file, the key and the value."""
    with pytest.raises(PresetError, match=r"mine\.toml.*run\.goal = 'soon'"):
        spec_of('goal = "soon"')
