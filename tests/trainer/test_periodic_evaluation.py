"""Periodic evaluation: when it is due, what it records, and that a training learns the same with and without."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
import torch as th
from msgspec import structs

from mission_tui.fleet.events.metrics import EvaluationDone
from mission_tui.fleet.specs.spec import EvaluateSpec
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.periodic_evaluation import MOST_WAITING, Evaluating
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
    row = next(it for it in ran.records() if isinstance(it, EvaluationDone))
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
    """What comes while another plays waits, and its checkpoint stays; closing ends the one that plays, and says so."""
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 0)
    for update, name in enumerate(("000000100", "000000200"), 1):
        assert evaluating.due(update * 100)
        evaluating.begin(name, update, update * 100)
    assert evaluating.checkpoints == {"000000100", "000000200"}
    evaluating.close()
    assert evaluating.checkpoints == frozenset()
    assert "no evaluation at 100, 200 steps: the training has ended" in capfd.readouterr().err


def test_too_many_that_wait_are_left_out_by_name(tmp_path: Path) -> None:
    """The oldest go first; each is a fact of the run, not a word in its log only."""
    said: list[str] = []
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 0)
    evaluating.failed = said.append
    for update in range(1, MOST_WAITING + 3):
        evaluating.begin(f"{update}00", update, update * 100)
    assert said == [f"the evaluation at 200 steps was left out: {MOST_WAITING} later ones wait"]
    assert "200" not in evaluating.checkpoints
    assert len(evaluating.checkpoints) == MOST_WAITING + 1
    evaluating.close()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_finished_run_has_all_its_evaluations_and_one_of_its_end(tmp_path: Path) -> None:
    """However slow they play: every multiple, and the last boundary, each once and in order."""
    spec = structs.replace(spec_with(), evaluate=EvaluateSpec(every=128, episodes=1))
    ran = run_attempt(new_run(tmp_path / "run", spec))
    played = [it.timesteps for it in ran.records() if isinstance(it, EvaluationDone)]
    last = ran.ended().timesteps
    assert played == sorted({*range(128, last + 1, 128), last})
    assert ran.ended().how == "finished"


@pytest.mark.timeout(120)
def test_a_stop_waits_for_no_evaluation(tmp_path: Path) -> None:
    """Neither when it comes while training, nor while the last evaluations play."""
    spec = structs.replace(spec_with(), evaluate=EvaluateSpec(every=64, episodes=100_000))
    run_dir = new_run(tmp_path / "run", spec)

    def stop_at_the_end(message: TelemetryMessage, orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and message.phase == "ending":
            orders.obey(Order("stop"))

    ran = run_attempt(run_dir, hook=stop_at_the_end)
    assert ran.ended().how == "finished"
    assert [it for it in ran.records() if isinstance(it, EvaluationDone)] == []


def test_the_share_won_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the process writes of winning comes with its return; of an environment without winning it is not known."""
    player = tmp_path / "player"
    monkeypatch.setattr(sys, "executable", str(player))
    for won in (0.75, None):
        result = json.dumps({"checkpoint": "000000100", "mean": 1.5, "std": 0.5, "episodes": 4, "won": won})
        player.write_text(f'#!/bin/sh\nwhile [ "$1" != --out ]; do shift; done\necho \'{result}\' > "$2"\n')
        player.chmod(0o755)
        run_dir = RunDir(tmp_path / str(won))
        run_dir.evaluations.mkdir(parents=True)
        evaluating = Evaluating(run_dir, EvaluateSpec(every=100), 0)
        evaluating.begin("000000100", 1, 100)
        done = until(evaluating.take, 40, "it is over")
        assert done is not None
        assert (done[0], done[1], done[2].mean, done[2].won) == (1, 100, 1.5, won)


def test_an_evaluation_that_fails_ends_no_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a result there is a line with the exit code, and no row."""
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 0)
    evaluating.begin("nowhere", 1, 100)
    until(lambda: evaluating.take() is None and not evaluating.checkpoints, 40, "it has failed")
    assert "the evaluation at 100 steps gave no result (exit code 1)" in capfd.readouterr().err
