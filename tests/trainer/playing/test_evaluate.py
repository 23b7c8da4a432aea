"""Evaluation plays what it promises: under the run's own rules, without favouring short episodes, repeatably."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
from msgspec import structs
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from mission_tui.envs import mission_files
from mission_tui.errors import PresetError
from mission_tui.records.jsonl import encode_line
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.checkpoint import read_manifest
from mission_tui.records.runs.code_files import write_rules
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.export import main as export
from mission_tui.trainer.playing import evaluate
from mission_tui.trainer.vec_env import episodes
from mission_tui.trainer.vec_env.episodes import PlayedEpisodes, play, summary
from tests.trainer.harness import PROBES, new_run, run_attempt, spec_with

BRIEF = {"total_timesteps": 128}


def trained(path: Path, **tables: dict[str, Any]) -> tuple[RunDir, str]:
    """A finished run and the name of its checkpoint."""
    ran = run_attempt(new_run(path, spec_with(**tables)))
    name = ran.ended().checkpoint
    assert name is not None
    return ran.run_dir, name


def evaluated(run_dir: RunDir, name: str, capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The result of an evaluation, which stdout and the file agree on."""
    out = run_dir.evaluations / f"{name}.json"
    capfd.readouterr()
    assert evaluate.main([str(run_dir.path), "--checkpoint", name, "--out", str(out), *words]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    result: dict[str, Any] = lines[-1]["result"]
    assert lines[-2]["done"] == lines[-2]["total"] == result["episodes"]
    assert json.loads(out.read_text()) == result
    return result


@pytest.mark.slow
def test_the_result_has_all_its_figures_and_repeats(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Same seed, same figures; another seed, other episodes."""
    run_dir, name = trained(tmp_path / "run", run=BRIEF)
    words = ("--episodes", "11", "--stochastic", "--seed")
    first, again, other = (evaluated(run_dir, name, capfd, *words, seed) for seed in ("5", "5", "6"))
    figures = ("mean", "std", "ci95", "lengths")
    assert {key: first[key] for key in figures} == {key: again[key] for key in figures}
    assert first["mean"] != other["mean"]
    assert first["ci95"][0] <= first["mean"] <= first["ci95"][1]
    assert (first["run"], first["checkpoint"], first["episodes"]) == ("run", "000000128", 11)
    assert (first["deterministic"], first["seed"], first["policy"], first["won"]) == (False, 5, "trained", None)
    assert len(first["checkpoint_sha256"]) == 64
    both = evaluated(run_dir, name, capfd, *words, "5", "--seeds", "2")
    assert (both["episodes"], both["by_seed"][0]) == (22, {"seed": 5, "mean": first["mean"]})
    assert both["mean"] == pytest.approx((both["by_seed"][0]["mean"] + both["by_seed"][1]["mean"]) / 2)


@pytest.mark.slow
def test_it_agrees_with_sb3s_own_evaluation(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The exported policy plays the same episodes under SB3: as many lanes, of which the last play the odd ones."""
    run_dir, name = trained(tmp_path / "run", run={"total_timesteps": 640})
    ours = evaluated(run_dir, name, capfd, "--episodes", "20", "--seed", "7")
    assert export([str(run_dir.path), "--checkpoint", name, str(tmp_path / "model.zip")]) == 0
    model = stable_baselines3.PPO.load(tmp_path / "model.zip", device="cpu")
    vec = DummyVecEnv([lambda: Monitor(gymnasium.make("CartPole-v1"))] * 8)
    vec.seed(7)
    returns, _ = evaluate_policy(model, vec, 20, return_episode_rewards=True)
    assert (ours["mean"], ours["std"]) == pytest.approx((np.mean(returns), np.std(returns)))


@pytest.mark.slow
def test_normaliser_statistics_are_those_of_the_checkpoint(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A normalised run is evaluated with raw returns, twice alike: playing does not move the statistics."""
    run_dir, name = trained(tmp_path / "run", env={"id": "Walk-v0", "normalize": True, **PROBES}, run=BRIEF)
    result = evaluated(run_dir, name, capfd, "--episodes", "4")
    assert (result["mean"], result["std"], result["won"]) == (10.0, 0.0, 1.0)
    assert result["outcomes"] == {"arrived": 4}


def refused(run_dir: RunDir, name: str, capfd: pytest.CaptureFixture[str]) -> str:
    """The sentence with which an evaluation is refused; nothing is written."""
    out = run_dir.evaluations / "refused.json"
    capfd.readouterr()
    assert evaluate.main([str(run_dir.path), "--checkpoint", name, "--episodes", "2", "--out", str(out)]) != 0
    assert not out.exists()
    return str(json.loads(capfd.readouterr().out.splitlines()[-1])["error"])


@pytest.mark.parametrize(
    ("env", "complaint"),
    [
        ({"id": "Acrobot-v1"}, "observations are Box(6,) now and were Box(4,)"),
        ({"normalize": True}, "had no normaliser and env.normalize of its run has one"),
    ],
)
def test_another_environment_is_refused_by_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], env: dict[str, Any], complaint: str
) -> None:
    """A checkpoint is not played in an environment of other spaces, nor with or without statistics that it had not."""
    run_dir, name = trained(tmp_path / "run", run=BRIEF)
    write_spec(run_dir.spec, spec_with(env=env, run=BRIEF))
    assert "spec.toml is not what checkpoint 000000128 was trained by any more" in refused(run_dir, name, capfd)
    folder = run_dir.checkpoints / name
    manifest = read_manifest(folder, name)
    taken = structs.replace(manifest, spec_sha256=hashlib.sha256(run_dir.spec.read_bytes()).hexdigest())
    (folder / "manifest.json").write_bytes(encode_line(taken))
    assert complaint in refused(run_dir, name, capfd)


def test_no_spec_but_the_sealed_one_is_trained_played_or_exported(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these processes reads it once more, and is told by its variables which one is meant."""
    run_dir, name = trained(tmp_path / "run", run=BRIEF)
    monkeypatch.setenv("MISSION_TUI_SPECS", json.dumps({"spec.toml": "0" * 64}))
    against = "spec.toml is not the spec that was sealed"
    assert against in refused(run_dir, name, capfd)
    assert export([str(run_dir.path), "--checkpoint", name, str(tmp_path / "x.zip")]) != 0
    assert against in capfd.readouterr().out
    assert run_attempt(run_dir, 2, name).exit_code != 0
    assert against in capfd.readouterr().err


@pytest.mark.slow
def test_missions_are_played_by_the_runs_own_rules(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Rules are read from the snapshot, and so is which outcomes count as won."""
    path = tmp_path / "run"
    run_dir = new_run(path, spec_with(env={"id": "MissionGym-v0", "config": "demo", "vec": "native"}, run=BRIEF))
    run_dir.snapshot.mkdir()
    for file in mission_files("demo"):
        shutil.copy(file, run_dir.snapshot)
    rules = run_dir.snapshot / "rules.toml"
    text = rules.read_text()
    limit = next(line for line in text.splitlines() if line.startswith("time_limit_s"))
    won = next(line for line in text.splitlines() if line.startswith("winning"))
    own = text.replace(limit, "time_limit_s = 2.0").replace(won, 'winning = ["timeout"]')
    rules.write_text(own)
    write_rules(run_dir.snapshot, {file.name: file.read_bytes() for file in run_dir.snapshot.iterdir()})
    name = run_attempt(run_dir).ended().checkpoint
    assert name is not None
    result = evaluated(run_dir, name, capfd, "--episodes", "6", "--policy", "random")
    assert result["outcomes"] == {"timeout": 6}
    assert (result["won"], result["policy"]) == (1.0, "random")
    sums = run_dir.snapshot / "SHA256SUMS"
    digests = sums.read_bytes()
    for file in sorted(run_dir.snapshot.glob("*.toml")):
        whole = file.read_bytes()
        for damage in (whole[:-1], whole + b"\n", whole.replace(b"0", b"1", 1), b""):
            file.write_bytes(damage)
            assert f"{file.name} has changed since the run was trained" in refused(run_dir, name, capfd)
        file.unlink()
        assert f"{file.name} has changed since the run was trained" in refused(run_dir, name, capfd)
        file.write_bytes(whole)
    rules.write_text(text)
    write_rules(run_dir.snapshot, {file.name: file.read_bytes() for file in run_dir.snapshot.glob("*.toml")})
    assert "SHA256SUMS has changed since the run was trained" in refused(run_dir, name, capfd)
    rules.write_text(own)
    sums.unlink()
    assert "SHA256SUMS has changed since the run was trained" in refused(run_dir, name, capfd)
    sums.write_bytes(digests)
    assert evaluated(run_dir, name, capfd, "--episodes", "2", "--policy", "random")["outcomes"] == {"timeout": 2}


@pytest.mark.slow
def test_rules_from_before_checkpoints_named_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Runs that kept their rules without digests are played, and refused once the rules are gone."""
    run_dir = new_run(tmp_path / "run", spec_with(env={"id": "MissionGym-v0", "config": "demo"}, run=BRIEF))
    run_dir.snapshot.mkdir()
    for file in mission_files("demo"):
        shutil.copy(file, run_dir.snapshot)
    name = run_attempt(run_dir).ended().checkpoint
    assert name is not None
    assert evaluated(run_dir, name, capfd, "--episodes", "1", "--policy", "random")["episodes"] == 1
    shutil.rmtree(run_dir.snapshot)
    assert "rules.toml is gone, and today's rules may differ" in refused(run_dir, name, capfd)


class Lengths(gymnasium.Env[Any, Any]):
    """Lane-seeded episodes of 1 or 50 steps, as likely; the return is the length."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.left = int(self.np_random.choice([1, 50]))
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        return np.zeros(1, dtype=np.float32), 1.0, self.left == 0, False, {}


@pytest.mark.slow
def test_short_episodes_are_not_counted_more_often() -> None:
    """With episodes of 1 and of 50 steps, equally likely, about half of those counted are long."""
    vec = DummyVecEnv([lambda: Monitor(Lengths())] * 8)
    heard: list[int] = []
    played = play(lambda _, __: np.zeros(8, dtype=np.int64), vec, 402, seed=1, progress=heard.append)
    assert heard == list(range(1, 403))
    assert Counter(played.lengths).keys() == {1, 50}
    assert 0.42 < np.mean(np.array(played.lengths) == 50) < 0.58


def test_an_episode_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would wait for it otherwise: the process has no one who listens once its client has left."""
    monkeypatch.setattr(episodes, "LONGEST", 49)
    vec = DummyVecEnv([lambda: Monitor(Lengths())] * 2)
    with pytest.raises(PresetError, match="has not ended within 49 steps"):
        play(lambda _, __: np.zeros(2, dtype=np.int64), vec, 100, seed=1, progress=lambda _: None)


def test_the_interval_is_one_of_the_mean() -> None:
    """Nothing is known of how others scatter where all are the same, or of two; a hundred coin flips have about a fifth
    around one half, for their mean and for the share that was won.
    """
    constant = PlayedEpisodes([3.0] * 5, [1] * 5)
    flips = PlayedEpisodes([0.0, 1.0] * 50, [1] * 100, Counter({"heads": 50, "tails": 50}))
    assert summary(constant, None)["ci95"] is None
    low, high = summary(flips, ("heads",))["ci95"]
    assert 0.15 < high - low < 0.25
    assert summary(flips, ("heads",))["won"] == 0.5
    assert summary(flips, ("heads",))["won_ci95"] == pytest.approx([0.4038, 0.5962], abs=1e-4)
    few = summary(PlayedEpisodes([3.0, 4.0], [1, 1], successes=[True]), None)
    assert (few["ci95"], few["won"], few["won_ci95"]) == (None, 1.0, [pytest.approx(0.2065, abs=1e-4), 1.0])


def test_a_checkpoint_that_is_not_there_is_said_on_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The error is a JSON line with the exit code; no file is written."""
    run_dir = new_run(tmp_path / "run", spec_with())
    out = tmp_path / "out.json"
    assert evaluate.main([str(run_dir.path), "--checkpoint", "000000001", "--out", str(out)]) == 1
    said = json.loads(capfd.readouterr().out)
    assert said["exit_code"] == 1
    assert "000000001" in said["error"]
    assert not out.exists()
