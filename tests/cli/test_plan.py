"""What one `launch` makes of its words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mission_tui.cli.launch_price import plan_facts, show_scaling
from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.comparison_sides import cohort_key
from mission_tui.fleet.specs.spec import command_words

TINY = """
description = "tiny"
[env]
id = "CartPole-v1"
n_envs = 4
[ppo]
n_steps = 64
batch_size = 64
[run]
total_timesteps = 1024
"""


@pytest.fixture
def presets(tmp_path: Path) -> tuple[Path, ...]:
    """A folder with two presets and the set of both."""
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "small.toml").write_text(TINY)
    (tmp_path / "both.toml").write_text('launch = ["tiny", "small"]\n')
    return (tmp_path,)


def test_one_word_is_one_run_without_group_or_name(presets: tuple[Path, ...]) -> None:
    """A single run belongs to no group, and its name is left to the supervisor."""
    (item,) = planned(LaunchArguments(("tiny",)), presets).items
    assert (item.spec.preset, item.name, item.group) == ("tiny", None, None)


def test_every_combination_becomes_a_run(presets: tuple[Path, ...]) -> None:
    """Presets, comma-separated values, seeds and copies multiply: all of the first seed, then those of the next."""
    wish = LaunchArguments(("tiny", "small"), copies=2, assignments=("ppo.gamma=0.9,0.99",), seeds=(1, 2, 3))
    items = planned(wish, presets).items
    assert len(items) == 2 * 2 * 2 * 3
    assert {(it.spec.preset, it.spec.ppo.gamma, it.spec.run.seed) for it in items} == {
        (preset, gamma, seed) for preset in ("tiny", "small") for gamma in (0.9, 0.99) for seed in (1, 2, 3)
    }
    assert [it.spec.run.seed for it in items] == [1] * 8 + [2] * 8 + [3] * 8
    assert [it.spec.preset for it in items[:8]] == ["tiny"] * 4 + ["small"] * 4


def test_what_is_set_takes_its_place_in_a_command() -> None:
    """`{lr}` and `{seed}`; other braces are the command's own, and settings of the run are still settings."""
    command = ("python", "train.py", "--lr", "{lr}", "--out=runs/{lr}-{seed}", "{x}", "${HOME}")
    wish = LaunchArguments((), command=command, assignments=("lr=1e-3,0.0030", "run.env.A=1", "x=a b"), seeds=(1, 2))
    items = planned(replace(wish, at_once=2), ()).items
    assert [command_words(it.spec.run)[3:] for it in items] == [
        (lr, f"--out=runs/{lr}-{seed}", "a b", "${HOME}") for seed in (1, 2) for lr in ("1e-3", "0.0030")
    ]
    assert all(it.spec.run.env == {"A": "1"} and it.spec.keep.limits.group_runs == 2 for it in items)
    assert {cohort_key(it.spec) for it in items} == {cohort_key(it.spec) for it in items[:2]}
    assert len({cohort_key(it.spec) for it in items}) == 2


@pytest.mark.parametrize(
    ("words", "seeds", "sentence"),
    [
        (("lrr=1",), (1,), r"the command has no \{lrr\} to put it in \(it has \{lr\}, \{seed\}\)"),
        (("lr=1",), (), r"the command has \{seed\}: say which with --seed S"),
        (("lr=1", "seed=4"), (), "the seed has options of its own"),
    ],
)
def test_a_placeholder_that_cannot_be_filled_is_named(
    words: tuple[str, ...], seeds: tuple[int, ...], sentence: str
) -> None:
    """Nothing is launched with braces in its words by mistake."""
    wish = LaunchArguments((), command=("python", "train.py", "{lr}", "{seed}"), assignments=words, seeds=seeds)
    with pytest.raises(UsageError, match=sentence):
        planned(wish, ())


def test_several_runs_of_one_launch_share_one_group(presets: tuple[Path, ...]) -> None:
    """A set's runs have one group, named for the set and never that of another launch."""
    first, second = (planned(LaunchArguments(("both",)), presets).items for _ in range(2))
    assert [it.spec.preset for it in first] == ["tiny", "small"]
    assert len({it.group for it in first}) == 1
    assert (first[0].group or "").startswith("both-")
    assert first[0].group != second[0].group


def test_a_group_may_be_named(presets: tuple[Path, ...]) -> None:
    """For one run as for several, so that a later launch can join an earlier one; a name that is none is refused."""
    for copies in (1, 2):
        items = planned(LaunchArguments(("tiny",), copies=copies, group="sweep-1"), presets).items
        assert [it.group for it in items] == ["sweep-1"] * copies
    with pytest.raises(UsageError, match="group name"):
        planned(LaunchArguments(("tiny",), group="../x"), presets)


def test_names_of_several_runs_are_numbered(presets: tuple[Path, ...]) -> None:
    """`--name` with several runs appends -1 to -N."""
    assert [it.name for it in planned(LaunchArguments(("tiny",), copies=3, name="base"), presets).items] == [
        "base-1",
        "base-2",
        "base-3",
    ]
    assert [it.name for it in planned(LaunchArguments(("tiny",), name="base"), presets).items] == ["base"]


@pytest.mark.parametrize("name", ["../x", "", ".hidden", "-x", "a/b", "x" * 300, "a\nb", "nul\0", "é"])
def test_names_that_are_no_names_are_refused(presets: tuple[Path, ...], name: str) -> None:
    """A name that could leave its folder or confuse a shell is a usage error."""
    with pytest.raises(UsageError, match="run name"):
        planned(LaunchArguments(("tiny",), name=name), presets)


def test_a_name_too_long_once_numbered_is_refused(presets: tuple[Path, ...]) -> None:
    """The numbered name is what must fit, not the word before it."""
    with pytest.raises(UsageError, match="run name"):
        planned(LaunchArguments(("tiny",), copies=2, name="x" * 64), presets)


def test_more_runs_than_anyone_means_are_refused(presets: tuple[Path, ...]) -> None:
    """A slip that multiplies into a hundred runs starts none."""
    with pytest.raises(UsageError, match="72 runs at once"):
        planned(LaunchArguments(("tiny",), copies=8, seeds=tuple(range(9))), presets)


def test_no_preset_is_a_usage_error(presets: tuple[Path, ...]) -> None:
    """`launch` without a word says where presets are listed."""
    with pytest.raises(UsageError, match="mission-tui presets"):
        planned(LaunchArguments(()), presets)


def test_a_path_is_a_preset_and_takes_assignments(presets: tuple[Path, ...]) -> None:
    """A file outside the presets folders works like a name; an unknown key names the nearest."""
    path = str(presets[0] / "tiny.toml")
    (item,) = planned(LaunchArguments((path,), assignments=("ppo.n_steps=128",)), ()).items
    assert item.spec.ppo.n_steps == 128
    with pytest.raises(PresetError, match="n_steps"):
        planned(LaunchArguments((path,), assignments=("ppo.n_stpes=1",)), ())


def test_the_plan_shows_what_differs(presets: tuple[Path, ...]) -> None:
    """A list in brackets is one value; what all runs have in common is not in the plan, their seeds are."""
    words = ("ppo.net_arch=[64,64],[32]", "ppo.gamma=0.9")
    facts = plan_facts(planned(LaunchArguments(("tiny",), name="nets", assignments=words, seeds=(1, 2)), presets).items)
    assert [(run["name"], run["settings"], run["seed"]) for run in facts["runs"]] == [
        ("nets-1", {"ppo.net_arch": [64, 64]}, 1),
        ("nets-2", {"ppo.net_arch": [32]}, 1),
        ("nets-3", {"ppo.net_arch": [64, 64]}, 2),
        ("nets-4", {"ppo.net_arch": [32]}, 2),
    ]
    assert facts["group"].startswith("nets-")


def test_too_many_runs_are_refused_with_their_factors(presets: tuple[Path, ...]) -> None:
    """The sentence says what is multiplied, so that one sees which to shorten."""
    wish = LaunchArguments(("tiny", "small"), assignments=("ppo.gamma=0.9,0.99,0.95",), seeds=tuple(range(12)))
    with pytest.raises(
        UsageError, match=r"72 runs at once \(2 presets x 3 of ppo.gamma x 12 seeds\), and 64 is the most"
    ):
        planned(wish, presets)


def test_auto_scaling_is_shown_before_and_after(presets: tuple[Path, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Once for all seeds of a preset that has it on, with the rate that is only proposed; nothing where it is off."""
    words = ("env.n_envs=2048", "ppo.n_steps=128", "ppo.learning_rate=2.5e-4", "ppo.batch_size=none")
    on = planned(LaunchArguments(("tiny",), assignments=(*words, "run.auto_scale=True"), seeds=(1, 2)), presets).items
    show_scaling(on)
    said = capsys.readouterr().err
    table = {line.split("  ")[0]: line.split() for line in said.splitlines()}
    assert table["one update"][-3:] == ["reference", "without", "auto-scaled"]
    assert table["ppo.batch_size"][-3:] == ["8,192", "64", "8,192"]
    assert table["gradient steps"][-3:] == ["16", "40,960", "64"]
    assert said.count("one update") == 1
    assert "it is only proposed: --set ppo.learning_rate=6.25e-05" in said
    show_scaling(planned(LaunchArguments(("tiny",), assignments=(*words, "run.auto_scale=False")), presets).items)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("word", "value"),
    [("run.total_timesteps=2M", 2_000_000), ("run.duration_s=10m", 600.0), ("run.duration_s=90", 90.0)],
)
def test_steps_and_seconds_take_units(presets: tuple[Path, ...], word: str, value: float) -> None:
    """`2M` steps, `10m` seconds, a bare number of either."""
    key = word.partition("=")[0]
    other = "run.total_timesteps=none" if "duration" in key else "run.duration_s=none"
    plan = planned(LaunchArguments(("tiny",), assignments=(word, other)), presets)
    assert getattr(plan.items[0].spec.run, key.partition(".")[2]) == value


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("slurm.warn_s=2m", 120),
        ("slurm.warn_s=90", 90),
        ("keep.checkpoint.every_s=1.5h", 5400.0),
        ("keep.checkpoint.every_steps=200k", 200_000),
        ("evaluate.every=50k", 50_000),
        ("keep.limits.ram_free=8G", 8_000_000_000),
        ("keep.limits.disk_free=1.5GB", 1_500_000_000),
        ("keep.limits.vram_free=2GiB", 2 << 30),
        ("ray.memory=512MiB", 512 << 20),
        ("ray.memory=8e9", 8_000_000_000),
    ],
)
def test_units_are_those_of_the_setting(presets: tuple[Path, ...], word: str, value: float) -> None:
    """`2m` are minutes of a setting of seconds, whole numbers too, and `8G` or `8GiB` bytes of one of bytes."""
    found: object = planned(LaunchArguments(("tiny",), assignments=(word,)), presets).items[0].spec
    for name in word.partition("=")[0].split("."):
        found = getattr(found, name)
    assert found == value


def test_a_size_in_an_unknown_unit_is_refused(presets: tuple[Path, ...]) -> None:
    """With sizes that would do."""
    with pytest.raises(PresetError, match=r"ram_free = '2x' must be a whole number, such as 8G or 8GiB"):
        planned(LaunchArguments(("tiny",), assignments=("keep.limits.ram_free=2x",)), presets)


def test_a_time_in_an_unknown_unit_is_refused(presets: tuple[Path, ...]) -> None:
    """The refusal names the key and values that would do."""
    with pytest.raises(PresetError, match=r"run.duration_s = '10x' must be a finite number, such as 600 or 10m"):
        planned(LaunchArguments(("tiny",), assignments=("run.duration_s=10x",)), presets)
