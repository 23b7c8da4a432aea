"""A stock `PPO.save` zip becomes a checkpoint of ours, read by a process that gave up what it does not need."""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import msgspec
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from mission_tui.trainer.import_checkpoint import main
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.faults.foreign_zips import Members, members, stock_model, written
from tests.trainer.forked import forked
from tests.trainer.harness import equal, new_run, run_attempt, spec_with


def imported(file: Path, folder: Path, **tables: dict[str, object]) -> tuple[int, dict[str, object]]:
    """Exit code and last line of the short process, as a fork."""
    code, said, _ = forked(main, (str(file), str(folder), "--run", "new"), msgspec.json.encode(spec_with(**tables)))
    return code, json.loads(said.splitlines()[-1])


def imported_anew(file: Path, folder: Path) -> tuple[int, dict[str, object]]:
    """The same of one that was started anew."""
    argv = [sys.executable, "-m", "mission_tui.trainer.import_checkpoint", str(file), str(folder)]
    spec = msgspec.json.encode(spec_with())
    done = subprocess.run([*argv, "--run", "new"], input=spec, capture_output=True, check=False, env={**os.environ})
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_weights_and_moments_come_along_and_training_goes_on(tmp_path: Path) -> None:
    """Parameters, Adam moments and counters equal the file's; a resume goes on from them, and is not called exact."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": 192}))
    code, said = imported_anew(written(tmp_path / "foreign.zip", members()), run_dir.checkpoints)
    assert code == 0, said
    boundary = load_checkpoint(run_dir.checkpoints / "000000064").boundary
    stock = stock_model()
    assert equal(dict(stock.policy.named_parameters()), boundary.parameters)
    first = next(name for name, _ in stock.policy.named_parameters())
    kept = stock.policy.optimizer.state_dict()["state"][0]
    assert th.equal(boundary.moments[f"{first}/exp_avg"], kept["exp_avg"])
    assert (boundary.timesteps, boundary.has_env_state) == (64, False)
    ran = run_attempt(run_dir, 2, "000000064")
    assert ran.exit_code == 0
    assert (ran.started().from_timesteps, ran.started().exact) == (64, False)
    assert ran.updates()[-1].timesteps == 192


@pytest.mark.slow
def test_another_network_is_refused_with_both_shapes(tmp_path: Path) -> None:
    """Shapes are compared with the preset's policy before anything is copied; nothing is left behind."""
    code, said = imported(
        written(tmp_path / "foreign.zip", members()), tmp_path / "checkpoints", ppo={"net_arch": [16]}
    )
    assert code == 1
    assert "[8, 4] in the file and [16, 4] in the preset's policy" in str(said["error"])
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.slow
def test_what_stays_behind_is_said(tmp_path: Path) -> None:
    """Settings that differ, another activation, a used-up budget and statistics that a pickle holds are named."""
    content = members()
    data = json.loads(content["data"])
    data["policy_kwargs"]["activation_fn"] = "<class 'torch.nn.modules.activation.ReLU'>"
    code, said = imported(
        written(tmp_path / "foreign.zip", content | {"data": json.dumps(data).encode()}),
        tmp_path / "checkpoints",
        env={"normalize": True},
        ppo={"gamma": 0.9},
        run={"total_timesteps": 64},
    )
    assert code == 0
    result = said["result"]
    assert isinstance(result, dict)
    notes = "; ".join(result["notes"])
    assert "gamma was 0.99 in the file and is 0.9 in the preset" in notes
    assert "activation_fn was ReLU in the file and is Tanh in the preset" in notes
    assert "resume it with a larger total" in notes
    assert "statistics begin anew: there is no foreign.vecnormalize.pkl" in notes


@pytest.mark.slow
@pytest.mark.parametrize("normalize", [True, False])
def test_statistics_that_an_export_left_beside_the_zip_come_along(tmp_path: Path, normalize: bool) -> None:
    """Its policy sees the inputs that it learned from; where the preset does not normalise, that is said."""
    stock: Any = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]))
    stock.reset()
    for _ in range(20):
        stock.step([1])
    stock.save(str(tmp_path / "foreign.vecnormalize.pkl"))
    code, said = imported(
        written(tmp_path / "foreign.zip", members()), tmp_path / "checkpoints", env={"normalize": normalize}
    )
    assert code == 0, said
    result = said["result"]
    assert isinstance(result, dict)
    notes = "; ".join(result["notes"])
    assert "begin anew" not in notes
    assert ("foreign.vecnormalize.pkl beside it is not used" in notes) is not normalize
    if normalize:
        kept: Any = load_checkpoint(tmp_path / "checkpoints" / "000000064").boundary.state["normalizer"]
        np.testing.assert_array_equal(kept["obs"]["array"]["mean"], stock.obs_rms.mean)
        assert kept["obs"]["array"]["count"] == stock.obs_rms.count


CONFINED = """
import os, sys
from pathlib import Path
from mission_tui.trainer.import_checkpoint import confine
here = Path(sys.argv[1])
confine(here / "foreign.zip", here / "checkpoints")
try:
    bytearray(3 << 30)
except MemoryError:
    print("memory")
try:
    with (here / "large").open("wb", buffering=0) as file:
        file.truncate(1 << 30)
except OSError as error:
    print("file")
try:
    if os.fork() == 0:
        os._exit(0)
except OSError:
    print("process")
"""


def test_the_process_that_reads_is_confined(tmp_path: Path) -> None:
    """Memory, the size of files and new processes are limited by the kernel before the file is opened."""
    (tmp_path / "foreign.zip").write_bytes(b"x")
    done = subprocess.run([sys.executable, "-c", CONFINED, str(tmp_path)], capture_output=True, text=True, check=True)
    # A superuser may always have another process.
    assert done.stdout.split() == (["memory", "file"] if os.getuid() == 0 else ["memory", "file", "process"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("RLIMIT_AS", ValueError("not allowed to raise maximum limit")),
        ("RLIMIT_FSIZE", OSError(22, "Invalid argument")),
        ("RLIMIT_NPROC", OverflowError("too large")),
    ],
)
def test_without_its_limits_the_file_is_not_opened(
    name: str, error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the kernel refuses one limit the import ends there, and nothing is written."""
    file = written(tmp_path / "foreign.zip", members())
    lower = resource.setrlimit

    def refuse(what: int, limits: tuple[int, int]) -> None:
        if what == getattr(resource, name):
            raise error
        lower(what, limits)

    monkeypatch.setattr(resource, "setrlimit", refuse)
    code, said = imported(file, tmp_path / "checkpoints")
    assert code == 1
    assert str(said["error"]).startswith("this process cannot be confined; the file was not opened: ")
    assert not (tmp_path / "checkpoints").exists()


def as_published(step: object, content: Members | None = None) -> Members:
    """What torch up to 1.11 and SB3 1.x left: Adam's step as a number, rates as pickled functions, no system info."""
    content = dict(content or members())
    optimizer = th.load(io.BytesIO(content["policy.optimizer.pth"]), weights_only=True)
    for kept in optimizer["state"].values():
        kept["step"] = step
    file = io.BytesIO()
    th.save(optimizer, file)
    data = json.loads(content["data"])
    function = {":type:": "<class 'function'>", ":serialized:": "gAWVCgAAAAAAAAB9lC4="}
    data |= {"clip_range": function, "lr_schedule": function, "seed": 2**32 - 5}
    for space in ("observation_space", "action_space"):
        data[space] = {**data[space], ":type:": "<class 'gym.spaces.box.Box'>"}
    content.pop("system_info.txt", None)
    return content | {"policy.optimizer.pth": file.getvalue(), "data": json.dumps(data).encode()}


STEPS = {"number": 16, "integer": th.tensor(16), "list of one": th.tensor([16.0]), "as today": th.tensor(16.0)}


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", STEPS)
def test_an_agent_that_torch_of_old_saved_comes_along(kind: str, tmp_path: Path) -> None:
    """Up to 1.11 Adam counted its steps in a number; training goes on with that count, whatever it was kept in."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": 192, "seed": 2**32 - 5}))
    file = written(tmp_path / "foreign.zip", as_published(STEPS[kind]))
    code, said = imported(file, run_dir.checkpoints, run={"seed": 2**32 - 5})
    assert code == 0, said
    moments = load_checkpoint(run_dir.checkpoints / "000000064").boundary.moments
    steps = [tensor for name, tensor in moments.items() if name.endswith("/step")]
    assert {(float(step), step.dtype) for step in steps} == {(16.0, th.float32)}
    assert run_attempt(run_dir, 2, "000000064").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("step", [-1, 10**16, True, 3.5, "9", None, th.tensor(True)], ids=str)
def test_a_count_of_steps_that_is_none_is_refused(step: object, tmp_path: Path) -> None:
    """Only a whole number that somebody may have counted to stands for the tensor of today."""
    code, said = imported(written(tmp_path / "foreign.zip", as_published(step)), tmp_path / "checkpoints")
    assert code == 1
    assert "/step is" in str(said["error"])
