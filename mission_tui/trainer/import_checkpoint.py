"""``python -m mission_tui.trainer.import_checkpoint FILE.zip FOLDER``: a stock `PPO.save` zip as a checkpoint of ours.

The spec comes as JSON on stdin. What its preset asks for is built first; then the process takes every right away that
reading does not need, and only then is the foreign file opened. The checkpoint is written into FOLDER.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import torch as th
from stable_baselines3.common.vec_env import VecNormalize

from mission_tui.errors import CheckpointError
from mission_tui.fleet.sizes import plan_batch
from mission_tui.fleet.spec import Spec
from mission_tui.records.checkpoint import CheckpointFacts, save_checkpoint
from mission_tui.trainer.arguments import ppo_arguments
from mission_tui.trainer.boundary import Boundary, Progress, capture
from mission_tui.trainer.checkpoint import checkpoint_name, fill_checkpoint
from mission_tui.trainer.confinement import confine
from mission_tui.trainer.eager import leave_compiler_out
from mission_tui.trainer.effective import versions
from mission_tui.trainer.foreign import ForeignModel, read_foreign
from mission_tui.trainer.json_lines import Say, answer, asked_spec
from mission_tui.trainer.model import build_scratch
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.process import cap_threads, lower_priority
from mission_tui.trainer.resume import facts_of
from mission_tui.trainer.tensors import copy_moments, copy_parameters
from mission_tui.trainer.vec_env import build_vec_env, in_this_process

__all__ = ["main"]

_COMPARED = ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "n_steps")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked for: the zip, the run's id, its rules, and the folder that checkpoints go into."""

    file: Path
    run: str
    snapshot: Path | None
    checkpoints: Path


def main(arguments: list[str] | None = None) -> int:
    """Import; returns the exit code."""
    parser = argparse.ArgumentParser(prog="mission_tui.trainer.import_checkpoint", description="Import an SB3 zip.")
    parser.add_argument("file", type=Path)
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--run", required=True)
    parser.add_argument("--snapshot", type=Path)
    parsed = parser.parse_args(arguments)
    wanted = _Wanted(parsed.file, parsed.run, parsed.snapshot, parsed.checkpoints)
    lower_priority(own_session=False)
    cap_threads(1)
    leave_compiler_out()
    return answer(lambda say: _import(wanted, say))


def _import(wanted: _Wanted, say: Say) -> None:
    raw = sys.stdin.buffer.read()
    spec = asked_spec(raw)
    vec = build_vec_env(in_this_process(spec), wanted.snapshot).vec
    try:
        seed = spec.run.seed or 0
        th.manual_seed(seed)
        model = build_scratch(ppo_arguments(spec), vec, "cpu", spec.ppo.algo)
        assert model.env is not None
        model._last_obs = model.env.reset()  # type: ignore[assignment]
        model._last_episode_starts = th.ones(1, dtype=th.bool).numpy()
        confine(wanted.file, wanted.checkpoints)
        foreign = read_foreign(wanted.file)
        update = foreign.gradient_epochs // max(1, plan_batch(spec).n_epochs)
        boundary = _boundary(model, foreign, spec, seed, update)
        name = _saved(wanted, boundary, raw)
    finally:
        with suppress(Exception):  # a confined environment may not be able to end in order, and nothing hangs on it
            vec.close()
    result = {"checkpoint": name, "update": update, "timesteps": foreign.timesteps}
    say({"result": result | {"notes": _notes(spec, foreign, normalized=isinstance(vec, VecNormalize))}})


def _boundary(model: PPO, foreign: ForeignModel, spec: Spec, seed: int, update: int) -> Boundary:
    """The boundary that the foreign model stands at. Its environments are not in the file, so none are kept."""
    _put(model, foreign)
    model.num_timesteps, model._n_updates = foreign.timesteps, foreign.gradient_epochs
    taken = capture(model, Progress(update=update), facts_of(spec, seed, None, None, 1, versions(model.algo)))
    return replace(taken, state={**taken.state, "envs": None})


def _put(model: PPO, foreign: ForeignModel) -> None:
    """Weights and moments into `model`, every name and shape compared before anything is copied."""
    own = model.policy.state_dict(keep_vars=True)
    if odd := own.keys() ^ foreign.parameters.keys():
        where = "the file" if min(odd) in own else "the preset's policy"
        raise CheckpointError(f"the file holds another policy than the preset asks for: {where} has no {min(odd)[:80]}")
    for name, tensor in own.items():
        _check_shape(name, foreign.parameters[name], tensor)
    parameters = list(model.policy.parameters())
    if foreign.moments.keys() - range(len(parameters)):
        raise CheckpointError("the file's optimizer knows more parameters than the preset's policy has")
    for index, kept in foreign.moments.items():
        for name, moment in kept.items():
            _check_shape(f"{index}/{name}", moment, th.zeros(()) if name == "step" else parameters[index])
    with th.no_grad():
        for name, tensor in own.items():
            tensor.copy_(foreign.parameters[name])
    groups = model.policy.optimizer.state_dict()["param_groups"]
    state = {index: {name: moment.clone() for name, moment in kept.items()} for index, kept in foreign.moments.items()}
    model.policy.optimizer.load_state_dict({"state": state, "param_groups": groups})
    for kind in (copy_parameters(model.policy), copy_moments(model.policy, model.policy.optimizer)):
        for name, tensor in kind.items():
            if not bool(th.isfinite(tensor).all()):
                raise CheckpointError(f"the file holds nan or infinite numbers in {name}; it was not imported")


def _check_shape(name: str, there: th.Tensor, here: th.Tensor) -> None:
    if there.shape != here.shape:
        shapes = f"{list(there.shape)} in the file and {list(here.shape)} in the preset's policy"
        raise CheckpointError(f"the file holds another policy than the preset asks for: {name[:80]} is {shapes}")


def _saved(wanted: _Wanted, boundary: Boundary, spec: bytes) -> str:
    facts = CheckpointFacts(
        run=wanted.run,
        attempt=1,
        update=boundary.update,
        timesteps=boundary.timesteps,
        t=time.time(),
        reason="imported",
        spec_sha256=hashlib.sha256(spec).hexdigest(),
        extra={"env_state": False, "lineage": []},
    )
    name = checkpoint_name(boundary.timesteps)
    return save_checkpoint(wanted.checkpoints, name, lambda folder: fill_checkpoint(folder, boundary), facts).name


def _notes(spec: Spec, foreign: ForeignModel, *, normalized: bool) -> list[str]:
    """What the preset says otherwise than the file, and what could not come along."""
    notes = []
    for name in _COMPARED:
        there, here = foreign.settings.get(name), getattr(spec.ppo, name)
        if isinstance(there, int | float) and isinstance(here, int | float) and there != here:
            notes.append(f"{name} was {there:g} in the file and is {here:g} in the preset")
    total = spec.run.total_timesteps
    if total is not None and foreign.timesteps >= total:
        notes.append(f"it has {foreign.timesteps} of the preset's {total} steps: resume it with a larger total")
    if normalized:
        notes.append(
            "the normalizer's statistics begin anew: Stable-Baselines3 keeps them in a pickle, not opened here"
        )
    return notes


if __name__ == "__main__":
    sys.exit(main())
