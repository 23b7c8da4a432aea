"""The probe of a resume: a few episodes with environments of its own, before the training goes on.

It draws from every generator that training draws from, so all of them are put back: training computes the same numbers
with the probe as without it. It gives up when it takes too long; half of its episodes would favour short ones.
Why it gave up is said in the attempt's log.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import numpy as np
from stable_baselines3.common.vec_env import unwrap_vec_normalize

from mission_tui.errors import raised_by
from mission_tui.fleet.events.metrics import Resumed, spoken
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer.failures import complain
from mission_tui.trainer.playing.evaluation import play
from mission_tui.trainer.ppo import PPO
from mission_tui.trainer.state.boundary import Boundary
from mission_tui.trainer.state.normalizer import capture_normalizer, freeze_normalizer
from mission_tui.trainer.state.random_state import capture_random, restore_random
from mission_tui.trainer.vec_env import build_vec_env, in_this_process

__all__ = ["probe"]

EPISODES = 16
NATIVE_LANES, INLINE_LANES = 16, 4
LIMIT_S = 3.0
SEED = 20_000


class _TooLongError(Exception):
    """The probe's time is up."""


def probe(model: PPO, boundary: Boundary, spec: Spec, snapshot: Path | None, *, exact: bool) -> Resumed:
    """What was recorded with `boundary`, and what its policy scores now. An exact resume has nothing to compare."""
    returns = np.array([r for r, _, _ in boundary.state["episodes"]["info"]], dtype=float)
    before = Resumed(
        exact=exact,
        mean_before=spoken(float(returns.mean())) if returns.size else None,
        std_before=spoken(float(returns.std())) if returns.size else None,
        episodes_before=int(returns.size),
        entropy_before=boundary.state.get("entropy"),
    )
    if exact or not returns.size:
        return before
    generators = capture_random(model.device, model.action_space)
    try:
        played = _played(model, spec, snapshot)
    except _TooLongError:
        complain(f"no return is known before training goes on: {EPISODES} episodes took over {LIMIT_S:.0f} s")
        return before
    except Exception as error:  # noqa: BLE001 - an environment is foreign code; if it ails, the training will end of it
        complain(f"no return is known before training goes on: {raised_by(error)}")
        return before
    finally:
        restore_random(generators, model.device, model.action_space)
    now = {"mean": spoken(float(played.mean())), "std": spoken(float(played.std())), "episodes": int(played.size)}
    return msgspec.structs.replace(before, **now)


def _played(model: PPO, spec: Spec, snapshot: Path | None) -> np.ndarray:
    vec = build_vec_env(in_this_process(spec, NATIVE_LANES, INLINE_LANES), snapshot).vec
    until_s = time.monotonic() + LIMIT_S
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

        return np.array(play(act, env, EPISODES, SEED, lambda _: None).returns)
    finally:
        vec.close()
