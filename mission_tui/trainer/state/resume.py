"""Going on from a checkpoint: how much of it fits what this attempt was asked to do, and whether that is exact.

Exact means that the run, from here on, computes the numbers it would have computed had it never stopped. Everything
else is continued: what was learned goes on, but environments start anew or numbers may differ.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.state.boundary import Boundary, restore_envs, restore_learner
from mission_tui.trainer.vec_env import BuiltEnvs

__all__ = ["Facts", "facts_of", "restore_training", "spec_facts", "starting_seed"]

Facts = dict[str, Any]

_SEED_SPAN = 2**31
_ATTEMPT_STRIDE = 1_000_003
_SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf")

_ARITHMETIC = {"engine": "fast", "precision": "fp32", "compile": False}
"""Settings that change rounding, and how it was before they existed."""
_SINCE = {"algo": "ppo"}
"""Settings of `ppo` that are younger than some checkpoints, and how it was before."""


def facts_of(
    spec: Spec, seed: int, envs: BuiltEnvs | None, device: str | None, threads: int, versions: dict[str, str]
) -> Facts:
    """What a checkpoint says about the circumstances it was made under, as JSON values; None is what nobody knows."""
    return {
        "spec": spec_facts(spec),
        "seed": seed,
        "vec": envs and envs.kind,
        "n_workers": envs and envs.n_workers,
        "device": device,
        "threads": threads,
        "versions": versions,
    }


def spec_facts(spec: Spec) -> Facts:
    """`spec` as JSON values."""
    facts: Facts = msgspec.json.decode(msgspec.json.encode(spec))
    return facts


def starting_seed(seed: int, attempt: int) -> int:
    """The seed with which attempt `attempt` starts environments anew, so that it does not replay the first episodes."""
    return (seed + _ATTEMPT_STRIDE * attempt) % _SEED_SPAN


def restore_training(
    model: PPO, boundary: Boundary, now: Facts, attempt: int, terms: Terms = AS_IT_WAS, *, proven: bool = True
) -> bool:
    """Make `model` stand at `boundary` as far as the circumstances `now` and `terms` allow; True if that is exact.

    Environments that were not `proven` to restore their state begin anew.
    Random generators are left to the caller, because building and resetting draw numbers. Raises `CheckpointError` when
    the boundary is of another policy.
    """
    was: Facts = boundary.state["facts"]
    restore_learner(model, boundary, terms)
    same_task = _task(was) == _task(now) and was["vec"] == now["vec"] and was["seed"] == now["seed"]
    in_place = same_task and proven and restore_envs(model, boundary)
    if not in_place:
        assert model.env is not None
        model.env.seed(starting_seed(now["seed"], attempt))
    return in_place and terms == AS_IT_WAS and now["device"] == "cpu" and _same_numbers(was, now)


def _task(facts: Facts) -> Facts:
    """What the environments are, whichever process steps which of them, by what was written and had to be."""
    return {name: value for name, value in facts["spec"]["env"].items() if name != "n_workers" and value is not None}


def _same_numbers(was: Facts, now: Facts) -> bool:
    ppo, run = now["spec"]["ppo"], now["spec"]["run"]
    # A schedule over seconds follows the clock, which no resume can repeat.
    by_clock = run["duration_s"] is not None and any(isinstance(ppo[key], dict) for key in _SCHEDULED)
    return (
        not by_clock
        # What a callback does to a training, and from which generators it draws, nobody can know.
        and not run["callbacks"]
        and _SINCE | was["spec"]["ppo"] == ppo
        and all(was["spec"]["run"][key] == run[key] for key in ("total_timesteps", "duration_s"))
        and all(was["spec"]["run"].get(key, usual) == run[key] for key, usual in _ARITHMETIC.items())
        and all(was[key] == now[key] for key in ("device", "threads", "versions"))
    )
