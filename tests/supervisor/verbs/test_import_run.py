"""A folder of stock SB3 as an ended run: judged, evaluated, branched from; a refused one leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Accepted, Evaluated
from mission_tui.ipc.requests import Evaluate, ImportRun, Resume
from tests.supervisor.conftest import REPOSITORY, Lab
from tests.trainer.sb3_folder import write_sb3_folder
from tests.trainer.test_import_run import spec_of

pytestmark = pytest.mark.slow


MONTH_AGO = time.time() // 1 - 30 * 86400.0

BAD = "time/iterations,time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,train/clip_fraction\n"
BAD += "".join(
    f"{it},{128 * it},{-10.0 * it},{0.5 if it > 10 else 0.01},{0.6 if it > 10 else 0.1}\n" for it in range(1, 60)
)


def ask(lab: Lab, folder: Path, *, models: bool) -> Accepted:
    """Import `folder` as a run named `foreign`."""
    item = LaunchItem(spec=spec_of(folder), name="foreign")
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    reply = lab.ask(
        lambda id_: ImportRun(
            id=id_,
            path=str(folder),
            item=item,
            trusted=models,
            cwd=str(lab.root),
            python=sys.executable,
            environ=environ,
        )
    )
    assert isinstance(reply, Accepted)
    return reply


def command(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    """The real command line, in the lab's root."""
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    argv = [sys.executable, "-m", "mission_tui", "--runs-dir", str(lab.root), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=lab.environ | environ)


@pytest.mark.timeout(60)
def test_an_imported_folder_is_an_ended_run_that_can_be_used(lab: Lab, tmp_path: Path) -> None:
    """It says where it came from, evaluates from its own statistics, and begins a branch."""
    (run,) = ask(lab, write_sb3_folder(tmp_path / "out"), models=True).runs
    view = lab.view(run)
    assert (view.state, view.outcome, view.timesteps, view.last_checkpoint) == ("ended", "finished", 512, "000000512")
    assert [origin.sentence for origin in view.origins] == ["imported from out as 000000512"]
    evaluated = lab.ask(lambda id_: Evaluate(id=id_, run="foreign", checkpoint="256", episodes=1))
    assert isinstance(evaluated, Evaluated)
    assert evaluated.result["checkpoint"] == "000000256"
    branched = lab.ask(
        lambda id_: Resume(id=id_, run="foreign", branch=True, assignments=("run.total_timesteps=9999",))
    )
    assert isinstance(branched, Accepted)
    lab.act("kill", *branched.runs)
    lab.ended(branched.runs[0])


@pytest.mark.timeout(60)
def test_logs_alone_are_judged_and_survive_a_supervisor(lab: Lab, tmp_path: Path) -> None:
    """Findings are those that `judge` gives for the log; the next supervisor knows the same run."""
    folder = tmp_path / "CartPole-v1_1"
    folder.mkdir()
    (folder / "progress.csv").write_text(BAD)
    reply = ask(lab, folder, models=False)
    view = lab.view(reply.runs[0])
    assert {finding.rule for finding in view.findings} >= {"kl-persistent"}
    assert view.seed is None
    argv = [sys.executable, "-m", "mission_tui", "judge", str(lab.dir(view.id).path), "--json"]
    judged = subprocess.run(argv, capture_output=True, text=True, check=True, env=lab.environ)
    assert all(f'"rule":"{finding.rule}"' in judged.stdout for finding in view.findings)
    lab.kill_supervisor()
    lab.start()
    assert [it.id for it in lab.view(view.id).findings] == [it.id for it in view.findings]
    with pytest.raises(MissionError, match=r"foreign has no checkpoint$"):
        lab.ask(lambda id_: Evaluate(id=id_, run="foreign", episodes=1))


@pytest.mark.timeout(60)
def test_a_refused_folder_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    """A model whose statistics are gone is named; no run and no half of one is there."""
    folder = write_sb3_folder(tmp_path / "out")
    for path in folder.glob("*vecnormalize*"):
        path.rename(path.with_suffix(".gone"))
    done = command(lab, "import-run", str(folder), "--trust", "--set", "env.normalize=true")
    assert done.returncode == 2
    assert "model.zip was trained with env.normalize and" in done.stderr
    assert [path.name for path in lab.root.iterdir() if not path.name.startswith(".")] == []
    assert [path.name for path in (lab.root / ".supervisor").iterdir() if path.name.startswith("making")] == []


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders that stock SB3 leaves with Monitor, EvalCallback and tensorboard, among others."""
    pytest.importorskip("tensorboard")
    weeks = tmp_path_factory.mktemp("weeks")
    for seed in (1, 2):
        out = weeks / f"CartPole-v1_{seed}"
        vec = make_vec_env("CartPole-v1", 2, seed=seed, monitor_dir=str(out))
        model = PPO("MlpPolicy", vec, n_steps=64, n_epochs=2, seed=seed, device="cpu", tensorboard_log=str(out / "tb"))
        held_out = EvalCallback(
            make_vec_env("CartPole-v1", 1),
            n_eval_episodes=2,
            eval_freq=128,
            log_path=str(out),
            best_model_save_path=str(out),
        )
        model.learn(512, callback=held_out)
        model.save(out / "model.zip")
        vec.close()
    (weeks / "notes").mkdir()
    (weeks / "notes" / "todo.txt").write_text("nothing")
    return weeks


@pytest.mark.timeout(120)
def test_weeks_of_plain_folders_come_in_once_and_with_their_own_dates(lab: Lab, plain: Path) -> None:
    """Updates from `tb/PPO_1`, evaluations beside them; over when their last line was written, and not now.

    Asked again, nothing is made.
    """
    words = ["import-run", "-r", str(plain), "--logs-only", "--json"]
    before = time.time()
    first = json.loads(command(lab, *words).stdout)
    assert first["refused"] == []
    assert [Path(it["folder"]).name for it in first["runs"]] == ["CartPole-v1_1", "CartPole-v1_2"]
    for it in first["runs"]:
        view = lab.view(it["id"])
        assert (view.state, view.outcome, view.timesteps) == ("ended", "finished", 512)
        assert view.started_t is not None
        assert view.ended_t is not None
        assert view.created_t == view.started_t < view.ended_t < before
        kinds = [json.loads(line)["kind"] for line in (lab.root / it["id"] / "metrics.jsonl").read_text().splitlines()]
        assert (kinds.count("update"), kinds.count("evaluation")) == (4, 2)
    again = json.loads(command(lab, *words).stdout)
    assert [it["id"] for it in again["runs"]] == [it["id"] for it in first["runs"]]
    assert "already, nothing was made" in again["runs"][0]["notes"][0]


@pytest.mark.timeout(60)
def test_an_old_log_is_as_old_as_it_says(lab: Lab, tmp_path: Path) -> None:
    """By the time of its file where it has no clock: made, begun and over a month ago, and its findings with it."""
    folder = tmp_path / "CartPole-v1_1"
    folder.mkdir()
    (folder / "progress.csv").write_text(BAD)
    os.utime(folder / "progress.csv", (MONTH_AGO, MONTH_AGO))
    view = lab.view(*ask(lab, folder, models=False).runs)
    assert (view.created_t, view.started_t, view.ended_t) == pytest.approx((MONTH_AGO,) * 3)
    events = [json.loads(line) for line in (lab.root / view.id / "events.jsonl").read_text().splitlines()]
    assert [event["t"] for event in events] == pytest.approx([MONTH_AGO] * len(events))
    (same,) = ask(lab, folder, models=False).runs
    assert same == view.id
