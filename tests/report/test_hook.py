"""`mission_tui.hook`: an unedited SB3 script reports every `learn()`, trains as it would, and keeps what is its own."""

from __future__ import annotations

import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from mission_tui import hook
from mission_tui.fleet.events.metrics import CheckpointSaved, TrainingStarted, UpdateDone
from tests.report.conftest import Desk
from tests.waiting import until

SCRIPT = str(Path(__file__).with_name("sb3_script.py"))
pytestmark = pytest.mark.timeout(120)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_an_unedited_script_reports_every_learn(desk: Desk, how: str) -> None:
    """Each update of each `learn()` is a row with SB3's tags, also behind worker processes; own callbacks are kept."""
    said = desk.run("", "-m", "mission_tui.hook", SCRIPT, how, str(desk.folder / "model.zip"))
    assert said.splitlines()[-1] == "1 64 64"
    rows = desk.of(UpdateDone)
    assert [row.timesteps for row in rows] == [64, 128, 192, 256, 320]
    for row in rows:
        assert {"train/approx_kl", "train/clip_range", "train/learning_rate", "rollout/ep_rew_mean"} <= set(row.metrics)
        assert row.rollout_s > 0.0
        assert row.update_s > 0.0
    assert sum(row.episodes.n for row in rows) > 3
    assert rows[0].metrics["custom/steps"] == 32.0
    assert "eval/mean_reward" in rows[1].metrics
    assert len(desk.of(TrainingStarted)) == 1
    assert len({row.metrics["train/n_updates"] for row in rows}) == 5
    assert [row.total_timesteps for row in rows] == [128, 128, 256, 256, 320]
    (saved,) = desk.of(CheckpointSaved)
    assert (saved.name, saved.reason, saved.timesteps) == (str(desk.folder / "model.zip"), "reported", 320)


@pytest.mark.slow
def test_a_script_trains_as_without(desk: Desk, tmp_path: Path) -> None:
    """The policy that it saves is bit for bit the one that it saves by itself."""
    from stable_baselines3 import PPO

    desk.run("", SCRIPT, "dummy", str(tmp_path / "alone.zip"))
    assert not desk.reported.exists()
    desk.run("", "-m", "mission_tui.hook", SCRIPT, "dummy", str(tmp_path / "hooked.zip"))
    alone, hooked = (PPO.load(tmp_path / name, device="cpu").policy.state_dict() for name in ("alone", "hooked"))
    assert all(alone[name].equal(hooked[name]) for name in alone)


@pytest.mark.slow
def test_off_policy_rows_are_what_it_logs(desk: Desk) -> None:
    """Of an algorithm without rollouts to speak of, each of its own log lines is a row."""
    script = desk.folder / "dqn.py"
    script.write_text(
        "from stable_baselines3 import DQN\n"
        "DQN('MlpPolicy', 'CartPole-v1', learning_starts=50, seed=1, device='cpu').learn(600, log_interval=4)\n"
    )
    desk.run("", "-m", "mission_tui.hook", str(script))
    rows = desk.of(UpdateDone)
    assert 3 <= len(rows) <= 20
    assert "train/loss" in rows[-1].metrics
    assert "rollout/ep_rew_mean" in rows[-1].metrics
    assert all(earlier.timesteps < later.timesteps for earlier, later in pairwise(rows))


@pytest.mark.slow
def test_sigterm_ends_learn_and_the_script_goes_on_to_save(desk: Desk) -> None:
    """A stop ends `learn()` at the next step, and what the script does after it is done."""
    script = desk.folder / "long.py"
    script.write_text(
        "from stable_baselines3 import PPO\n"
        "model = PPO('MlpPolicy', 'CartPole-v1', n_steps=64, batch_size=64, n_epochs=1, device='cpu')\n"
        "model.learn(10**9)\nmodel.save('saved.zip')\nprint('saved')\n"
    )
    process = desk.start("", "-m", "mission_tui.hook", str(script))
    until(lambda: len(desk.of(UpdateDone)) > 3, 60)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == "saved\n"
    assert process.returncode == 0


@pytest.mark.slow
def test_it_can_be_named_by_its_path(desk: Desk) -> None:
    """In an environment without the package: nothing of it but what reports becomes importable."""
    script = desk.folder / "plain.py"
    script.write_text(
        "import sys\nfrom stable_baselines3 import PPO\n"
        "PPO('MlpPolicy', 'CartPole-v1', n_steps=64, batch_size=64, n_epochs=1, device='cpu').learn(64)\n"
        "import mission_tui.report\nprint(mission_tui.report.__file__, sys.path[0], sys.argv)\n"
        "print(sorted(name for name in sys.modules if name.startswith('mission_tui')))\n"
    )
    desk.environ = {"PYTHONPATH": ""}
    path = Path(hook.__file__)
    said = desk.run("", str(path), str(script), "--lr", "3").splitlines()
    assert said[0] == f"{path.with_name('report.py')} {desk.folder} {[str(script), '--lr', '3']}"
    assert said[1] == str(["mission_tui", "mission_tui.report", "mission_tui.report_sb3"])
    assert len(desk.of(UpdateDone)) == 1


@pytest.mark.slow
def test_where_nobody_listens_nothing_is_attached(desk: Desk) -> None:
    """Without mission-tui around it, the script has the callbacks that it has anyway, and no others."""
    script = desk.folder / "alone.py"
    script.write_text(
        "import os, sys\nfrom stable_baselines3 import PPO\n"
        "if len(sys.argv) > 1: del os.environ['MISSION_TUI_REPORT']\n"
        "print(type(PPO('MlpPolicy', 'CartPole-v1', device='cpu')._init_callback(None)).__name__)\n"
    )
    assert desk.run("", "-m", "mission_tui.hook", str(script)) == "ReportCallback\n"
    assert desk.run("", "-m", "mission_tui.hook", str(script), "alone") == "ConvertCallback\n"


def test_a_script_without_sb3_pays_nothing(desk: Desk) -> None:
    """A script that imports no SB3 gets none, keeps its name, words, exit code and traceback."""
    script = desk.folder / "other.py"
    script.write_text("import sys\nprint(__name__, __file__, 'torch' in sys.modules, sys.argv[1:])\nsys.exit(7)\n")
    assert desk.run("", "-m", "mission_tui.hook", str(script), "a", code=7) == f"__main__ {script} False ['a']\n"
    (desk.folder / "module.py").write_text("import sys\nprint(__name__, sys.argv[1:])\nraise ValueError('mine')\n")
    said = desk.run("", "-m", "mission_tui.hook", "-m", "module", "a", code=1)
    assert said.startswith("__main__ ['a']\n")
    assert said.endswith("ValueError: mine\n")
    assert not desk.reported.exists()


def test_without_a_script_it_says_how(desk: Desk) -> None:
    """No script, an option that is not ours, or a file that is not there: one sentence and exit code 2."""
    for words in ((), ("-m",), ("--help",), ("absent.py",)):
        said = desk.run("", "-m", "mission_tui.hook", *words, code=2)
        assert len(said.splitlines()) == 1
        assert Path(sys.executable).name in said or "usage" in said
