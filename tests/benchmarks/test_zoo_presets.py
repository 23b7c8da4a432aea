"""The RL zoo's settings as presets: made of its values, valid, listed apart; and what the page says of its rows."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import pytest

from benchmarks.zoo.presets import PRESETS, preset_name, read_settings, zoo_presets
from benchmarks.zoo.published import Published
from benchmarks.zoo.whole_table import TITLE, apart, section, with_section
from mission_tui.cli.plan import LaunchArguments, planned, resolved
from mission_tui.errors import UsageError
from mission_tui.fleet.specs.env_ids import PLAIN_PACKAGES, package_of
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec
from mission_tui.paths import preset_dirs
from mission_tui.records.preset_files import find_presets, find_zoo_presets, load_preset

DIRS = preset_dirs(Path("/nowhere"), {})
NAMES = sorted(path.stem for path in PRESETS.glob("*.toml"))


def spec_of(name: str, *assignments: str) -> Spec:
    """The spec that a launch of the preset would have."""
    (item,) = planned(LaunchArguments((name,), assignments=assignments), DIRS).items
    return item.spec


def test_they_are_what_the_zoos_values_make() -> None:
    """The files in `presets/zoo` are those that `make zoo-presets` writes, no more and none else."""
    made = {each.name: each.text for each in zoo_presets(read_settings())}
    assert made == {path.stem: path.read_text(encoding="utf-8") for path in PRESETS.glob("*.toml")}


def test_each_is_a_preset_that_launches() -> None:
    """Its settings are checked as a launch checks them, and its environment is one that Gymnasium makes today, or one
    of a package that the preset imports and, where no extra brings it, names.
    """
    for name, preset in find_zoo_presets(DIRS).items():
        spec = resolved(preset, [], None, DIRS, ())
        package = package_of(spec.env.id)
        assert package in spec.env.imports if package else spec.env.id in gymnasium.registry, name
        assert (f"pip install {package}" in spec.description) == (package in PLAIN_PACKAGES), name
        assert plan_batch(spec).batch_size <= spec.env.n_envs * spec.ppo.n_steps, name


@pytest.mark.parametrize("plain", ["cartpole", "pendulum", "acrobot", "mountaincar", "lunarlander"])
def test_what_was_measured_by_another_name_is_the_same(plain: str) -> None:
    """The presets that `make zoo` trained have the settings of the zoo's file, so their figures hold for these too."""
    one, other = spec_of(plain, "run.seed=1"), spec_of(f"zoo-{plain}", "run.seed=1", "env.vec=inline")
    assert (one.env, one.ppo, one.run) == (other.env, other.ppo, other.run)


def test_they_are_listed_apart() -> None:
    """A newcomer's list has none of them, each is found by its name, and a slip of it is answered with the nearest."""
    found, _ = find_presets(DIRS)
    assert not [name for name in found if name.startswith("zoo")]
    assert sorted(find_zoo_presets(DIRS)) == NAMES
    assert load_preset("shipped:zoo-walker2d", DIRS).origin == "shipped"
    with pytest.raises(UsageError, match="did you mean 'zoo-halfcheetah'"):
        load_preset("zoo-halfchetah", DIRS)


@pytest.mark.parametrize(
    ("env_id", "name"),
    [
        ("HalfCheetah-v4", "zoo-halfcheetah"),
        ("AntBulletEnv-v0", "zoo-ant-bullet"),
        ("PongNoFrameskip-v4", "zoo-pong"),
        ("BipedalWalkerHardcore-v3", "zoo-bipedalwalker-hardcore"),
        ("MountainCarContinuous-v0", "zoo-mountaincar-continuous"),
        ("MiniGrid-DoorKey-5x5-v0", "zoo-minigrid-doorkey-5x5"),
    ],
)
def test_names_are_those_that_one_would_type(env_id: str, name: str) -> None:
    """Small letters, without versions."""
    assert preset_name(env_id) == name


def test_standard_errors_decide() -> None:
    """A mean as far below as two standard errors of the difference is met, one further below is not; equals are met
    also where neither scatters.
    """
    published = Published(100.0, 30.0, 900)
    assert apart(published, [98.0, 98.0, 98.0]) == pytest.approx(-2.0)
    assert apart(Published(500.0, 0.0, 300), [500.0, 500.0]) == 0.0
    assert apart(Published(500.0, 0.0, 300), [499.0, 499.0]) == float("-inf")


def test_the_page_names_every_row(tmp_path: Path) -> None:
    """Trained ones with what they came to, others with the reason; the part is replaced, and what follows it stays."""
    kept = tmp_path / "zoo.json"
    means = [-110.0, -111.0, -112.0]
    done = [
        {"name": "", "run": "", "attempts": 1, "trained_s": 1.0, "evaluation": {"mean": mean, "std": 1.0}}
        for mean in means
    ]
    task = {"task": "MountainCar-v0", "processor": "AMD", "names": [], "done": done, "courses": [], "best": []}
    kept.write_text(json.dumps({"tasks": [task], "agents": []}))
    published = {"MountainCar-v0": Published(-110.4, 19.5, 1358), "HalfCheetah-v3": Published(5819.1, 663.5, 150)}
    said = section(published, {each.zoo_env: each for each in zoo_presets(read_settings())}, kept)
    assert "| MountainCar-v0 | `zoo-mountaincar` | 1,000,000 | -110.4 ± 0.5 | -111.0 ± 0.6 (3 seeds, AMD) |" in said
    assert "| HalfCheetah-v3 | `zoo-halfcheetah` | 1,000,000 |" in said
    assert "never tried: 5,000,000 steps for 5 seeds" in said
    page = "# Page\n\n## Published agents, played here\n\nEnd.\n"
    twice = with_section(with_section(page, said), said)
    assert twice.count(TITLE) == 1
    assert twice.endswith("## Published agents, played here\n\nEnd.\n")
    assert twice.startswith("# Page\n\n## The whole table")


def test_the_page_is_of_today() -> None:
    """It lists every preset that is there."""
    text = (Path(__file__).parents[2] / "docs" / "zoo.md").read_text(encoding="utf-8")
    assert [name for name in NAMES if f"`{name}`" not in text] == []
