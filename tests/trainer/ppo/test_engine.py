"""`run.engine`: which PPO trains a run, and that a run does not learn anything else for it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger

from mission_tui.trainer.ppo import FastPPO
from mission_tui.trainer.state.boundary import Tensors
from tests.trainer.harness import Ran, new_run, run_attempt, spec_with, stop_in


def learned(threads: int) -> bytes:
    """The parameters that two updates on so many threads come to."""
    th.set_num_threads(threads)
    environments = make_vec_env("CartPole-v1", 8)
    model = FastPPO("MlpPolicy", environments, n_steps=64, batch_size=128, seed=1, device="cpu")
    model.set_logger(Logger(None, []))
    model._setup_learn(0)
    for _ in range(2):
        model.collect()
        model.update()
    environments.close()
    return b"".join(parameter.detach().numpy().tobytes() for parameter in model.policy.parameters())


def ran(path: Path, engine: str) -> Ran:
    """A whole tiny run by `engine`."""
    return run_attempt(new_run(path, spec_with(run={"engine": engine})))


@pytest.mark.parametrize("engine", ["fast", "stock"])
def test_the_engine_that_runs_is_written_down(tmp_path: Path, engine: str) -> None:
    """`effective.toml` reads it back from the model."""
    effective = tomllib.loads(ran(tmp_path / "run", engine).run_dir.attempt(1).effective.read_text())
    assert effective["run"]["engine"] == engine


def test_what_a_cpu_does_not_have_is_not_claimed(tmp_path: Path) -> None:
    """TF32 is wanted by default and not used on a CPU; `effective.toml` says so, and why."""
    effective = tomllib.loads(ran(tmp_path / "run", "fast").run_dir.attempt(1).effective.read_text())
    assert effective["run"]["tf32"] is False
    assert effective["reasons"]["run.tf32"] == "not used: TF32 exists on CUDA only"


@pytest.mark.slow
def test_both_engines_end_with_the_same_parameters(tmp_path: Path) -> None:
    """Six updates of two CartPoles, within rounding; two lanes fill no matrix kernel."""
    fast, stock = ran(tmp_path / "fast", "fast"), ran(tmp_path / "stock", "stock")
    assert alike(fast.parameters(), stock.parameters())


@pytest.mark.slow
def test_a_checkpoint_of_one_engine_goes_on_in_the_other(tmp_path: Path) -> None:
    """Parameters and moments have the same names and shapes, and the rest of the run is the same within rounding."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"engine": "stock"}))
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    text = run_dir.spec.read_text()
    run_dir.spec.write_text(text.replace('engine = "stock"', 'engine = "fast"'))
    assert run_dir.spec.read_text() != text
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert alike(second.parameters(), ran(tmp_path / "whole", "stock").parameters())
    assert not second.started().exact


def test_a_seed_learns_the_same_by_one_thread_and_by_two() -> None:
    """From the first parameters on, to the last bit: torch makes orthogonal ones otherwise on several threads."""
    threads = th.get_num_threads()
    try:
        assert learned(1) == learned(2)
    finally:
        th.set_num_threads(threads)


def alike(mine: Tensors, theirs: Tensors) -> bool:
    """Whether both hold the same tensors up to what differs by rounding."""
    return mine.keys() == theirs.keys() and all(
        th.allclose(mine[name], theirs[name], rtol=0.0, atol=1e-5) for name in mine
    )
