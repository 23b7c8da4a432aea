"""A folder of stock SB3 as an ended run: judged, evaluated, branched from; a refused one leaves nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mission_tui.errors import MissionError
from mission_tui.fleet.specs.spec import LaunchItem
from mission_tui.ipc.replies import Accepted, Evaluated
from mission_tui.ipc.requests import Evaluate, ImportRun, Resume
from tests.supervisor.conftest import REPOSITORY, Lab
from tests.trainer.foreign.test_import_run import spec_of
from tests.trainer.sb3_folder import write_sb3_folder

pytestmark = pytest.mark.slow


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
    environ = {"PATH": lab.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    words = ["import-run", str(folder), "--trust", "--set", "env.normalize=true"]
    argv = [sys.executable, "-m", "mission_tui", "--runs-dir", str(lab.root), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=lab.environ | environ)
    assert done.returncode == 2
    assert "model.zip was trained with env.normalize and" in done.stderr
    assert [path.name for path in lab.root.iterdir() if not path.name.startswith(".")] == []
    assert [path.name for path in (lab.root / ".supervisor").iterdir() if path.name.startswith("making")] == []
