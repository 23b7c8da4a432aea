"""Tests see nothing of who started them: no variable, no file of a user changes what they find."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.paths import health_files, limits_files, preferences_path, runs_root

ROOT = Path(__file__).parents[2]
HERE = "tests/house/test_outside.py::test_a_test_sees_its_own_folders_only"
pytestmark = pytest.mark.timeout(300)
PRESETS = "tests/cli/test_judge.py::test_a_preset_says_the_settings"
COLOURS = "tests/tui/test_colours.py::test_nothing_written_has_the_colour_of_its_ground_with_16_colours"


def test_a_test_sees_its_own_folders_only() -> None:
    """State, settings and runs root lie in a temporary folder that all tests of a session share."""
    folders = {Path(os.environ[f"XDG_{kind}_HOME"]).parent for kind in ("CONFIG", "STATE", "CACHE", "DATA")}
    (own,) = folders
    assert own.is_dir()
    assert own.parent == Path(tempfile.gettempdir())
    mine = [preferences_path(os.environ), health_files(os.environ)[0], limits_files(os.environ)[0]]
    assert all(path.is_relative_to(own) for path in (*mine, runs_root(None, Path("/"), os.environ)))
    assert {name for name in os.environ if name.startswith("MISSION_TUI")} <= {
        "MISSION_TUI_LEDGER",
        "MISSION_TUI_NIGHT",
        "MISSION_TUI_PRELOAD",
    }
    assert {"NO_COLOR", "COLUMNS", "LC_ALL", "GIT_DIR"} & os.environ.keys() == set()
    assert Path(os.environ.get("SB3_LOGDIR", "/")).parent == own, "where a `learn` without a logger makes a folder"


@pytest.mark.slow
def test_a_hostile_outside_changes_no_test(tmp_path: Path) -> None:
    """Broken files of the user, another runs root, no colours, no UTF-8, a hook of git: the same tests pass."""
    broken = tmp_path / "config" / "mission-tui"
    broken.mkdir(parents=True)
    for name in ("health.toml", "limits.toml"):
        (broken / name).write_text("broken = [")
    outside = {
        "MISSION_TUI_RUNS": "/proc/nowhere",
        "MISSION_TUI_THEME": "light",
        "MISSION_TUI_IDLE_S": "soon",
        "XDG_CONFIG_HOME": str(broken.parent),
        "XDG_STATE_HOME": "/proc/nowhere",
        "NO_COLOR": "1",
        "LANG": "C",
        "LC_ALL": "C",
        "COLUMNS": "20",
        "TERM": "dumb",
        "GIT_DIR": "/proc/nowhere",
    }
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", HERE, COLOURS, PRESETS]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=os.environ | outside, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_examples_do_not_depend_on_the_tests_before(tmp_path: Path) -> None:
    """The same property draws the same examples, also when a module with other constants was loaded in between."""
    drawn: list[tuple[int, float, str]] = []

    @settings(max_examples=200, parent=settings.get_profile("repeat"))
    @given(st.integers(), st.floats(allow_nan=False), st.text())
    def draw(number: int, size: float, word: str) -> None:
        drawn.append((number, size, word))

    draw()
    first = drawn[:]
    module = tmp_path / "constants.py"
    module.write_text(f"NUMBERS = {[*range(70_001, 70_400)]}\nSIZES = (1.25, 7.75)\nWORD = 'a word of our own'\n")
    spec = importlib.util.spec_from_file_location("constants_of_a_test", module)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[spec.name] = loaded = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(loaded)
        drawn.clear()
        draw()
    finally:
        del sys.modules[spec.name]
    assert drawn == first
