"""An exported checkpoint is an ordinary SB3 model to an ordinary SB3."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

from mission_tui.records.atomic import StorageError
from mission_tui.records.sb3_run.normalizer_file import read_statistics
from mission_tui.trainer.building.model import build_ppo, ppo_arguments
from mission_tui.trainer.export import _replace, _vec, main
from mission_tui.trainer.spaces import described, described_space
from mission_tui.trainer.state.boundary import restore_learner
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.tree import read_tree, write_tree
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.harness import equal, new_run, run_attempt, spec_with

CASES: dict[str, dict[str, Any]] = {
    "discrete": {"ppo": {"learning_rate": {"start": 1e-3, "end": 0.0}}},
    "gSDE": {"env": {"id": "Pendulum-v1", "normalize": True}, "ppo": {"use_sde": True}},
    "several heads": {"env": {"id": "MissionGym-v0", "config": "demo", "vec": "native"}},
}


@pytest.mark.parametrize("tables", CASES.values(), ids=CASES.keys())
def test_ppo_load_opens_it_and_predicts_the_same_actions(
    tables: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Parameters, Adam moments and predicted actions equal those of the checkpoint; statistics lie beside it."""
    spec = spec_with(**tables, run={"total_timesteps": 128})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    capfd.readouterr()
    file = tmp_path / "out" / "model.zip"
    assert main([str(ran.run_dir.path), "--checkpoint", "000000128", str(file)]) == 0
    result = json.loads(capfd.readouterr().out)["result"]
    assert (result["path"], result["checkpoint"]) == (str(file), "000000128")
    loaded = stable_baselines3.PPO.load(file, device="cpu")
    boundary = load_checkpoint(ran.run_dir.checkpoints / "000000128").boundary
    assert equal(dict(loaded.policy.named_parameters()), boundary.parameters)
    assert all(int(state["step"]) > 0 for state in loaded.policy.optimizer.state.values())
    assert (loaded.num_timesteps, loaded.n_envs, loaded.n_steps) == (128, 2, 32)
    ours = build_ppo(ppo_arguments(spec), build_vec_env(spec, None).vec, 0, "cpu")
    restore_learner(ours, boundary)
    observations = np.stack([ours.observation_space.sample() for _ in range(16)]).clip(-3, 3)
    mine, theirs = (model.predict(observations, deterministic=True)[0] for model in (ours, loaded))
    np.testing.assert_array_equal(mine, theirs)
    assert loaded.lr_schedule(0.5) == ours.lr_schedule(0.5)
    assert sorted(path.name for path in file.parent.iterdir()) == (
        ["model.vecnormalize.pkl", "model.zip"] if result["normalizer"] else ["model.zip"]
    )


def test_the_normaliser_opens_in_sb3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`VecNormalize.load` gives the statistics that the run had, and so does reading them back without it."""
    spec = spec_with(**CASES["gSDE"], run={"total_timesteps": 128})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    main([str(ran.run_dir.path), "--checkpoint", "000000128", str(tmp_path / "model.zip")])
    raw = build_vec_env(spec_with(env={"id": "Pendulum-v1"}), None).vec
    loaded: Any = VecNormalize.load(str(tmp_path / "model.vecnormalize.pkl"), raw)
    kept = load_checkpoint(ran.run_dir.checkpoints / "000000128").boundary.state["normalizer"]
    np.testing.assert_array_equal(loaded.obs_rms.mean, kept["obs"]["array"]["mean"])
    np.testing.assert_array_equal(loaded.ret_rms.var, kept["ret"]["var"])
    assert loaded.reset().shape == (2, 3)
    assert b"mission_tui" not in (tmp_path / "model.vecnormalize.pkl").read_bytes()
    again = read_statistics(tmp_path / "model.vecnormalize.pkl")
    np.testing.assert_array_equal(np.frombuffer(again.obs["array"].mean.raw), kept["obs"]["array"]["mean"])


@pytest.mark.slow
def test_a_plain_python_without_this_project_opens_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing in the zip refers to our modules."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(**CASES["discrete"], run={"total_timesteps": 128})))
    file = tmp_path / "model.zip"
    assert main([str(ran.run_dir.path), "--checkpoint", "000000128", str(file)]) == 0
    code = (
        "import sys, stable_baselines3; stable_baselines3.PPO.load(sys.argv[1], device='cpu'); "
        "assert not [name for name in sys.modules if name.startswith('mission_tui')]"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], cwd=tmp_path, check=True, timeout=55)


def test_training_can_go_on_in_sb3(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Loaded with an environment, the export learns on."""
    spec = spec_with(run={"total_timesteps": 128})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    file = tmp_path / "model.zip"
    assert main([str(ran.run_dir.path), "--checkpoint", "000000128", str(file)]) == 0
    model = stable_baselines3.PPO.load(file, env=build_vec_env(spec, None).vec, device="cpu")
    before = th.nn.utils.parameters_to_vector(model.policy.parameters()).clone()
    model.set_logger(stable_baselines3.common.logger.Logger(None, []))
    model.learn(64, reset_num_timesteps=False)
    assert model.num_timesteps == 192
    assert not th.equal(before, th.nn.utils.parameters_to_vector(model.policy.parameters()))


def test_a_failed_export_leaves_no_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a checkpoint nothing appears at the path."""
    run_dir = new_run(tmp_path / "run", spec_with())
    assert main([str(run_dir.path), "--checkpoint", "000000128", str(tmp_path / "model.zip")]) == 1
    assert "000000128" in json.loads(capfd.readouterr().out)["error"]
    assert not (tmp_path / "model.zip").exists()


class Keyed(gymnasium.Env[Any, Any]):
    """An environment that cannot be made without a variable of its run."""

    observation_space = spaces.Dict(
        {"at": spaces.Box(-1.0, np.array([1.0, 2.0], np.float32)), "on": spaces.Discrete(3)}
    )
    action_space = spaces.MultiDiscrete([2, 3])

    def __init__(self) -> None:
        self.key = os.environ["EXPORT_TEST_KEY"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Somewhere."""
        super().reset(seed=seed)
        return {"at": np.zeros(2, np.float32), "on": np.int64(1)}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Over after ten."""
        return self.reset()[0], 1.0, bool(self.np_random.random() < 0.1), False, {}


gymnasium.register("ExportKeyed-v0", "tests.trainer.test_export:Keyed")


def test_an_export_needs_neither_the_environment_nor_its_variables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its constructor raises without its key; the spaces lie in the checkpoint, and SB3 opens the zip."""
    env = {"id": "ExportKeyed-v0", "imports": ["tests.trainer.test_export"]}
    spec = spec_with(env=env, ppo={"policy": "MultiInputPolicy"}, run={"total_timesteps": 128})
    with monkeypatch.context() as there:
        there.setenv("EXPORT_TEST_KEY", "1")
        ran = run_attempt(new_run(tmp_path / "run", spec))
    file = tmp_path / "model.zip"
    assert main([str(ran.run_dir.path), "--checkpoint", "000000128", str(file)]) == 0, capfd.readouterr().out
    loaded = stable_baselines3.PPO.load(file, device="cpu")
    assert (loaded.observation_space, loaded.action_space) == (Keyed.observation_space, Keyed.action_space)
    boundary = load_checkpoint(ran.run_dir.checkpoints / "000000128").boundary
    assert equal(dict(loaded.policy.named_parameters()), boundary.parameters)


def test_an_older_checkpoint_has_its_environment_made(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One without spaces is exported as it was before."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(run={"total_timesteps": 128})))
    boundary = load_checkpoint(ran.run_dir.checkpoints / "000000128").boundary
    del boundary.state["spaces"]
    assert _vec(spec_with(), ran.run_dir, boundary).observation_space == gymnasium.make("CartPole-v1").observation_space


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (84, 84, 4), np.uint8),
        spaces.Box(np.array([-np.inf, 0.0]), np.array([np.inf, 1.5]), dtype=np.float64),
        spaces.Discrete(4, start=-1),
        spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])),
        spaces.MultiBinary(5),
        spaces.MultiBinary([2, 3]),
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"x": spaces.Box(-1, 1, (2,))})}),
    ],
    ids=str,
)
def test_a_space_comes_back_from_its_description(space: spaces.Space[Any], tmp_path: Path) -> None:
    """Through the files of a checkpoint, equal in bounds, type and order; one of a kind of its own has none."""
    write_tree({"space": described(space)}, tmp_path / "state")
    back = described_space(read_tree(tmp_path / "state")["space"])
    assert back == space
    assert back.dtype == space.dtype
    assert described(spaces.Text(4)) is None


def test_an_export_that_finds_no_room_names_the_file_and_leaves_none(tmp_path: Path) -> None:
    """A person is to free some space, and not to look for an error of the program."""
    file = tmp_path / "out" / "model.zip"

    def write(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StorageError, match=f"cannot write {file}: No space left on device; free some disk space there"):
        _replace(file, write)
    assert list(file.parent.iterdir()) == []


def test_an_export_is_written_through_no_link(tmp_path: Path) -> None:
    """Whoever may write in the folder puts links there, also under the name that it has until it is whole."""
    theirs = tmp_path / "precious"
    theirs.write_text("kept")
    for name in ("run.zip", f".run.zip.{os.getpid()}.tmp", f".run.{os.getpid()}.tmp.zip"):
        (tmp_path / name).symlink_to(theirs)
    _replace(tmp_path / "run.zip", lambda opened: opened.write(b"a policy"))
    assert (tmp_path / "run.zip").read_bytes() == b"a policy"
    assert not (tmp_path / "run.zip").is_symlink()
    assert theirs.read_text() == "kept"
