"""When checkpoints are taken, what stays of them, and that a spoilt one is never loaded or written."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.spec import CheckpointKeep
from mission_tui.records.runs.checkpoint import list_checkpoints, newest_verified
from mission_tui.trainer.building.model import build_ppo
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.record import Record
from mission_tui.trainer.state import boundary as boundaries
from mission_tui.trainer.state import checkpoint
from mission_tui.trainer.state.boundary import (
    Boundary,
    Progress,
    capture,
    put_parameters,
    read_tensors,
    restore_envs,
    restore_learner,
    write_tensors,
)
from mission_tui.trainer.state.checkpoint import Checkpoints, load_checkpoint
from mission_tui.trainer.vec_env import build_vec_env
from tests.trainer.harness import PROBES, equal, new_run, order_in, run_attempt, spec_with, stop_in


def names(path: Path) -> list[str]:
    """Names of the checkpoints of run directory `path`, oldest first."""
    return [manifest.name for manifest in list_checkpoints(path / "checkpoints")]


def test_the_end_of_a_run_is_saved_and_recorded(tmp_path: Path) -> None:
    """The last boundary is a verified checkpoint, named in the end record, pointed to by `latest`."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with()))
    (saved,) = ran.saves()
    assert (saved.reason, saved.name, saved.update, saved.timesteps) == ("end", "000000384", 6, 384)
    assert ran.ended().checkpoint == saved.name
    manifest = newest_verified(ran.run_dir.checkpoints)
    assert manifest is not None
    assert (manifest.name, manifest.size_bytes) == (saved.name, saved.size_bytes)
    assert manifest.extra["env_state"] is True
    assert manifest.extra["obs"] == "Box(4,)"
    assert (ran.run_dir.checkpoints / "latest").read_text() == "000000384\n"


def test_a_checkpoint_holds_plain_files_only(tmp_path: Path) -> None:
    """Tensors are safetensors, the rest JSON and arrays that load without pickle."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(env={"normalize": True})))
    folder = ran.run_dir.checkpoints / "000000384"
    files = {path.name for path in folder.iterdir()}
    assert files == {"policy.safetensors", "optimizer.safetensors", "state.json", "state.npz", "manifest.json"}
    with np.load(folder / "state.npz", allow_pickle=False) as arrays:
        assert {"normalizer/obs/array/mean", "random/torch", "last_obs"} <= set(arrays.files)
        assert all(arrays[name].dtype != object for name in arrays.files)


def test_checkpoints_by_steps_are_taken_at_boundaries_and_pruned(tmp_path: Path) -> None:
    """Every 64 steps one is saved, and with `last = 2` two stay; with a spread, some of the whole run besides."""
    keep = {"checkpoint": {"every_steps": 64, "last": 2, "spread": 0}}
    ran = run_attempt(new_run(tmp_path / "run", spec_with(keep=keep)))
    assert [(row.reason, row.update) for row in ran.saves()] == [("steps", n) for n in (1, 2, 3, 4, 5)] + [("end", 6)]
    assert names(tmp_path / "run") == ["000000320", "000000384"]
    keep["checkpoint"]["spread"] = 2
    run_attempt(new_run(tmp_path / "spread", spec_with(keep=keep)))
    assert names(tmp_path / "spread") == ["000000064", "000000192", "000000320", "000000384"]


def test_checkpoints_by_time_are_taken(tmp_path: Path) -> None:
    """An interval shorter than an update saves at every boundary but the first, where nothing was learned."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(keep={"checkpoint": {"every_s": 1e-6}})))
    assert [(row.reason, row.update) for row in ran.saves()] == [("time", n) for n in (1, 2, 3, 4, 5)] + [("end", 6)]


def test_what_an_attempt_started_from_is_never_pruned(tmp_path: Path) -> None:
    """The starts of attempts 2 and 3 outlive all newer checkpoints."""
    keep = {"checkpoint": {"every_steps": 64, "last": 2, "spread": 0}}
    run_dir = new_run(tmp_path / "run", spec_with(keep=keep))
    run_attempt(run_dir, hook=stop_in("rollout", 1))
    run_attempt(run_dir, 2, "000000064", hook=stop_in("rollout", 2))
    run_attempt(run_dir, 3, "000000128")
    assert names(tmp_path / "run") == ["000000064", "000000128", "000000320", "000000384"]


def test_a_checkpoint_that_was_asked_for_is_taken_at_the_next_boundary(tmp_path: Path) -> None:
    """Asked during update 3, it holds the boundary after it, and training goes on."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with()), hook=order_in("update", 2, "checkpoint"))
    assert [(row.reason, row.update) for row in ran.saves()] == [("asked", 3), ("end", 6)]


def test_the_same_boundary_is_not_saved_twice(tmp_path: Path) -> None:
    """A stop right after a checkpoint names that one instead of writing it again."""
    spec = spec_with(keep={"checkpoint": {"every_steps": 64}})
    ran = run_attempt(new_run(tmp_path / "run", spec), hook=stop_in("rollout", 2))
    assert [row.update for row in ran.saves()] == [1, 2]
    assert ran.ended().checkpoint == "000000128"


@pytest.mark.parametrize("member", ["policy.safetensors", "optimizer.safetensors", "state.json", "state.npz"])
def test_a_flipped_byte_in_any_member_is_found(member: str, tmp_path: Path) -> None:
    """A damaged checkpoint ends the attempt with a sentence instead of loading."""
    run_dir = new_run(tmp_path / "run", spec_with())
    run_attempt(run_dir)
    path = run_dir.checkpoints / "000000384" / member
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    ran = run_attempt(run_dir, 2, "000000384")
    assert ran.exit_code == 1
    assert member in ran.ended().cause


@pytest.mark.parametrize("data", [b"", b"\x80\x04K\x01.", b"\xff" * 64, b"\x10\0\0\0\0\0\0\0{}"])
def test_what_is_no_tensor_file_is_refused(data: bytes, tmp_path: Path) -> None:
    """Empty, a pickle, noise, or a header that lies: one kind of error."""
    path = tmp_path / "policy.safetensors"
    path.write_bytes(data)
    with pytest.raises(CheckpointError):
        read_tensors(path)


def test_a_panic_without_memory_is_a_memory_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rust's panic is no `Exception`, and would end the run without its last record; an interrupt stays one."""
    panic = type("PanicException", (BaseException,), {})
    raised: list[BaseException] = [panic("PyObject pointer is null"), KeyboardInterrupt()]

    def fail(_: object) -> bytes:
        raise raised.pop(0)

    monkeypatch.setattr(boundaries, "save", fail)
    with pytest.raises(MemoryError, match="PyObject pointer is null"):
        write_tensors({}, tmp_path / "file")
    with pytest.raises(KeyboardInterrupt):
        write_tensors({}, tmp_path / "file")


def test_shared_modules_are_kept_once(tmp_path: Path) -> None:
    """A CNN that actor and critic share is one set of tensors in the file, and comes back into both."""
    env = {"id": "ImageWalk-v0", **PROBES}
    ran = run_attempt(
        new_run(tmp_path / "run", spec_with(env=env, ppo={"policy": "CnnPolicy"}, run={"total_timesteps": 64}))
    )
    parameters = ran.parameters()
    assert not any(name.startswith(("pi_features_extractor", "vf_features_extractor")) for name in parameters)
    write_tensors(parameters, tmp_path / "copy.safetensors")
    assert equal(read_tensors(tmp_path / "copy.safetensors"), parameters)


def model_and_boundary(**tables: Any) -> tuple[PPO, Boundary]:
    """A model after one rollout and update, and its boundary before them."""
    spec = spec_with(**tables)
    arguments = {"policy": "MlpPolicy", "n_steps": 32, "batch_size": 32, "n_epochs": 1}
    model = build_ppo(arguments, build_vec_env(spec, None).vec, 3, "cpu")
    model._setup_learn(0)
    boundary = capture(model, Progress(), {})
    assert model.collect() is not None
    assert model.update() is not None
    return model, boundary


def test_a_boundary_shares_nothing_with_the_live_model() -> None:
    """Training on changes no number of it; put back, the same future follows."""
    model, boundary = model_and_boundary(env={"normalize": True})
    untouched = {name: tensor.clone() for name, tensor in boundary.parameters.items()}
    model.collect()
    model.update()
    assert equal(boundary.parameters, untouched)
    after = {name: tensor.clone() for name, tensor in model.policy.named_parameters()}
    restore_learner(model, boundary)
    assert restore_envs(model, boundary)
    assert model.num_timesteps == 0
    assert not equal(dict(model.policy.named_parameters()), after)
    assert equal(dict(model.policy.named_parameters()), untouched)


@pytest.mark.parametrize("part", ["parameters", "moments"])
def test_a_spoilt_boundary_gets_no_name(part: str, tmp_path: Path) -> None:
    """Weights or moments that are not finite are refused before anything is written; the checkpoint before stays."""
    run_dir = new_run(tmp_path / "run", spec_with())
    run_attempt(run_dir)
    loaded = load_checkpoint(run_dir.checkpoints / "000000384")
    tensors = getattr(loaded.boundary, part)
    name = next(name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.dim())
    tensors[name].view(-1)[-1] = float("nan")
    spoilt = replace(loaded.boundary, update=7, timesteps=448)
    with Record(run_dir, 1, lambda _message: None) as record:
        checkpoints = Checkpoints(run_dir, 1, run_dir.spec, CheckpointKeep(), record)
        with pytest.raises(CheckpointError, match=f"{name} at update 7 is nan or infinite"):
            checkpoints.save(spoilt, "asked", {})
    assert names(tmp_path / "run") == ["000000384"]


def test_a_normaliser_that_is_gone_is_refused() -> None:
    """Weights trained on normalised observations are not put before raw ones."""
    _, boundary = model_and_boundary(env={"normalize": True})
    model, _ = model_and_boundary()
    with pytest.raises(CheckpointError, match=r"env\.normalize"):
        restore_learner(model, boundary)


def test_parameters_of_another_policy_are_refused_before_anything_changes() -> None:
    """A missing name and a wrong shape are both found."""
    model, boundary = model_and_boundary()
    with pytest.raises(CheckpointError, match=r"value_net.bias is missing in the checkpoint"):
        put_parameters(model.policy, {k: v for k, v in boundary.parameters.items() if k != "value_net.bias"})
    with pytest.raises(CheckpointError, match=r"value_net.bias is \[7\] there and \[1\] here"):
        put_parameters(model.policy, {**boundary.parameters, "value_net.bias": th.zeros(7)})


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"a": 1}, "has no trained_s in its state"),
        ({"trained_s": "long"}, "has trained_s = long in its state"),
        ({"trained_s": float("nan")}, "has trained_s = nan in its state"),
        ({"trained_s": -1.0}, "has trained_s = -1.0 in its state"),
    ],
)
def test_a_state_without_its_seconds_is_refused_as_that(
    state: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what stands there."""
    run_attempt(run_dir := new_run(tmp_path / "run", spec_with()))
    monkeypatch.setattr(checkpoint, "read_tree", lambda _: state)
    with pytest.raises(CheckpointError, match=said):
        load_checkpoint(run_dir.checkpoints / "000000384")


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    """Loading what is not there says which folder."""
    with pytest.raises(CheckpointError, match="000000999"):
        load_checkpoint(tmp_path / "000000999")
