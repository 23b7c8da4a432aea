"""Building the PPO of a run from its spec, or just its policy, with nothing written outside the run directory."""

from __future__ import annotations

import warnings
from typing import Any, Literal

from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv

from mission_tui.errors import PresetError
from mission_tui.fleet.spec import RunSpec
from mission_tui.trainer.ppo import PPO, FastPPO

__all__ = ["ENGINES", "build_ppo", "build_scratch", "engine_options"]

ENGINES: dict[str, type[PPO]] = {"fast": FastPPO, "stock": PPO}


def build_ppo(
    arguments: dict[str, Any],
    vec: VecEnv,
    seed: int | None,
    device: str,
    engine: Literal["fast", "stock"] = "fast",
    **options: Any,
) -> PPO:
    """A fresh PPO; `options` are those of its engine. Raises `PresetError` when SB3 refuses arguments or spaces."""
    try:
        model = ENGINES[engine](env=vec, seed=seed, device=device, **arguments, **options)
    except (AssertionError, NotImplementedError, TypeError, ValueError) as error:
        raise PresetError(f"[ppo] does not fit this environment: {' '.join(str(error).split())}") from error
    # Without a logger of its own every SB3 model writes into the temporary folder.
    model.set_logger(Logger(None, []))
    return model


def engine_options(run: RunSpec) -> dict[str, Any]:
    """What `run` asks of the engine `fast` alone; the reference has no options."""
    return {"precision": run.precision, "compiles": run.compile} if run.engine == "fast" else {}


def build_scratch(arguments: dict[str, Any], vec: VecEnv, device: str) -> PPO:
    """A PPO for the sake of its policy: it cannot be trained, because its rollout buffer holds two steps."""
    with warnings.catch_warnings():
        # The real minibatch does not divide this buffer, which does not matter here.
        warnings.simplefilter("ignore", UserWarning)
        return build_ppo({**arguments, "n_steps": 2}, vec, None, device, "stock")
