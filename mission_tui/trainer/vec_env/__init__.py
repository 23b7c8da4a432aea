"""The vectorised environments a training steps: chosen, built, and able to say whether their state can be kept."""

from __future__ import annotations

from mission_tui.trainer.vec_env.build import (
    BuiltEnvs,
    build_vec_env,
    in_this_process,
    savable,
    spaces_alone,
)
from mission_tui.trainer.vec_env.in_process import InlineVecEnv, NativeVecEnv
from mission_tui.trainer.vec_env.workers import WorkersVecEnv

__all__ = [
    "BuiltEnvs",
    "InlineVecEnv",
    "NativeVecEnv",
    "WorkersVecEnv",
    "build_vec_env",
    "in_this_process",
    "savable",
    "spaces_alone",
]
