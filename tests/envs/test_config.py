"""Missions on disk: shipped ones load, copies of their files are missions, and every mistake is named."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from mission_tui.envs import load_mission, mission_files, shipped_missions
from mission_tui.errors import PresetError


@pytest.mark.parametrize("name", ["standard", "demo"])
def test_a_copy_of_the_files_is_the_same_mission(name: str, tmp_path: Path) -> None:
    """What `mission_files` lists is all there is: the copied folder loads to an equal mission."""
    for path in mission_files(name):
        shutil.copy(path, tmp_path)
    assert load_mission(tmp_path) == load_mission(str(tmp_path)) == load_mission(name)


def test_shipped_missions_follow_the_published_figures() -> None:
    """The standard game has a 200 m field, 20 Hz physics, 4 Hz decisions, 300 s and both classes of attackers."""
    assert shipped_missions() == ["demo", "standard"]
    mission = load_mission()
    assert (mission.world.width_m, mission.world.height_m) == (200, 200)
    assert (mission.rules.physics_hz, mission.rules.decision_hz, mission.ticks_per_decision) == (20, 4, 5)
    assert mission.rules.time_limit_s == 300
    assert mission.rewards.shaping == "best_so_far"
    for name in shipped_missions():
        assert set(load_mission(name).units.attackers) == {"ground", "air"}
        assert load_mission(name).rules.winning == ("captured", "early_success")


@pytest.mark.parametrize(
    ("stem", "old", "new", "complaint"),
    [
        ("rules", "capture_s =", "captur_s =", r"rules\.toml: unknown key 'captur_s'; did you mean 'capture_s'\?"),
        ("rules", "stall_s = 15", "", r"rules\.toml: key 'stall_s' is missing"),
        ("rules", "physics_hz = 20", 'physics_hz = "20"', r"rules\.toml: 'physics_hz' must be a whole number"),
        ("rules", "physics_hz = 20", "physics_hz = 21", r"'physics_hz' must be a whole multiple"),
        ("rules", "capture_s = 8", "capture_s = -8", r"rules\.toml: 'capture_s' must be above 0, found -8"),
        ("rules", '["captured",', '["capturd",', r"'winning\[0\]' must be one of captured, .*did you mean 'captured'"),
        ("rewards", "step_cost = 0.01", "step_cost = nan", r"rewards\.toml: 'step_cost' must be a finite number"),
        ("rewards", '"best_so_far"', '"best"', r"rewards\.toml: 'shaping' must be one of two_way, one_way"),
        ("rewards", "timeout = -1", "timeout = true", r"rewards\.toml: 'outcome\.timeout' must be a finite number"),
        ("units", '["ground", "ground", "air"]', '["air", "ground"]', r"units\.toml: 'attackers' must name"),
        ("units", '["ground", "ground", "air"]', '"air"', r"units\.toml: 'attackers' must be a list"),
        ("world", "centre_m = [140, 100]", "centre_m = [140]", r"world\.toml: 'zone\.centre_m' must be a list of 2"),
        ("world", "centre_m = [140, 100]", "centre_m = [195, 100]", r"world\.toml: 'zone' can reach outside"),
        ("world", "low_m = [70, 80]", "low_m = [30, 80]", r"world\.toml: 'spawn' touches 'obstacles\[0\]'"),
        ("world", "width_m = 200", "width_m = ", r"world\.toml: not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, stem: str, old: str, new: str, complaint: str) -> None:
    """One wrong line is refused with the file, the key and what would be right."""
    for path in mission_files("demo"):
        shutil.copy(path, tmp_path)
    file = tmp_path / f"{stem}.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PresetError, match=complaint):
        load_mission(tmp_path)


def test_unknown_missions_and_partial_folders_are_named(tmp_path: Path) -> None:
    """A misspelt mission gets the nearest name, a folder without its files the first missing one."""
    with pytest.raises(PresetError, match="did you mean 'standard'"):
        load_mission("standrd")
    with pytest.raises(PresetError, match=r"world\.toml: file is missing"):
        load_mission(tmp_path)


def test_overrides_replace_single_keys() -> None:
    """Nested keys are replaced one by one; what the override does not name stays."""
    mission = load_mission("demo", {"rewards": {"step_cost": 0, "outcome": {"timeout": -7}}})
    shipped = load_mission("demo")
    assert (mission.rewards.step_cost, mission.rewards.outcome.timeout) == (0.0, -7.0)
    assert mission.rewards.outcome.captured == shipped.rewards.outcome.captured
    assert mission.world == shipped.world


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"reward": {}}, "unknown file 'reward'; did you mean 'rewards'"),
        ({"rewards": {"stepcost": 0}}, "with overrides: unknown key 'stepcost'; did you mean 'step_cost'"),
        ({"rewards": 3}, "with overrides must be a table, found 3"),
    ],
)
def test_wrong_overrides_are_named(overrides: dict[str, Any], complaint: str) -> None:
    """An override is checked like a file."""
    with pytest.raises(PresetError, match=complaint):
        load_mission("demo", overrides)
