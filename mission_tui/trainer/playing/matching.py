"""Whether environments made today are those that a checkpoint was trained in, as far as they can be told apart."""

from __future__ import annotations

from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from mission_tui.errors import CheckpointError
from mission_tui.trainer.spaces import short
from mission_tui.trainer.state.checkpoint import Loaded

__all__ = ["check_normalizer", "check_spaces"]


def check_spaces(loaded: Loaded, vec: VecEnv) -> None:
    """`vec` is the environment as the policy sees it. Raises `CheckpointError` that names the space that is another."""
    manifest = loaded.manifest
    spaces = (("observations", "obs", vec.observation_space), ("actions", "act", vec.action_space))
    for what, key, space in spaces:
        then = manifest.extra.get(key)
        if isinstance(then, str) and then != short(space):
            raise CheckpointError(
                f"{what} are {short(space)} now and were {then} when checkpoint {manifest.name} was saved: "
                "the environment is another one, and a score in it would say nothing"
            )


def check_normalizer(loaded: Loaded, vec: VecEnv) -> None:
    """Raise `CheckpointError` where one of the two has a normaliser and the other has none."""
    statistics, normalizes = loaded.boundary.state["normalizer"], unwrap_vec_normalize(vec) is not None
    if (statistics is not None) != normalizes:
        had, has = ("had", "has none") if statistics is not None else ("had no", "has one")
        raise CheckpointError(
            f"checkpoint {loaded.manifest.name} {had} normaliser and env.normalize of its run {has}: its policy would "
            "see other inputs than it learned from"
        )
