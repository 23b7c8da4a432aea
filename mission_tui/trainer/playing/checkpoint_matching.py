"""Whether environments made today are those that a checkpoint was trained in, as far as they can be told apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from mission_tui.errors import CheckpointError, DamagedError
from mission_tui.plain_files import read_plain
from mission_tui.records.files.toml_file import LARGEST_BYTES
from mission_tui.records.runs.manifest import Manifest
from mission_tui.trainer.spaces import short
from mission_tui.trainer.state.checkpoint import Loaded

__all__ = ["check_normalizer", "check_spaces", "check_spec"]


def check_spec(manifest: Manifest, file: Path) -> None:
    """Raise `DamagedError` where `file` is not the spec that the attempt of `manifest` trained by.

    What was imported was never trained by a file here.
    """
    if manifest.reason == "imported":
        return
    try:
        found = hashlib.sha256(read_plain(file, LARGEST_BYTES)).hexdigest()
    except OSError as error:
        raise DamagedError(f"{file} cannot be read: {error.strerror}; it says what the run was trained by") from error
    if found != manifest.spec_sha256:
        raise DamagedError(
            f"{file} is not what checkpoint {manifest.name} was trained by any more; put it back as it was (SHA-256 "
            f"{manifest.spec_sha256[:12]}...): nothing is played by other settings"
        )


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
