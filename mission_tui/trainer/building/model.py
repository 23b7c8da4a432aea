"""Building the PPO of a run from its spec, or just its policy, with nothing written outside the run directory."""

from __future__ import annotations

import warnings
from typing import Any

from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError
from mission_tui.fleet.specs.algorithm import engine_of
from mission_tui.fleet.specs.spec import Algo, Engine, Spec
from mission_tui.trainer.named_classes import check_contrib
from mission_tui.trainer.ppo import PPO, FastPPO

ENGINES: dict[Engine, type[PPO]] = {"fast": FastPPO, "stock": PPO}


def build_ppo(
    arguments: dict[str, Any],
    vec: VecEnv,
    seed: int | None,
    device: str,
    algo: Algo = "ppo",
    engine: Engine = "fast",
    **options: Any,
) -> PPO:
    """A fresh model of `algo`; `options` are those of its engine.

    Raises `PresetError` when SB3 refuses arguments or spaces, or sb3-contrib is needed and not there.
    """
    try:
        model = _class(algo, engine)(env=vec, seed=seed, device=device, **arguments, **options)
    except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
        raise PresetError(f"[ppo] does not fit this environment: {' '.join(str(error).split())}") from error
    # Without a logger of its own every SB3 model writes into the temporary folder.
    model.set_logger(Logger(None, []))
    return model


def engine_options(spec: Spec) -> dict[str, Any]:
    """The engine that carries `spec`, and what is asked of `fast` alone; the reference has no options."""
    engine, run = engine_of(spec), spec.run
    options = {"precision": run.precision, "compiles": run.compile} if engine == "fast" else {}
    return {"engine": engine, **options}


def build_scratch(arguments: dict[str, Any], vec: VecEnv, device: str, algo: Algo = "ppo") -> PPO:
    """A PPO for the sake of its policy: it cannot be trained, because its rollout buffer holds two steps."""
    with warnings.catch_warnings():
        # The real minibatch does not divide this buffer, which does not matter here.
        warnings.simplefilter("ignore", UserWarning)
        return build_ppo({**arguments, "n_steps": 2}, vec, None, device, algo, "stock")


def _class(algo: Algo, engine: Engine) -> type[PPO]:
    if algo == "ppo":
        return ENGINES[engine]
    check_contrib(algo)
    # Of an extra, and loaded only by those who train with it.
    if algo == "maskable_ppo":
        from mission_tui.trainer.ppo.contrib import MaskablePPO

        return MaskablePPO
    from mission_tui.trainer.ppo.contrib import RecurrentPPO

    return RecurrentPPO
