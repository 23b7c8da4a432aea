"""Every screen, and every tab of a run, has its picture in a small and in a tall terminal; a new one fails without."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from textual.screen import Screen

from mission_tui.tui import screens
from mission_tui.tui.screens.run import RunScreen
from mission_tui.tui.screens.sheets import Sheet
from mission_tui.tui.screens.snapshot_screen import SnapshotScreen
from mission_tui.tui.state.fleet_view_state import RUN_TABS
from tests.tui import test_sheet_looks
from tests.tui.test_looks import LOOKS, PICTURED, SMALL, TALL
from tests.tui.test_sheet_looks import SCENES

RECORDED = Path(test_sheet_looks.__file__).parent / "__snapshots__"
BASES = {Sheet, SnapshotScreen}
"""What screens are made from, and nobody sees alone."""


def all_screens() -> set[str]:
    """Every screen of the room by name, the run's own once for each tab."""
    names: set[str] = set()
    for module in pkgutil.iter_modules(screens.__path__, f"{screens.__name__}."):
        for found in vars(importlib.import_module(module.name)).values():
            if isinstance(found, type) and issubclass(found, Screen) and found.__module__ == module.name:
                names |= {f"RunScreen {tab}" for tab in RUN_TABS} if found is RunScreen else {found.__name__}
    return names - {base.__name__ for base in BASES}


def test_every_screen_has_its_two_pictures() -> None:
    """80x24 and 160x50: those of `test_looks` that are named so, or both of a scene."""
    assert (SMALL, TALL) == ((80, 24), (160, 50))
    assert PICTURED.keys() & SCENES.keys() == set()
    assert all_screens() == PICTURED.keys() | SCENES.keys()
    sizes = {subject: (LOOKS[small][0], LOOKS[tall][0]) for subject, (small, tall) in PICTURED.items()}
    assert {subject: pair for subject, pair in sizes.items() if pair != (SMALL, TALL)} == {}


def test_every_picture_is_recorded_and_none_is_left_over() -> None:
    """Of no look that is gone a picture stays."""
    ids = {f"{scene}-{size}" for scene in SCENES for size in ("80x24", "160x50")}
    for folder, looks in (("test_looks", LOOKS.keys()), ("test_sheet_looks", ids)):
        names = {path.stem.partition("[")[2].rstrip("]") for path in (RECORDED / folder).glob("*.raw")}
        assert names == set(looks)
