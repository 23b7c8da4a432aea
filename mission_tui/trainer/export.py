"""``python -m mission_tui.trainer.export RUN_DIR --checkpoint NAME FILE.zip``: a checkpoint as an ordinary SB3 zip.

`load` of the run's algorithm opens it, in a plain Stable-Baselines3 or sb3-contrib. Statistics of a
normalised run go beside it, in SB3's own format, as ``FILE.vecnormalize.pkl``. Writing is the only place where this
project pickles, because SB3's formats are pickles.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import stable_baselines3
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from mission_tui.errors import CheckpointError
from mission_tui.fleet.specs.sb3_algorithms import OtherAlgorithm, other_algorithm
from mission_tui.fleet.specs.spec import Algo, Spec
from mission_tui.plain_files import open_fresh
from mission_tui.records.atomic import storing
from mission_tui.records.runs.attempt import read_sealed_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.sb3_run.normalizer_file import STATISTICS
from mission_tui.trainer.building.model import build_learner, learner_arguments, ppo_arguments
from mission_tui.trainer.named_parts import check_contrib
from mission_tui.trainer.process import Say, answer, lower_priority
from mission_tui.trainer.spaces import described_space
from mission_tui.trainer.state.boundary import (
    Boundary,
    put_all_moments,
    put_learned,
    put_moments,
    put_parameters,
    restore_normalizer,
)
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.torch_compiler import use_plain_optimizers
from mission_tui.trainer.vec_env import build_vec_env, in_this_process, spaces_alone


def main(arguments: list[str] | None = None) -> int:
    """Export; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.export", description="Write a checkpoint as an SB3 zip.")
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("file", type=Path)
    parsed = parser.parse_args(arguments)
    lower_priority(own_session=False)
    use_plain_optimizers()
    return answer(lambda say: _export(RunDir(parsed.run_dir.resolve()), parsed.checkpoint, parsed.file, say))


def _export(run_dir: RunDir, checkpoint: str, file: Path, say: Say) -> None:
    loaded = load_checkpoint(run_dir.checkpoints / checkpoint)
    spec = read_sealed_spec(run_dir, loaded.manifest.attempt, os.environ)
    vec = _vec(spec, run_dir, loaded.boundary)
    try:
        model = _stock_model(spec, vec, loaded.boundary)
        _replace(file, model.save)
        normalized = unwrap_vec_normalize(vec)
        normalizer = None if normalized is None else _save_normalizer(normalized, loaded.boundary, file)
    finally:
        vec.close()
    say({"result": {"path": str(file), "checkpoint": loaded.manifest.name, "normalizer": normalizer}})


def _vec(spec: Spec, run_dir: RunDir, boundary: Boundary) -> VecEnv:
    """The environment for its spaces: they are in the checkpoint, but for those that older versions made.

    So an export asks for nothing that the environment would: no files, no variables, not even its packages.
    """
    said = boundary.state.get("spaces")
    if said is None:
        return build_vec_env(in_this_process(spec), run_dir.snapshot).vec
    try:
        spaces = described_space(said["observations"]), described_space(said["actions"])
    except (KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint's description of its spaces cannot be read: {error!r}") from error
    return spaces_alone(spec, *spaces)


def _stock_model(spec: Spec, vec: Any, boundary: Boundary) -> Any:
    """The algorithm as SB3 or sb3-contrib has it, with the run's arguments, standing where the checkpoint was taken."""
    if (other := other_algorithm(spec.run.algo)) is not None:
        return _other_model(spec, other, vec, boundary)
    facts, cls, arguments = boundary.state["facts"], _stock_class(spec.ppo.algo), ppo_arguments(spec)
    if spec.ppo.algo == "maskable_ppo":
        # It has discrete actions only, and so no such arguments.
        arguments = {name: value for name, value in arguments.items() if name not in ("use_sde", "sde_sample_freq")}
    with warnings.catch_warnings():
        # Built on one environment, only for its spaces; the minibatch divides the real buffer, not this one.
        warnings.simplefilter("ignore", UserWarning)
        model = cls(env=vec, seed=facts["seed"], device="cpu", _init_setup_model=False, **arguments)
    model.n_envs = spec.env.n_envs
    model._setup_model()
    put_parameters(model.policy, boundary.parameters)
    put_moments(dict(model.policy.named_parameters()), boundary.moments, model.policy.optimizer)
    model.num_timesteps, model._n_updates = boundary.timesteps, boundary.state["n_updates"]
    return model


def _other_model(spec: Spec, other: OtherAlgorithm, vec: Any, boundary: Boundary) -> Any:
    """The same of another algorithm, whose class is SB3's own already; its replay buffer is no part of such a file."""
    buffer = {"buffer_size": 2 * vec.num_envs} if other.off_policy else {}
    arguments = learner_arguments(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = build_learner(spec, {**arguments, **buffer}, vec, boundary.state["facts"]["seed"], "cpu")
    put_learned(model, boundary.parameters)
    put_all_moments(model, boundary.moments)
    model.n_envs = spec.env.n_envs
    model.num_timesteps, model._n_updates = boundary.timesteps, boundary.state["n_updates"]
    if other.off_policy:
        model.buffer_size = arguments["buffer_size"]  # type: ignore[attr-defined]
    if (counters := boundary.state.get("counters")) is not None:
        model.count_from({name: value for name, value in counters.items() if name != "last_original_obs"})
    return model


def _stock_class(algo: Algo) -> Any:
    if algo == "ppo":
        return stable_baselines3.PPO
    check_contrib(algo)
    import sb3_contrib

    return sb3_contrib.MaskablePPO if algo == "maskable_ppo" else sb3_contrib.RecurrentPPO


def _save_normalizer(vec: VecNormalize, boundary: Boundary, file: Path) -> str:
    restore_normalizer(vec, boundary.state["normalizer"], lanes=False)
    beside = file.with_suffix(STATISTICS)
    # As its `save` does, which takes no file that is open.
    _replace(beside, lambda opened: pickle.dump(vec, opened))
    return str(beside)


def _replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Have `write` fill a sibling of `path` that then takes its place, so that no half of a file is ever there.

    The sibling is a new file, whatever bore its name: whoever else may write in the folder can foretell that.
    """
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    sibling = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with storing(path):
            with os.fdopen(open_fresh(sibling, 0o666), "wb") as opened:
                write(opened)
            sibling.replace(path)
    finally:
        sibling.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
