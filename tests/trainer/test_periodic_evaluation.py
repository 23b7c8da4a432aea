"""Periodic evaluation: when it is due, what it records, and that a training learns the same with and without."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch as th
from msgspec import structs

from mission_tui.fleet.events.metrics import EvaluationDone
from mission_tui.fleet.specs.spec import EvaluateSpec
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.periodic_evaluation import LONG_S, Due, Evaluating, EvaluationReply
from tests.trainer.harness import new_run, run_attempt, spec_with
from tests.waiting import until


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_what_is_played_is_recorded_and_changes_nothing(tmp_path: Path) -> None:
    """The boundary at 128 steps is saved, kept and played by another process; the parameters are those without it."""
    plain = spec_with(keep={"checkpoint": {"every_s": 600.0, "every_steps": 64, "last": 2, "spread": 0}})
    run_dir = new_run(
        tmp_path / "played", structs.replace(plain, evaluate=EvaluateSpec(every=128, episodes=2, share=None))
    )
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


Play = Callable[..., Evaluating]
RESULT = {"mean": 1.5, "std": 0.5, "episodes": 4}


@pytest.fixture(name="player")
def _player(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In place of Python: answers every request with the line in `result`, and counts itself in `started`."""
    player = tmp_path / "player"
    player.write_text(
        "#!/bin/sh\n"
        f"echo $$ >> {tmp_path}/started\n"
        "while read -r line; do\n"
        """  out=$(echo "$line" | sed 's/.*"out": "\\([^"]*\\)".*/\\1/')\n"""
        f"  while [ ! -e {tmp_path}/result ]; do sleep 0.02; done\n"
        f'  cp {tmp_path}/result "$out.part"; mv "$out.part" "$out"\n'
        "done\n"
    )
    player.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(player))
    (tmp_path / "run" / "evaluations").mkdir(parents=True)
    return player


def answers(tmp_path: Path, **fields: object) -> None:
    """From now on the player answers with these."""
    part = tmp_path / "result.part"
    part.write_text(json.dumps({"checkpoint": "000000100", **RESULT, **fields}) + "\n")
    part.rename(tmp_path / "result")


def played(evaluating: Evaluating) -> tuple[Due, EvaluationReply]:
    """What comes next."""
    done = until(evaluating.take, 40, "it is over")
    assert done is not None
    return done


def test_it_is_due_at_multiples(tmp_path: Path) -> None:
    """The first boundary at or after each multiple of `every`, counted over all attempts; without `every` never."""
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 250)
    assert [evaluating.due(at, 0.0) for at in (256, 299, 320)] == [False, False, True]
    assert not Evaluating(RunDir(tmp_path), EvaluateSpec(), 0).due(10**12, 1e9)


@pytest.mark.usefixtures("player")
def test_evaluations_take_their_share_of_the_time_and_no_more(tmp_path: Path) -> None:
    """What cost 4 s is followed by the next when both are 2 % of the time; its row says since when it was due."""
    clock = [0.0]
    evaluating = Evaluating(RunDir(tmp_path / "run"), EvaluateSpec(every=100), 0, 1000.0, lambda: clock[0])
    answers(tmp_path, cpu_s=3.0)
    assert evaluating.due(100, 1001.0)
    evaluating.begin("000000100", 1, 100, saving_s=1.0)
    clock[0] = 60.0
    done, _ = played(evaluating)
    assert (done.timesteps, done.put_off_from) == (100, None)
    assert [evaluating.due(at, trained_s) for at, trained_s in ((128, 1100.0), (228, 1200.0), (500, 1349.0))] == [
        False
    ] * 3
    assert evaluating.due(612, 1350.0)
    evaluating.begin("000000612", 6, 612)
    done, _ = played(evaluating)
    assert (done.timesteps, done.put_off_from) == (612, 228)
    assert not evaluating.due(699, 1e9)
    evaluating.close()


@pytest.mark.usefixtures("player")
def test_without_a_share_only_the_one_that_plays_puts_another_off(tmp_path: Path) -> None:
    """The checkpoint that is played stays; what is due meanwhile is played at the first boundary after its end."""
    evaluating = Evaluating(RunDir(tmp_path / "run"), EvaluateSpec(every=100, share=None), 0)
    evaluating.begin("000000100", 1, 100)
    assert evaluating.checkpoints == {"000000100"}
    assert [evaluating.due(at, 0.0) for at in (200, 250, 300)] == [False] * 3
    answers(tmp_path, cpu_s=1e6)
    assert played(evaluating)[0].put_off_from is None
    assert evaluating.due(350, 0.0)
    evaluating.begin("000000350", 3, 350)
    assert played(evaluating)[0].put_off_from == 200
    evaluating.close()


@pytest.mark.usefixtures("player")
def test_one_process_plays_all_and_one_that_died_is_followed_by_another(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its death is said with the checkpoint that it played, and costs no more than that."""
    evaluating = Evaluating(RunDir(tmp_path / "run"), EvaluateSpec(every=100, share=None), 0)
    answers(tmp_path)
    for number in (1, 2):
        evaluating.begin(f"{number}00", number, number * 100)
        played(evaluating)
    (pid,) = (tmp_path / "started").read_text().split()
    (tmp_path / "result").unlink()
    evaluating.begin("300", 3, 300)
    os.kill(int(pid), signal.SIGKILL)
    until(lambda: evaluating.take() is None and not evaluating.checkpoints, 40, "it has failed")
    assert "the evaluation at 300 steps gave no result (exit code -9)" in capfd.readouterr().err
    answers(tmp_path, won=0.75)
    evaluating.begin("400", 4, 400)
    assert played(evaluating)[1].won == 0.75
    _, idle = (tmp_path / "started").read_text().split()
    os.kill(int(idle), signal.SIGKILL)
    until(lambda: "Z" in Path(f"/proc/{idle}/stat").read_text().rpartition(")")[2], 40, "it is dead while it waits")
    evaluating.begin("500", 5, 500)
    assert played(evaluating)[0].timesteps == 500
    assert len((tmp_path / "started").read_text().split()) == 3
    evaluating.close()


@pytest.mark.usefixtures("player")
def test_one_that_plays_for_long_is_said_once_and_ended_with_the_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """None comes after it meanwhile, so whoever waits for a point on the chart has to know."""
    said: list[str] = []
    clock = [0.0]
    evaluating = Evaluating(RunDir(tmp_path / "run"), EvaluateSpec(every=100), 0, clock=lambda: clock[0])
    evaluating.failed = said.append
    evaluating.begin("000000100", 1, 100)
    for clock[0] in (LONG_S - 1.0, LONG_S + 1.0, LONG_S + 2.0):
        assert evaluating.take() is None
    assert len(said) == 1
    assert said[0].startswith("the evaluation at 100 steps has played for 10 minutes")
    evaluating.close()
    assert evaluating.checkpoints == frozenset()
    assert "no evaluation at 100 steps: the training has ended" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_finished_run_has_an_evaluation_of_its_end(tmp_path: Path) -> None:
    """However slow they play: the first multiple, later ones in order, and the last boundary, each once."""
    spec = structs.replace(spec_with(), evaluate=EvaluateSpec(every=128, episodes=1, share=None))
    ran = run_attempt(new_run(tmp_path / "run", spec))
    rows = [it for it in ran.records() if isinstance(it, EvaluationDone)]
    last = ran.ended().timesteps
    assert rows[0].timesteps == 128
    assert rows[-1].timesteps == last
    assert [it.timesteps for it in rows] == sorted({it.timesteps for it in rows})
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


def test_an_evaluation_that_fails_ends_no_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a result there is a line with the exit code, and no row."""
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    evaluating = Evaluating(RunDir(tmp_path), EvaluateSpec(every=100), 0)
    evaluating.begin("nowhere", 1, 100)
    until(lambda: evaluating.take() is None and not evaluating.checkpoints, 40, "it has failed")
    assert "the evaluation at 100 steps gave no result (exit code 1)" in capfd.readouterr().err
