"""Periodic evaluation: when it is due, what it records, and that a training learns the same with and without."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
import torch as th
from msgspec import structs

from mission_tui.fleet.events.metrics import EvaluationDone
from mission_tui.fleet.specs.spec import EvaluateSpec
from mission_tui.ipc.telemetry_messages import PhaseEntered, TelemetryMessage
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.periodic_evaluation import Evaluating
from tests.trainer.harness import new_run, run_attempt, spec_with
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_is_played_is_recorded_and_changes_nothing(tmp_path: Path) -> None:
    """The boundary at 128 steps is saved, kept and played by another process; the parameters are those without it."""
    plain = spec_with(keep={"checkpoint": {"every_s": 600.0, "every_steps": 64, "last": 2}})
    run_dir = new_run(tmp_path / "played", structs.replace(plain, evaluate=EvaluateSpec(every=128, episodes=2)))
    file = run_dir.evaluations / "000000128-periodic.json"

    def patient(message: TelemetryMessage, _: Orders) -> None:
        """The fifth rollout waits until the first evaluation is over, whatever was pruned meanwhile."""
        if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 4):
            assert (run_dir.checkpoints / "000000128").is_dir()
            until(file.is_file, 150, "the evaluation is written")

    ran = run_attempt(run_dir, hook=patient)
    (row,) = [it for it in ran.records() if isinstance(it, EvaluationDone)]
    assert (row.update, row.timesteps, row.episodes) == (2, 128, 2)
    assert float(row.mean) > 0.0
    alone = run_attempt(new_run(tmp_path / "alone", plain)).parameters()
    assert all(th.equal(tensor, alone[name]) for name, tensor in ran.parameters().items())


def test_it_is_due_at_multiples(tmp_path: Path) -> None:
    """The first boundary at or after each multiple of `every`, counted over all attempts; without `every` never."""
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 250)
    assert [evaluating.due(at) for at in (256, 299, 320, 384, 448, 512, 513)] == [
        *(False, False, True, False, True, True, False)
    ]
    assert not Evaluating(RunDir(tmp_path), EvaluateSpec(), 0).due(10**12)


def test_one_at_a_time_and_none_is_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What comes while another plays is left out, which is said; closing ends the one that plays."""
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 0)
    evaluating.begin("000000100", 1, 100)
    assert evaluating.checkpoint == "000000100"
    assert not evaluating.due(200)
    evaluating.close()
    assert evaluating.due(300)
    said = capfd.readouterr().err
    assert "evaluation at 200 steps left out: the one at 100 still plays" in said
    assert "the evaluation at 100 steps had not ended" in said


def test_an_evaluation_that_fails_ends_no_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a result there is a line with the exit code, and no row."""
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 0)
    evaluating.begin("nowhere", 1, 100)
    until(lambda: evaluating.take() is None and evaluating.checkpoint is None, 40, "it has failed")
    assert "the evaluation at 100 steps gave no result (exit code 1)" in capfd.readouterr().err
