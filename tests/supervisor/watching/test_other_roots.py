"""Two supervisors of one user know of each other: whose runs root it is, and how many runs go on there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mission_tui.fleet.views.snapshot import OtherRoot
from mission_tui.paths import socket_dir
from tests.supervisor.conftest import Lab, opened_lab
from tests.waiting import until

pytestmark = pytest.mark.slow


@pytest.fixture
def neighbour(tmp_path: Path) -> Iterator[Lab]:
    """A second runs root with a supervisor of its own."""
    with opened_lab(tmp_path / "neighbour") as made:
        made.start()
        yield made


def seen(lab: Lab, other: Lab) -> list[OtherRoot]:
    """What `lab` says of the runs root of `other`."""
    return [root for root in lab.snapshot().elsewhere if root.root == str(other.root)]


def test_another_live_root_is_named_with_its_runs_until_its_supervisor_is_gone(lab: Lab, neighbour: Lab) -> None:
    """Its count follows what is launched there; a killed supervisor is not named any more."""
    until(lambda: seen(lab, neighbour) == [OtherRoot(str(neighbour.root), 0)], 20, "the neighbour is named")
    (run,) = neighbour.launch()
    neighbour.running(run)
    until(lambda: seen(lab, neighbour) == [OtherRoot(str(neighbour.root), 1)], 20, "its run is counted")
    assert [root for root in neighbour.snapshot().elsewhere if root.root == str(neighbour.root)] == []
    neighbour.kill_supervisor()
    until(lambda: seen(lab, neighbour) == [], 20, "the dead one is not named")


def test_what_a_killed_supervisor_left_is_swept_once_it_is_old(lab: Lab, neighbour: Lab) -> None:
    """After an hour without a listener another supervisor that starts removes the folder, not before."""
    import os

    folder = socket_dir(neighbour.root)
    neighbour.kill_supervisor()
    lab.kill_supervisor()
    lab.start()
    assert (folder / "root").exists()
    lab.kill_supervisor()
    os.utime(folder, (1e9, 1e9))
    lab.start()
    assert not folder.exists()
