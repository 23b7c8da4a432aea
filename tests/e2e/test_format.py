"""Directories recorded by earlier formats stay readable: shown, verified, and resumed from.

`fixtures/format-1` was recorded by a real run: attempt 1 was killed by SIGKILL twelve updates in, attempt 2 went on
from the checkpoint of update 8 and finished. Its launch orders had their paths and environment replaced.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mission_tui.records.runs.checkpoint import list_checkpoints, verify_checkpoint
from tests.shell import Shell

FIXTURES = Path(__file__).parents[1] / "fixtures"
RUN = "20261121-040628-recorded-2aa5"


@pytest.fixture
def recorded(fleet: Shell) -> Shell:
    """A fleet whose runs root holds the recorded directory."""
    shutil.copytree(FIXTURES / "format-1" / RUN, fleet.root / RUN)
    # It carries no seal, and is the user's once a person has said so.
    adopted = fleet("adopt", RUN, "--trust")
    assert adopted.returncode == 0, adopted.stderr
    return fleet


def test_a_recorded_run_is_shown_as_it_ended(recorded: Shell) -> None:
    """The view of a format-1 directory is the one its own supervisor had."""
    (view,) = recorded.json("status")["runs"]
    assert (view["state"], view["outcome"], view["attempt"]) == ("ended", "finished", 2)
    assert (view["update"], view["timesteps"], view["total_timesteps"]) == (14, 28672, 28672)
    assert (view["name"], view["seed"], view["flags"]) == ("recorded", 7, [])


def test_rows_that_a_later_attempt_took_back_are_not_part_of_the_curve(recorded: Shell) -> None:
    """Attempt 2 started at update 8: rows 9 to 12 of attempt 1 are rewound, and each update counts once."""
    rows = json.loads((recorded("metrics", RUN, "--json")).stdout)
    csv = recorded("metrics", RUN, "--csv").stdout.splitlines()
    header = csv[0].split(",")
    updates = [int(line.split(",")[header.index("update")]) for line in csv[1:]]
    assert updates == list(range(1, 15))
    assert rows["rewound"] != []


def test_recorded_checkpoints_still_verify(recorded: Shell) -> None:
    """Every checkpoint of a format-1 directory passes today's verification."""
    folder = recorded.root / RUN / "checkpoints"
    names = [manifest.name for manifest in list_checkpoints(folder)]
    assert sorted(names) == ["000016384", "000028672"]
    for name in names:
        verify_checkpoint(folder / name)


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_a_recorded_run_trains_on(recorded: Shell) -> None:
    """A resume from a format-1 checkpoint goes on at its step and ends at the new total."""
    done = recorded("resume", RUN, "--set", "run.total_timesteps=32768", "--accept")
    assert done.returncode == 0, done.stderr
    assert recorded("wait", RUN).returncode == 0
    (view,) = recorded.json("status", RUN)["runs"]
    assert (view["outcome"], view["attempt"], view["timesteps"]) == ("finished", 3, 32768)
