"""The whole road through the command line with the real trainer: launch, stop, resume, kill, adopt, clean, export."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from tests.shell import REPOSITORY, Shell
from tests.waiting import until

STUCK = """
import pathlib, subprocess, time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

HERE = pathlib.Path(__file__).parent

class Stuck(CartPoleEnv):
    steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == 100:
            simulator = subprocess.Popen(["sleep", "3600"])
            (HERE / f"{simulator.pid}.stuck").touch()
            time.sleep(3600)
        return super().step(action)

gymnasium.register("Stuck-v0", Stuck, max_episode_steps=500)
"""
"""In its hundredth step, after the first update of `tiny`, it starts a process of its own and hangs."""

pytestmark = pytest.mark.timeout(240)


def kill_supervisor(fleet: Shell) -> None:
    """SIGKILL the supervisor and wait until it is gone."""
    process = psutil.Process(fleet.json("supervisor", "status")["pid"])
    process.kill()
    process.wait(timeout=5)


@pytest.mark.slow
def test_stop_and_resume_finish_with_exact_totals_and_one_unbroken_record(shared_fleet: Shell) -> None:
    """Stopped and resumed, a run ends at its exact total, with attempts 1 and 2 recorded and no row rewritten."""
    (run,) = shared_fleet.launch("tiny", "--set", "run.total_timesteps=30720")
    shared_fleet.advancing(run)
    assert shared_fleet("stop", run).returncode == 0
    assert shared_fleet("wait", run, timeout_s=120).returncode == 75
    before = (shared_fleet.root / run / "metrics.jsonl").read_bytes()
    assert shared_fleet("resume", run).returncode == 0
    assert shared_fleet("wait", run, timeout_s=120).returncode == 0
    after = (shared_fleet.root / run / "metrics.jsonl").read_bytes()
    assert after.startswith(before)
    rows = shared_fleet.rows(run)
    updates = [row for row in rows if row["kind"] == "update"]
    assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
    assert [row["update"] for row in updates] == list(range(1, 121))
    assert updates[-1]["timesteps"] == 30720
    assert {row["attempt"] for row in updates} == {1, 2}
    assert shared_fleet.view(run)["outcome"] == "finished"


@pytest.mark.slow
def test_runs_survive_the_supervisor_and_the_next_one_tells_the_files_truth(fleet: Shell) -> None:
    """SIGKILL of the supervisor during two runs stops none; the next re-adopts both and agrees with their files."""
    runs = fleet.launch("tiny", "-n", "2")
    done = {run: fleet.advancing(run) for run in runs}
    pids = {run: fleet.trainer(run) for run in runs}
    kill_supervisor(fleet)
    for run in runs:
        assert fleet.advancing(run, done[run]) > done[run]
        assert fleet.trainer(run) == pids[run]
    assert fleet("stop", "--all").returncode == 0
    fleet("wait", *runs, timeout_s=120)
    for run in runs:
        last = [row for row in fleet.rows(run) if row["kind"] == "update"][-1]
        shown = fleet.view(run)
        assert (shown["outcome"], shown["update"], shown["timesteps"]) == ("stopped", last["update"], last["timesteps"])


@pytest.mark.slow
def test_a_killed_trainer_is_noticed_with_its_cause(shared_fleet: Shell) -> None:
    """SIGKILL of a trainer ends its run as a crash that names the signal."""
    (run,) = shared_fleet.launch("tiny")
    shared_fleet.advancing(run)
    os.kill(shared_fleet.trainer(run), signal.SIGKILL)
    until(lambda: shared_fleet.view(run)["state"] == "ended", 20, "the crash is noticed")
    shown = shared_fleet.view(run)
    assert (shown["outcome"], shown["kind"]) == ("failed", "crash")
    assert "SIGKILL" in shown["cause"]


@pytest.mark.slow
def test_an_unsafe_resume_says_what_it_does_and_waits_for_a_word(shared_fleet: Shell) -> None:
    """From 4 to 32 envs: the words name Adam and the gradient steps, exit 2; with --accept it trains with 32."""
    (run,) = shared_fleet.launch("tiny")
    shared_fleet.advancing(run)
    shared_fleet("stop", run)
    shared_fleet("wait", run, timeout_s=120)
    refused = shared_fleet("resume", run, "--set", "env.n_envs=32")
    words = refused.stdout + refused.stderr
    assert refused.returncode == 2
    assert "Adam" in words
    assert "gradient steps" in words
    assert shared_fleet.view(run)["state"] == "ended"
    already = shared_fleet.view(run)["timesteps"]
    assert shared_fleet("resume", run, "--set", "env.n_envs=32", "--accept").returncode == 0
    shared_fleet.advancing(run, already)
    first = next(row for row in shared_fleet.rows(run) if row["kind"] == "update" and row["attempt"] == 2)
    assert first["timesteps"] - already == 32 * 64
    assert "n_envs = 32" in (shared_fleet.root / run / "attempts" / "2" / "effective.toml").read_text()


@pytest.fixture
def bystander(fleet: Shell) -> Iterator[psutil.Popen]:
    """A process of the same user that only looks related: it works in the fleet's folder."""
    process = psutil.Popen(["sleep", "600"], cwd=fleet.cwd)
    yield process
    process.kill()
    process.wait()


@pytest.mark.slow
def test_clean_names_and_removes_exactly_what_a_dead_run_left(fleet: Shell, bystander: psutil.Popen) -> None:
    """After SIGKILL of keeper and trainer with env workers stuck in `step()`: the workers are gone by themselves, and
    exactly the processes that their environments had started are listed, then removed."""
    (fleet.cwd / "stuck.py").write_text(STUCK)
    fleet.environ["PYTHONPATH"] = f"{fleet.cwd}:{REPOSITORY}"
    (run,) = fleet.launch(
        "tiny", "--set", "env.vec=workers", "--set", "env.n_workers=2", "--set", "env.id=stuck:Stuck-v0"
    )
    fleet.advancing(run)
    until(lambda: len(list(fleet.cwd.glob("*.stuck"))) == 2, 20, "an environment of each worker hangs")
    pids = fleet.view(run)["pids"]
    family = psutil.Process(pids["trainer"]).children(recursive=True)
    os.kill(pids["keeper"], signal.SIGKILL)
    os.kill(pids["trainer"], signal.SIGKILL)
    until(lambda: fleet.view(run)["state"] == "ended", 20)

    def left() -> set[int]:
        return {process.pid for process in family if process.is_running() and process.status() != "zombie"}

    def listed() -> set[int]:
        return {entry["pid"] for entry in fleet.json("clean")["stale"] if entry["kind"] == "process"}

    until(lambda: listed() == left(), 10, "exactly those that are left are listed")
    assert left() == {int(path.stem) for path in fleet.cwd.glob("*.stuck")}
    fleet.json("clean", "--yes")
    until(lambda: not left(), 10, "none of them is left")
    assert fleet.json("clean")["stale"] == []
    assert bystander.is_running()


@pytest.mark.slow
def test_an_exported_zip_is_stock_and_plays_the_same(shared_fleet: Shell) -> None:
    """`export` writes a zip that stock `PPO.load` opens, with the parameters of the last checkpoint."""
    (run,) = shared_fleet.launch("tiny", "--set", "run.total_timesteps=1024", "--seed", "7")
    assert shared_fleet("wait", run, timeout_s=120).returncode == 0
    out = shared_fleet.cwd / "policy.zip"
    assert shared_fleet("export", run, str(out)).returncode == 0
    from stable_baselines3 import PPO

    model = PPO.load(out, device="cpu")
    assert model.num_timesteps == 1024
    result = shared_fleet.json("evaluate", run, "--episodes", "10", timeout_s=120)
    assert result["episodes"] == 10
    assert result["ci95"][0] <= result["mean"] <= result["ci95"][1]
