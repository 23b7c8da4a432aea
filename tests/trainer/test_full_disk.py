"""A disk that fills up while a run trains: what was saved stays, training goes on, and the last boundary is saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from mission_tui.fleet.events.metrics import TrainingEnded
from mission_tui.ipc.telemetry_messages import PhaseEntered, TelemetryMessage
from mission_tui.records.runs.checkpoint import newest_verified
from mission_tui.trainer.orders import Orders
from tests.full_disk import fill, small_disk
from tests.trainer.harness import new_run, run_attempt, spec_with

DISK_BYTES = 2 << 20


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's own thread
def test_the_last_checkpoint_finds_the_room_that_was_kept(tmp_path: Path) -> None:
    """(root) Full after update 2: periodic checkpoints fail, the run finishes and its last boundary is verified."""
    with small_disk(tmp_path / "disk", DISK_BYTES) as disk:
        spec = spec_with(keep={"checkpoint": {"every_steps": 64, "last": 2, "spread": 0}})

        def filling(message: TelemetryMessage, _orders: Orders) -> None:
            if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 2):
                fill(disk)

        ran = run_attempt(new_run(disk / "run", spec), hook=filling)
        assert ran.exit_code == 0
        saved = newest_verified(ran.run_dir.checkpoints)
        assert saved is not None
        assert (saved.name, saved.update) == ("000000384", 6)
        assert (ran.run_dir.checkpoints / "latest").read_text() == "000000384\n"
        assert [row.update for row in ran.updates()] == [1, 2, 3, 4, 5, 6]
        assert [path.name for path in ran.run_dir.checkpoints.iterdir() if path.name.startswith(".")] == []


def test_a_checkpoint_that_ends_a_run_is_complained_of_once(tmp_path: Path) -> None:
    """The cause says why nothing could be saved; that the same came of the next try is no second sentence of it."""
    run_dir = new_run(tmp_path / "run", spec_with())

    def in_the_way(message: TelemetryMessage, _orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 2):
            run_dir.checkpoints.rename(tmp_path / "away")
            run_dir.checkpoints.touch()

    end = run_attempt(run_dir, hook=in_the_way).records()[-1]
    assert isinstance(end, TrainingEnded)
    assert "cannot save checkpoint" in end.cause
    assert end.unsaved == ""


def test_without_a_full_disk_nothing_of_it_stays(tmp_path: Path) -> None:
    """The room is kept while a run trains, and given back when it ends."""
    kept: list[bool] = []
    run_dir = new_run(tmp_path / "run", spec_with())

    def looking(message: TelemetryMessage, _orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and message.phase == "rollout":
            kept.append((run_dir.checkpoints / ".reserve").exists())

    run_attempt(run_dir, hook=looking)
    assert kept == [True] * 6
    assert not (run_dir.checkpoints / ".reserve").exists()
