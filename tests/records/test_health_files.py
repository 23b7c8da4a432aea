"""Health files on disk: the shipped one says the defaults and nothing else, the user's may be absent but not broken."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.health_file import PROFILES
from mission_tui.fleet.specs.thresholds import HealthKeep, Limits
from mission_tui.paths import health_files
from mission_tui.records.given_files import read_toml
from mission_tui.records.preset_files import load_health, load_health_file

SHIPPED = health_files({})[-1]


def test_the_shipped_file_says_every_default_exactly() -> None:
    """Each rule and each threshold of `limits.py` stands in health.toml, in its order and with its value."""
    written = read_toml(SHIPPED)
    written.pop("profile")
    default = Limits()
    expected = {
        rule.encode_name: {
            field.encode_name: getattr(getattr(default, rule.name), field.name)
            for field in structs.fields(getattr(default, rule.name))
        }
        for rule in structs.fields(Limits)
    }
    assert written == expected
    assert list(written) == list(expected)


def test_every_threshold_is_explained() -> None:
    """Each line of the shipped file that sets a number has a comment."""
    lines = SHIPPED.read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if re.match(r"[a-z_]+ = [\d.-]", line) and "#" not in line]
    assert bare == []


def test_the_shipped_profiles_are_used_and_differ() -> None:
    """Both profiles exist, and neither repeats a default."""
    file = load_health_file(SHIPPED)
    assert set(file.profiles) == set(PROFILES)
    assert file.limits() == HealthKeep()
    for profile in file.profiles.values():
        for rule, thresholds in profile.items():
            default = msgspec.to_builtins(getattr(Limits(), rule.replace("-", "_")))
            assert isinstance(thresholds, dict)
            assert thresholds
            assert [key for key, value in thresholds.items() if default.get(key, ...) == value] == []


def test_the_users_file_comes_first_and_may_be_absent(tmp_path: Path) -> None:
    """`$XDG_CONFIG_HOME/mission-tui/health.toml` lies over the shipped file where it exists."""
    paths = health_files({"XDG_CONFIG_HOME": str(tmp_path)})
    assert [file.path for file in load_health(paths)] == [SHIPPED]
    paths[0].parent.mkdir()
    paths[0].write_text("[stall]\nevery = 4\n")
    own, shipped = load_health(paths)
    assert (own.keep, shipped.path) == ({"stall": {"every": 4}}, SHIPPED)


@pytest.mark.parametrize("text", ["[stall\n", "[stall]\nevry = 1\n", "\xff\xfe"])
def test_a_broken_file_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    """A file that cannot be used is never passed over, because its limits would silently not count."""
    path = tmp_path / "health.toml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(PresetError, match=rf"^{re.escape(str(path))}: "):
        load_health((path,))


def test_a_link_to_nowhere_is_an_error_too(tmp_path: Path) -> None:
    """Somebody meant there to be a file."""
    path = tmp_path / "health.toml"
    path.symlink_to(tmp_path / "nowhere.toml")
    with pytest.raises(PresetError, match="cannot be read"):
        load_health((path,))
