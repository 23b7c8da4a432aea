"""A run that was forked off a preloader is the run that would have been started anew."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mission_tui.ipc.client import Connection
from mission_tui.ipc.requests import Watch
from tests.shell import Shell

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize("preset", ["cartpole", "demo"])
def test_both_roads_train_the_same_numbers(shared_fleet: Shell, preset: str) -> None:
    """The same seed: every number of every update, the parameters of the last checkpoint; a resume is forked too."""
    words = (preset, "--set", "run.total_timesteps=8192", "--set", "run.seed=7", "--wait")
    cold, forked = trained(shared_fleet, *words, "--set", "run.preload=false"), trained(shared_fleet, *words)
    assert [handle(shared_fleet, run)["preloaded"] for run in (cold, forked)] == [False, True]
    assert learned(shared_fleet, cold) == learned(shared_fleet, forked)
    assert policies(shared_fleet, cold) == policies(shared_fleet, forked)
    resumed = shared_fleet.typed("resume", forked, "--set", "run.total_timesteps=12288", "--accept")
    assert resumed.returncode == 0, resumed.stderr
    assert shared_fleet.typed("wait", forked).returncode == 0
    assert handle(shared_fleet, forked, 2)["preloaded"]


def test_a_screen_that_opens_has_the_next_launch_forked(fleet: Shell) -> None:
    """With the variables that a client has, which starts the supervisor: no reason but that none is ready yet."""
    fleet.environ["MISSION_TUI_PRELOAD"] = "1"
    fleet("status")
    with Connection.connect(fleet.root, start=False) as screen:
        screen.ask(lambda id_: Watch(id=id_))
        reasons = []
        for _ in range(40):
            run = trained(fleet, "cartpole", "--set", "run.total_timesteps=256", "--wait")
            if handle(fleet, run)["preloaded"]:
                break
            reasons.append(handle(fleet, run)["cold"])
        assert set(reasons) <= {"no preloader has been started yet", "the preloader is loading"}
        assert handle(fleet, run)["preloaded"]


def trained(fleet: Shell, *words: str) -> str:
    """Launch one and wait for its end."""
    (run,) = fleet.json("launch", *words)["runs"]
    return str(run["id"])


def handle(fleet: Shell, run: str, attempt: int = 1) -> Any:
    """On which road the attempt was started."""
    return json.loads((fleet.root / run / "attempts" / str(attempt) / "handle.json").read_text())


def learned(fleet: Shell, run: str) -> list[dict[str, float]]:
    """What each update says of learning; times and speeds are the machine's."""
    rows = [row["metrics"] for row in fleet.rows(run) if row["kind"] == "update"]
    return [{tag: value for tag, value in row.items() if not tag.startswith("time/")} for row in rows]


def policies(fleet: Shell, run: str) -> dict[str, bytes]:
    """The parameters in its checkpoints."""
    return {path.parent.name: path.read_bytes() for path in (fleet.root / run).glob("checkpoints/*/policy.safetensors")}
