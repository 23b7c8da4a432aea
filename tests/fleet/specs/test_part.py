"""Classes of the user's own in a spec: how they are written, named, layered, and judged on a resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mission_tui.errors import PresetError
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Change
from mission_tui.fleet.specs.preset import as_tables, change, from_tables, read_preset, resolve
from mission_tui.fleet.specs.spec import Part, Spec, parse_part, part_words

NOISY = {"cls": "a:Noisy", "kwargs": {"scale": 2.0}}
TABLE: dict[str, Any] = {"env": {"id": "CartPole-v1"}, "run": {"total_timesteps": 1000}}


def spec(**tables: dict[str, Any]) -> Spec:
    """A preset with some keys of its tables."""
    table = {name: TABLE.get(name, {}) | tables.get(name, {}) for name in {*TABLE, *tables}}
    return resolve(read_preset(table, Path("presets/my.toml")), pytest.fail)


def test_a_class_is_written_by_name_or_with_its_arguments() -> None:
    """Both in one list; what is kept reads back as it was."""
    made = spec(env={"wrappers": ["a:Plain", NOISY]}, run={"callbacks": [NOISY]})
    assert made.env.wrappers == ("a:Plain", Part(cls="a:Noisy", kwargs={"scale": 2.0}))
    assert from_tables(as_tables(made), "spec.toml") == made
    assert parse_part("a:Plain") == Part(cls="a:Plain")
    assert msgspec.json.decode(msgspec.json.encode(made), type=Spec) == made


def test_a_set_word_takes_the_same_tables() -> None:
    """In TOML, in quotes of the shell."""
    made = change(spec(), ['run.callbacks=[{cls="a:Noisy", kwargs={scale=2.0}}]'])
    assert made.run.callbacks == (Part(cls="a:Noisy", kwargs={"scale": 2.0}),)


@pytest.mark.parametrize(
    ("env", "sentence"),
    [
        ({"wrappers": [{"class": "a:B"}]}, "unknown key env.wrappers[0].class; did you mean 'cls'?"),
        ({"wrappers": [{"kwargs": {}}]}, "env.wrappers[0].cls is missing"),
        (
            {"wrappers": "a:B"},
            "env.wrappers = 'a:B' must be a list in brackets with text or a table of cls, kwargs each",
        ),
        ({"wrappers": [{"cls": ""}]}, "env.wrappers[0].cls"),
        ({"frame_stack": 0}, "env.frame_stack = 0 must be at least 1"),
        ({"frame_stak": 4}, "did you mean 'frame_stack'?"),
    ],
)
def test_what_is_written_wrong_names_its_place(env: dict[str, Any], sentence: str) -> None:
    """The file, the key down to the item, and what is valid there."""
    with pytest.raises(PresetError) as refused:
        spec(env=env)
    assert sentence in str(refused.value)
    assert str(refused.value).startswith("presets/my.toml: ")


def test_words_for_a_class_read_like_a_call() -> None:
    """Arguments by name, classes inside them too; what is no class has none."""
    inner = {"cls": "EvalCallback", "kwargs": {"eval_freq": 5, "callback_on_new_best": NOISY}}
    assert part_words(inner) == "EvalCallback(eval_freq=5, callback_on_new_best=a:Noisy(scale=2.0))"
    assert part_words(Part(cls="a:B")) == "a:B"
    assert [part_words(it) for it in ("a:B", {"cls": 1, "more": 2}, {"cls": "a", "kwargs": 3})] == [None] * 3


def changes(was: Spec, now: Spec) -> dict[str, Change]:
    """The changes of a resume by name."""
    return {it.name: it for it in judge_resume(was, now, ResumeFacts(timesteps=500)).changes}


def test_a_resume_may_change_callbacks_and_may_not_change_frames() -> None:
    """Other callbacks are a note; another number of frames fits no weight; one frame is none."""
    was = spec(env={"frame_stack": 1}, run={"callbacks": [NOISY]})
    assert changes(was, spec(run={"callbacks": [NOISY]})) == {}
    now = changes(was, spec(env={"frame_stack": 4}, run={"callbacks": ["a:Quiet"]}))
    assert {name: it.grade for name, it in now.items()} == {"env.frame_stack": "refuse", "run.callbacks": "note"}
    assert (now["run.callbacks"].was, now["run.callbacks"].now) == ("a:Noisy(scale=2.0)", "a:Quiet")


def test_a_command_takes_no_callbacks() -> None:
    """They are the trainer's own, and nothing of them is kept with a command."""
    with pytest.raises(PresetError, match=r"run\.callbacks is for the built-in trainer"):
        resolve(
            read_preset({"run": {"command": ["true"], "callbacks": ["a:B"]}}, Path("presets/my.toml")),
            pytest.fail,
        )
