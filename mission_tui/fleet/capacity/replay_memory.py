"""How large a replay buffer becomes, by its settings and the observations of its environment; and what a checkpoint of
it takes.

SB3 allocates the whole buffer at the start, but memory is taken only as it fills: a run that has trained for a minute
says nothing of what it will take.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from mission_tui.fleet.specs.algorithm import keeps_replay_buffer, replay_buffer_of
from mission_tui.fleet.specs.sb3_algorithms import other_algorithm
from mission_tui.fleet.specs.spec import Spec

_ATARI_SIDE = 84
"""Of the images that SB3's wrapper of Atari shows."""
_BESIDES = 3 * 4
"""Reward, end and timeout of a transition."""
_SIZES: Mapping[str, tuple[int, int]] = {
    "CartPole-v1": (4, 1),
    "Acrobot-v1": (6, 1),
    "MountainCar-v0": (2, 1),
    "MountainCarContinuous-v0": (2, 1),
    "Pendulum-v1": (3, 1),
    "LunarLander-v3": (8, 1),
    "LunarLanderContinuous-v3": (8, 2),
    "BipedalWalker-v3": (24, 4),
    "BipedalWalkerHardcore-v3": (24, 4),
    "CarRacing-v3": (96 * 96 * 3, 3),
    "Ant-v5": (105, 8),
    "HalfCheetah-v5": (17, 6),
    "Hopper-v5": (11, 3),
    "Humanoid-v5": (348, 17),
    "InvertedDoublePendulum-v5": (9, 1),
    "InvertedPendulum-v5": (4, 1),
    "Pusher-v5": (23, 7),
    "Reacher-v5": (10, 2),
    "Swimmer-v5": (8, 2),
    "Walker2d-v5": (17, 6),
}
"""Numbers in an observation and in an action, of Gymnasium's own environments; a choice counts as one."""
_DOUBLES = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Inverted", "Pusher", "Reacher", "Swimmer", "Walker2d")
_IMAGES = ("CarRacing",)


class ReplaySize(Struct, frozen=True):
    """Bytes of a replay buffer once it is full, and in one checkpoint of a finished run. `assumed`: the observations
    are not known before the environment is made, and those of MissionGym stand for them.
    """

    full_bytes: int
    checkpoint_bytes: int
    kept: int
    assumed: bool = False

    @property
    def kept_bytes(self) -> int:
        """In all checkpoints that stay, together."""
        return self.kept * self.checkpoint_bytes


def replay_size(spec: Spec, obs_floats: int = 42) -> ReplaySize | None:
    """The size for `spec`; None where it has no replay buffer."""
    settings, other = replay_buffer_of(spec), other_algorithm(spec.run.algo)
    if settings is None or other is None:
        return None
    observation, action, assumed = _bytes_of(spec, obs_floats)
    action = action * 4 if other.actions == ("Box",) else 8
    transition = observation * (1 if settings.optimize_memory_usage else 2) + action + _BESIDES
    n_envs = spec.env.n_envs
    held = max(settings.buffer_size // n_envs, 1) * n_envs
    total = spec.run.total_timesteps
    written = held if total is None or settings.optimize_memory_usage else min(held, total)
    size = written * transition if keeps_replay_buffer(spec) else 0
    return ReplaySize(
        full_bytes=held * transition,
        checkpoint_bytes=size,
        kept=spec.keep.checkpoint.most(size) if size else 0,
        assumed=assumed,
    )


def _bytes_of(spec: Spec, obs_floats: int) -> tuple[int, int, bool]:
    """Bytes of one observation, numbers of one action, and whether both are only assumed."""
    name, frames = spec.env.id.rpartition(":")[2], spec.env.frame_stack or 1
    if any("AtariWrapper" in str(part) for part in spec.env.wrappers):
        return _ATARI_SIDE * _ATARI_SIDE * frames, 1, False
    if name not in _SIZES or spec.env.wrappers:
        return 4 * obs_floats * frames, 4, True
    floats, actions = _SIZES[name]
    width = 8 if name.startswith(_DOUBLES) else 1 if name.startswith(_IMAGES) else 4
    return width * floats * frames, actions, False
