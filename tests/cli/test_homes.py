"""Homes that are not there, or not this user's: no HOME, one that may not be entered, one that may not be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mission_tui.paths import home_dir
from tests.other_user import NOBODY, as_nobody, needs_another_user, shared_folder

PRINTS_IT = "import os; from mission_tui.paths import home_dir; print(home_dir(os.environ))"


@pytest.fixture
def ground() -> Iterator[Path]:
    """A folder of `nobody` that holds a home which only its owner, root, may enter, and one that nobody may write."""
    with shared_folder() as folder:
        os.chown(folder, NOBODY, NOBODY)
        (folder / "closed").mkdir(mode=0o700)
        (folder / "unwritable").mkdir(mode=0o755)
        yield folder


def _as_nobody(ground: Path, home: str | None, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("MISSION_TUI", "XDG_", "HOME"))
    }
    environ |= {"MISSION_TUI_LEDGER": "off"} if home is None else {"MISSION_TUI_LEDGER": "off", "HOME": home}
    return subprocess.run(as_nobody(*words), cwd=ground, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.process
@needs_another_user
@pytest.mark.parametrize("home", [None, "closed", "unwritable", "missing"])
def test_every_home_will_do(ground: Path, home: str | None) -> None:
    """`presets` and `health` read what a home may hold, and none of these is a traceback."""
    chosen = None if home is None else str(ground / home)
    for words in (("presets",), ("launch", "cartpole", "--dry-run")):
        done = _as_nobody(ground, chosen, "-m", "mission_tui", "--runs-dir", str(ground / "runs"), *words)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.process
@needs_another_user
def test_a_home_that_may_not_be_entered_is_not_ones_own(ground: Path) -> None:
    """As under `sudo -u` that keeps HOME: the user database says where one's own is."""
    closed, open_ = (
        _as_nobody(ground, str(ground / name), "-c", PRINTS_IT).stdout for name in ("closed", "unwritable")
    )
    assert closed.strip() != str(ground / "closed")
    assert open_.strip() == str(ground / "unwritable")


def test_home_is_what_the_variable_says(tmp_path: Path) -> None:
    """Also where it is not there yet; without the variable the user database is asked."""
    assert home_dir({"HOME": str(tmp_path)}) == tmp_path
    assert home_dir({"HOME": str(tmp_path / "later")}) == tmp_path / "later"
    assert home_dir({}).is_absolute()
