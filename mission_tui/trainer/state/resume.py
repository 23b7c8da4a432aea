"""Going on from a checkpoint: how much of it fits what this attempt was asked to do, and whether that is exact.

Exact means that the run, from here on, computes the numbers it would have computed had it never stopped. Everything
else is continued: what was learned goes on, but environments start anew or numbers may differ. A branch begins afresh
with the weights that fit its network.

Before a resume that is not exact goes on, its policy plays a few episodes in environments of its own, which draws from
every generator that training draws from. All of them are put back: training computes the same numbers with this probe
as without it. It gives up when it takes too long, since half of its episodes would favour short ones.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch as th
from msgspec import structs
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mission_tui.errors import CheckpointError, PresetError, raised_by
from mission_tui.fleet.events.metrics import PolicyStep, Resumed, spoken
from mission_tui.fleet.resume.verdict import AS_IT_WAS, Terms
from mission_tui.fleet.specs.sb3_algorithms import OTHERS, other_algorithm
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.failures import complain
from mission_tui.trainer.learner import Learner
from mission_tui.trainer.state.boundary import (
    Boundary,
    capture_normalizer,
    capture_random,
    freeze_normalizer,
    named_tensors,
    restore_envs,
    restore_learner,
    restore_normalizer,
    restore_random,
)
from mission_tui.trainer.vec_env import BuiltEnvs, build_vec_env, in_this_process
from mission_tui.trainer.vec_env.episodes import play

Facts = dict[str, Any]

_SEED_SPAN = 2**31
_ATTEMPT_STRIDE = 1_000_003
_SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")

_ARITHMETIC = {"engine": "fast", "precision": "fp32", "compile": False}
"""Settings that change rounding, and how it was before they existed."""
_SINCE = {"algo": "ppo"}
"""Settings of `ppo` that are younger than some checkpoints, and how it was before."""
PROBE_EPISODES = 16
NATIVE_LANES, INLINE_LANES = 16, 4
PROBE_LIMIT_S = 3.0
PROBE_SEED = 20_000


def facts_of(
    spec: Spec,
    seed: int,
    envs: BuiltEnvs | None,
    device: str | None,
    threads: int,
    versions: dict[str, str],
    machine: dict[str, str],
) -> Facts:
    """What a checkpoint says about the circumstances it was made under, as JSON values; None is unknown."""
    return {
        "spec": spec_facts(spec),
        "seed": seed,
        "vec": envs and envs.kind,
        "n_workers": envs and envs.n_workers,
        "device": device,
        "threads": threads,
        "versions": versions,
        "machine": machine,
    }


def spec_facts(spec: Spec) -> Facts:
    """`spec` as JSON values."""
    facts: Facts = msgspec.json.decode(msgspec.json.encode(spec))
    for name in OTHERS:
        if facts[name] is None:
            del facts[name]
    return facts


def starting_seed(seed: int, attempt: int) -> int:
    """The seed with which attempt `attempt` starts environments anew, so that it does not replay the first episodes."""
    return (seed + _ATTEMPT_STRIDE * attempt) % _SEED_SPAN


def restore_training(
    model: Learner, boundary: Boundary, now: Facts, attempt: int, terms: Terms = AS_IT_WAS, *, proven: bool = True
) -> bool:
    """Make `model` stand at `boundary` as far as the circumstances `now` and `terms` allow; True if that is exact.

    Environments that were not `proven` to restore their state begin anew.
    Random generators are left to the caller, because building and resetting draw numbers. Raises `CheckpointError` when
    the boundary is of another policy.
    """
    was: Facts = boundary.state["facts"]
    restore_learner(model, boundary, terms)
    replayed = _restore_replay(model, boundary)
    same_task = _task(was) == _task(now) and was["vec"] == now["vec"] and was["seed"] == now["seed"]
    in_place = same_task and proven and restore_envs(model, boundary)
    if not in_place:
        assert model.env is not None
        model.env.seed(starting_seed(now["seed"], attempt))
    as_it_was = structs.replace(terms, until_timesteps=0) == AS_IT_WAS
    exact = in_place and replayed and as_it_was and _same_numbers(was, now)
    if exact and now["device"] != "cpu":
        # A small MLP went on to the last bit in one process on the one card that was tried. Of other nets that is not
        # known: sums by atomics round in any order, and libraries choose kernels by the card and their share of it.
        why = "a GPU need not add up in the same order again, so the last bits of numbers may differ"
        complain(f"the resume is continued, not exact, because of run.device '{now['device']}': {why}")
        return False
    return exact


def _restore_replay(model: Learner, boundary: Boundary) -> bool:
    """Whether the replay buffer, if there is one, is what it was."""
    if model.replay is None:
        return True
    said = "it begins empty, because the checkpoint has none: it collects before it learns again"
    if boundary.replay_file is not None:
        said = model.replay.read(boundary.replay_file)
    if said:
        complain(f"the resume is continued, not exact, because of its replay buffer: {said}")
    return not said


def _task(facts: Facts) -> Facts:
    """What the environments are, whichever process steps which of them, by what was written and had to be."""
    return {name: value for name, value in facts["spec"]["env"].items() if name != "n_workers" and value is not None}


def _same_numbers(was: Facts, now: Facts) -> bool:
    run = now["spec"]["run"]
    algo = run.get("algo")
    table = "ppo" if other_algorithm(algo) is None else algo
    ppo = now["spec"][table]
    # A schedule over seconds follows the clock, which no resume can repeat.
    by_clock = run["duration_s"] is not None and any(isinstance(ppo.get(key), dict) for key in _SCHEDULED)
    return (
        not by_clock
        # What a callback does to a training, and from which generators it draws, nobody can know.
        and not run["callbacks"]
        and (_SINCE if table == "ppo" else {}) | was["spec"].get(table, {}) == ppo
        and all(was["spec"]["run"][key] == run[key] for key in ("total_timesteps", "duration_s"))
        and all(was["spec"]["run"].get(key, usual) == run[key] for key, usual in _ARITHMETIC.items())
        and all(was[key] == now[key] for key in ("device", "threads", "versions"))
        # Libraries choose their kernels by the processor; a checkpoint of an earlier version does not name it.
        and was.get("machine", {}).get("cpu", now["machine"].get("cpu")) == now["machine"].get("cpu")
    )


def moved(was: Facts, now: Facts) -> tuple[str, ...]:
    """What of the machine is another one than that of the checkpoint, a line each; what is no longer exact by it is
    said with it.
    """
    before, after = was.get("machine", {}), now["machine"]
    lines = []
    for key, name in (("name", "machine"), ("cpu", "processor"), ("gpu", "GPU"), ("gpu_driver", "GPU driver")):
        old, new = before.get(key, ""), after.get(key, "")
        if before and old != new:
            inexact = "" if key == "name" else " (numbers may differ in the last bit)"
            lines.append(f"{name} {old or 'none'} → {new or 'none'}{inexact}")
    return tuple(lines)


def take_weights(model: Learner, boundary: Boundary) -> str:
    """Copy every parameter of the same name and shape, and the normalizer's statistics where they fit.

    Returns what was taken, in a sentence. Raises `PresetError` when nothing fits.
    """
    own = named_tensors(model.policy)
    fitting = [
        name
        for name, tensor in own.items()
        if name in boundary.parameters and boundary.parameters[name].shape == tensor.shape
    ]
    # A bias of one number fits everywhere and carries nothing over.
    if not any(own[name].ndim > 1 for name in fitting):
        raise PresetError("no weight of the checkpoint fits this network; launch it without them")
    with th.no_grad():
        for name in fitting:
            own[name].copy_(boundary.parameters[name])
    fresh = [name for name in own if name not in fitting]
    taken = f"{len(fitting)} of {len(own)} tensors are the checkpoint's"
    return f"{taken}{_statistics(model, boundary)}" + (f"; fresh: {', '.join(fresh)}" if fresh else "")


def _statistics(model: Learner, boundary: Boundary) -> str:
    normalizer = model.get_vec_normalize_env()
    if normalizer is None or boundary.state["normalizer"] is None:
        return ""
    with suppress(CheckpointError):
        restore_normalizer(normalizer, boundary.state["normalizer"], lanes=False)
        return ", and so are the normalizer's statistics"
    return ""


class _TooLongError(Exception):
    """The probe's time is up."""


def probe(model: Learner, boundary: Boundary, spec: Spec, snapshot: Path | None, *, exact: bool) -> Resumed:
    """What was recorded with `boundary`, and what its policy scores now. An exact resume has nothing to compare."""
    returns = np.array([r for r, _, _ in boundary.state["episodes"]["info"]], dtype=float)
    before = Resumed(
        exact=exact,
        mean_before=spoken(float(returns.mean())) if returns.size else None,
        std_before=spoken(float(returns.std())) if returns.size else None,
        episodes_before=int(returns.size),
        entropy_before=boundary.state.get("entropy"),
        steps_before=tuple(
            PolicyStep(*(None if number is None else spoken(number) for number in step))
            for step in boundary.state.get("steps", ())
        ),
    )
    if exact or not returns.size:
        return before
    generators = capture_random(model.device, model.action_space)
    try:
        played = _played(model, spec, snapshot)
    except _TooLongError:
        complain(
            "the return before training could not be measured: "
            f"{PROBE_EPISODES} episodes took over {PROBE_LIMIT_S:.0f} s"
        )
        return before
    except Exception as error:  # noqa: BLE001 - an environment is foreign code; if it ails, the training will end of it
        complain(f"the return before training could not be measured: {raised_by(error)}")
        return before
    finally:
        restore_random(generators, model.device, model.action_space)
    now = {"mean": spoken(float(played.mean())), "std": spoken(float(played.std())), "episodes": int(played.size)}
    return msgspec.structs.replace(before, **now)


def _played(model: Learner, spec: Spec, snapshot: Path | None) -> np.ndarray:
    vec = build_vec_env(in_this_process(spec, NATIVE_LANES, INLINE_LANES), snapshot).vec
    until_s = time.monotonic() + PROBE_LIMIT_S
    try:
        own, normalizer = model.get_vec_normalize_env(), unwrap_vec_normalize(vec)
        if normalizer is not None and own is not None:
            freeze_normalizer(normalizer, capture_normalizer(own))
        env = model._wrap_env(vec)
        player = model.player(env, deterministic=False)

        def act(observations: object, starts: np.ndarray) -> np.ndarray:
            if time.monotonic() > until_s:
                raise _TooLongError
            return player(observations, starts)

        return np.array(play(act, env, PROBE_EPISODES, PROBE_SEED, lambda _: None).returns)
    finally:
        vec.close()
