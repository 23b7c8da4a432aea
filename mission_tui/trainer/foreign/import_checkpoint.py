"""``python -m mission_tui.trainer.foreign.import_checkpoint FILE.zip FOLDER``: a `PPO.save` zip as our checkpoint.

The spec comes as JSON on stdin. What its preset asks for is built first; then the process takes every right away that
reading does not need, and only then is the foreign file opened. The checkpoint is written into FOLDER.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.foreign.boundary import foreign_boundary, model_for, save_foreign
from mission_tui.trainer.foreign.zip_file import ForeignModel, confine, read_foreign
from mission_tui.trainer.json_lines import Say, answer, asked_spec
from mission_tui.trainer.process import cap_threads, lower_priority
from mission_tui.trainer.torch_compiler import disable_compiler
from mission_tui.trainer.vec_env import build_vec_env, in_this_process

_COMPARED = ("gamma", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm", "n_steps")


@dataclass(frozen=True, slots=True)
class _ImportOrder:
    """What was asked for: the zip, the run's id, its rules, and the folder that checkpoints go into."""

    file: Path
    run: str
    snapshot: Path | None
    checkpoints: Path


def main(arguments: list[str] | None = None) -> int:
    """Import; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="mission_tui.trainer.foreign.import_checkpoint", description="Import an SB3 zip."
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("checkpoints", type=Path)
    parser.add_argument("--run", required=True)
    parser.add_argument("--snapshot", type=Path)
    parsed = parser.parse_args(arguments)
    wanted = _ImportOrder(parsed.file, parsed.run, parsed.snapshot, parsed.checkpoints)
    lower_priority(own_session=False)
    cap_threads(1)
    disable_compiler()
    return answer(lambda say: _import(wanted, say))


def _import(wanted: _ImportOrder, say: Say) -> None:
    raw = sys.stdin.buffer.read()
    spec = asked_spec(raw)
    vec = build_vec_env(in_this_process(spec), wanted.snapshot).vec
    try:
        model = model_for(spec, vec)
        confine(wanted.file, wanted.checkpoints)
        foreign = read_foreign(wanted.file)
        update = foreign.gradient_epochs // max(1, plan_batch(spec).n_epochs)
        name = save_foreign(wanted.checkpoints, wanted.run, foreign_boundary(model, foreign, spec, update), raw)
    finally:
        with suppress(Exception):  # a confined environment may not be able to end in order, and nothing hangs on it
            vec.close()
    result = {"checkpoint": name, "update": update, "timesteps": foreign.timesteps}
    say({"result": result | {"notes": _notes(spec, foreign, normalized=unwrap_vec_normalize(vec) is not None)}})


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
