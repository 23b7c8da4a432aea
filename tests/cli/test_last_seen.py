"""When one last had a screen of a runs root: it moves forward only, and is never worth failing for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mission_tui.cli.screen import LastSeen


def test_it_only_moves_forward(tmp_path: Path) -> None:
    """Of two screens the one that was seen later counts, whichever is left last; rubbish is no moment."""
    seen = LastSeen.of(tmp_path, {})
    assert seen.read() is None
    seen.write(100.0)
    seen.write(50.0)
    assert seen.read() == 100.0
    seen.path.write_text("not a moment\n")
    assert seen.read() is None
    seen.write(50.0)
    assert seen.read() == 50.0


@pytest.mark.skipif(os.geteuid() == 0, reason="a superuser may write everywhere")
def test_a_colleagues_root_is_remembered_at_home(tmp_path: Path) -> None:
    """Where one may only read, nothing is written beside the runs."""
    root, home = tmp_path / "runs", tmp_path / "home"
    (root / ".supervisor").mkdir(parents=True)
    (root / ".supervisor").chmod(0o500)
    seen = LastSeen.of(root, {"HOME": str(home)})
    seen.write(7.0)
    assert seen.path.is_relative_to(home)
    assert seen.read() == 7.0


def test_a_place_that_cannot_be_written_costs_nothing(tmp_path: Path) -> None:
    """The screen is left all the same."""
    (tmp_path / "file").touch()
    seen = LastSeen(tmp_path / "file" / "last-seen")
    seen.write(7.0)
    assert seen.read() is None
