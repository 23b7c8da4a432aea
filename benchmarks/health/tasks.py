"""The tasks that are trained on: small enough for a minute of one core, hard enough that learning takes the whole run.

Each task says how well an episode went in the task's own terms, whatever somebody has done to its rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from mission_tui.fleet.events.metrics import Episodes
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

__all__ = ["ACROBOT", "CARTPOLE", "MISSION", "MOUNTAIN_CAR", "PENDULUM", "SEALED_MISSION", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """An environment with the PPO that learns it. `scores` are what its episodes were worth, more is better."""

    name: str
    env: EnvSpec
    ppo: PpoSpec
    scores: Callable[[Episodes], list[float]]

    def spec(self, preset: str, seed: int, updates: int, ppo: Mapping[str, Any]) -> Spec:
        """The spec of one run of `updates` updates with `ppo` written over the task's own settings."""
        settings = structs.replace(self.ppo, **ppo)
        steps = updates * self.env.n_envs * settings.n_steps
        run = RunSpec(total_timesteps=steps, seed=seed, device="cpu", threads=1)
        return Spec(preset=preset, env=self.env, ppo=settings, run=run)


def _returns(episodes: Episodes) -> list[float]:
    return [float(value) for value in episodes.r]


def _lengths(episodes: Episodes) -> list[float]:
    return [float(value) for value in episodes.l]


CARTPOLE = Task(
    "cartpole",
    EnvSpec(id="CartPole-v1", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=1e-3, gamma=0.98, gae_lambda=0.9),
    _lengths,
)
ACROBOT = Task(
    "acrobot",
    EnvSpec(id="Acrobot-v1", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, gae_lambda=0.94),
    _returns,
)
PENDULUM = Task(
    "pendulum",
    EnvSpec(id="Pendulum-v1", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=6, learning_rate=1.5e-3, gamma=0.9),
    _returns,
)
MOUNTAIN_CAR = Task(
    "mountaincar",
    EnvSpec(id="MountainCar-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, gae_lambda=0.98),
    _returns,
)

_WORLD: dict[str, Any] = {
    "width_m": 120,
    "height_m": 120,
    "zone": {"centre_m": [80, 60], "radius_m": 15, "jitter_m": 3},
    "spawn": {"low_m": [10, 50], "high_m": [25, 70]},
    "obstacles": [],
    "patrols": [{"waypoints_m": [[110, 10], [110, 20]]}],
}
_RULES = {"physics_hz": 4, "time_limit_s": 30, "capture_s": 4, "early_hold_s": 2, "stall_s": 0}
_WALL = {"low_m": [40, 0], "high_m": [45, 120]}


def _mission(name: str, **overrides: Any) -> Task:
    kwargs = {"overrides": {"world": _WORLD, "rules": _RULES} | overrides}
    return Task(
        name,
        EnvSpec(id="MissionGym-v0", config="demo", n_envs=32, vec="native", kwargs=kwargs),
        PpoSpec(n_steps=32, batch_size=256, n_epochs=4, learning_rate=7e-4, ent_coef=0.01, net_arch=(32, 32)),
        _returns,
    )


MISSION = _mission("mission")
SEALED_MISSION = _mission(
    "sealed-mission",
    world=_WORLD | {"obstacles": [_WALL]},
    units={"attackers": ["ground", "ground"]},
    rewards={"shaping": "one_way", "step_cost": 0.0},
)
