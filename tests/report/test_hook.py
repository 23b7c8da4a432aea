"""`mission_tui.hook`: an unedited SB3 script reports every `learn()`, trains as it would, and keeps what is its own."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from zipfile import ZipFile

import pytest

from mission_tui import hook
from mission_tui.fleet.events.metrics import CheckpointSaved, TrainingStarted, UpdateDone
from tests.report.conftest import Desk, fresh_desk
from tests.waiting import until

SCRIPT = str(Path(__file__).with_name("sb3_script.py"))
pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def by_itself(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The policy that the script saves without us, its env in its own process."""
    with fresh_desk(tmp_path_factory.mktemp("alone")) as desk:
        desk.run("", SCRIPT, "dummy", str(desk.folder / "model.zip"))
        assert not desk.reported.exists()
        return policy_in(desk.folder / "model.zip")


def policy_in(model: Path) -> bytes:
    """The weights as they lie in what SB3 saved."""
    with ZipFile(model) as saved:
        return saved.read("policy.pth")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_an_unedited_script_reports_every_learn(desk: Desk, how: str, by_itself: bytes) -> None:
    """Each update of each `learn()` is a row with SB3's tags, also behind a worker process; own callbacks are kept.

    It trains as without: the policy that it saves is bit for bit the one that it saves by itself.
    """
    said = desk.run("", "-m", "mission_tui.hook", SCRIPT, how, str(desk.folder / "model.zip"))
    assert said.splitlines()[-1] == "1 128 64"
    rows = desk.of(UpdateDone)
    assert [row.timesteps for row in rows] == [64, 128, 192, 256, 320]
    for row in rows:
        assert {"train/approx_kl", "train/clip_range", "train/learning_rate", "rollout/ep_rew_mean"} <= set(row.metrics)
        assert row.rollout_s > 0.0
        assert row.update_s > 0.0
    assert sum(row.episodes.n for row in rows) > 3
    assert rows[0].metrics["custom/steps"] == 64.0
    assert "eval/mean_reward" in rows[1].metrics
    assert len(desk.of(TrainingStarted)) == 1
    assert len({row.metrics["train/n_updates"] for row in rows}) == 5
    assert [row.total_timesteps for row in rows] == [128, 128, 256, 256, 320]
    (saved,) = desk.of(CheckpointSaved)
    assert (saved.name, saved.reason, saved.timesteps) == (str(desk.folder / "model.zip"), "reported", 320)
    assert policy_in(desk.folder / "model.zip") == by_itself


@pytest.fixture(scope="module")
def terminated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, str, int]]:
    """What a script reports of DQN, then of a PPO that gets a SIGTERM, what it prints then, and its exit code."""
    with fresh_desk(tmp_path_factory.mktemp("terminated")) as desk:
        script = desk.folder / "long.py"
        script.write_text(
            "from stable_baselines3 import DQN, PPO\n"
            "DQN('MlpPolicy', 'CartPole-v1', learning_starts=50, seed=1, device='cpu').learn(600, log_interval=4)\n"
            "model = PPO('MlpPolicy', 'CartPole-v1', n_steps=64, batch_size=64, n_epochs=1, device='cpu')\n"
            "model.learn(10**9)\nmodel.save('saved.zip')\nprint('saved')\n"
        )
        with desk.start("", "-m", "mission_tui.hook", str(script)) as process:
            try:
                until(lambda: sum(of_ppo(row) for row in desk.of(UpdateDone)) > 3, 60)
                process.send_signal(signal.SIGTERM)
                said, _ = process.communicate(timeout=20)
            finally:
                process.kill()
        yield desk, said, process.returncode


def of_ppo(row: UpdateDone) -> bool:
    """Whether the row is of an algorithm with rollouts."""
    return "train/approx_kl" in row.metrics


@pytest.mark.slow
def test_off_policy_rows_are_what_it_logs(terminated: tuple[Desk, str, int]) -> None:
    """Of an algorithm without rollouts to speak of, each of its own log lines is a row, and the end of `learn()`."""
    rows = [row for row in terminated[0].of(UpdateDone) if not of_ppo(row)]
    assert 3 <= len(rows) <= 20
    assert "train/loss" in rows[-2].metrics
    assert rows[-1].timesteps == rows[-1].total_timesteps == 600
    assert "rollout/ep_rew_mean" in rows[-1].metrics
    assert all(earlier.timesteps < later.timesteps for earlier, later in pairwise(rows))


@pytest.mark.slow
def test_sigterm_ends_learn_and_the_script_goes_on_to_save(terminated: tuple[Desk, str, int]) -> None:
    """A stop ends `learn()` at the next step, and what the script does after it is done."""
    desk, said, code = terminated
    assert (said, code) == ("saved\n", 0)
    assert (desk.folder / "saved.zip").is_file()


@pytest.fixture(scope="module")
def by_path(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, list[str]]]:
    """What a script says that is run by the hook's path, in an environment without the package."""
    with fresh_desk(tmp_path_factory.mktemp("plain")) as desk:
        (desk.folder / "plain.py").write_text(
            "import os, sys\nfrom stable_baselines3 import PPO\n"
            "model = PPO('MlpPolicy', 'CartPole-v1', n_steps=64, batch_size=64, n_epochs=1, device='cpu').learn(64)\n"
            "import mission_tui.report\nprint(mission_tui.report.__file__, sys.path[0], sys.argv)\n"
            "print(sorted(name for name in sys.modules if name.startswith('mission_tui')))\n"
            "print(type(model._init_callback(None)).__name__)\n"
            "del os.environ['MISSION_TUI_REPORT']\n"
            "print(type(model._init_callback(None)).__name__)\n"
        )
        desk.environ = {"PYTHONPATH": ""}
        yield desk, desk.run("", str(Path(hook.__file__)), str(desk.folder / "plain.py"), "--lr", "3").splitlines()


@pytest.mark.slow
def test_it_can_be_named_by_its_path(by_path: tuple[Desk, list[str]]) -> None:
    """In an environment without the package: nothing of it but what reports becomes importable."""
    desk, said = by_path
    words = [str(desk.folder / "plain.py"), "--lr", "3"]
    assert said[0] == f"{Path(hook.__file__).with_name('report.py')} {desk.folder} {words}"
    assert said[1] == str(["mission_tui", "mission_tui.report", "mission_tui.report_sb3"])
    assert len(desk.of(UpdateDone)) == 1


@pytest.mark.slow
def test_where_nobody_listens_nothing_is_attached(by_path: tuple[Desk, list[str]]) -> None:
    """Without mission-tui around it, the script has the callbacks that it has anyway, and no others."""
    assert by_path[1][2:] == ["ReportCallback", "ConvertCallback"]


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
