"""The tasks that are trained on: small enough for a minute of one core, hard enough that learning takes the whole run.

Each task says how well an episode went in the task's own terms, whatever somebody has done to its rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from mission_tui.fleet.events.metrics import Episodes
from mission_tui.fleet.specs.spec import EnvSpec, Normalize, PpoSpec, RunSpec, Schedule, Spec

__all__ = [
    "ACROBOT",
    "ACROBOT_CLEAN",
    "ACROBOT_ZOO",
    "ANGLING",
    "ARCHERY",
    "ASSEMBLY",
    "AUCTION",
    "BALANCING",
    "BANDIT",
    "BIPEDAL",
    "BLACKJACK",
    "BLENDING",
    "BREWING",
    "CARTPOLE",
    "CARTPOLE_CLEAN",
    "CARTPOLE_SINGLE",
    "CARTPOLE_ZOO",
    "CATALOGUE",
    "CATCH",
    "CHASING",
    "CLIFF",
    "CLIMBING",
    "COOLING",
    "CORRIDOR",
    "CRANE",
    "CROSSING",
    "DELIVERING",
    "DIALLING",
    "DISPATCHING",
    "DIVING",
    "DOCKING",
    "DOSING",
    "DOUBLE_CLEAN",
    "DOUBLE_PENDULUM",
    "DRILLING",
    "ECHOING",
    "ELEVATING",
    "ESCAPING",
    "FERRYING",
    "FILING",
    "FISHING",
    "FLOORS",
    "FORAGING",
    "FROZEN_LAKE",
    "GRADING",
    "GRAZING",
    "HALF_CHEETAH",
    "HARBOUR_MISSION",
    "HEATING",
    "HERDING",
    "HILL",
    "HOMING",
    "HOPPER",
    "HOVERING",
    "HUNTING",
    "INVENTORY",
    "INVERTED_PENDULUM",
    "INVERTED_ZOO",
    "KEEPING",
    "KEYS",
    "KNEADING",
    "LANDER_SINGLE",
    "LARGE_LAKE",
    "LENDING",
    "LIFTING",
    "LISTENING",
    "LOCKS",
    "LUNAR_CONTINUOUS",
    "LUNAR_LANDER",
    "MACHINE",
    "MELDING",
    "MILLING",
    "MINING",
    "MISSION",
    "MOUNTAIN_CAR",
    "MOWING",
    "NOISY_ACROBOT",
    "NOISY_CARTPOLE",
    "NOISY_PENDULUM",
    "NOISY_POINTING",
    "PACKING",
    "PARKING",
    "PENDULUM",
    "PENDULUM_SDE",
    "PIXELS",
    "PLOUGHING",
    "POINTING",
    "PRICING",
    "PROSPECTING",
    "PUSHER",
    "QUEUE",
    "REACHER",
    "REACHER_ZOO",
    "REACHING",
    "ROLLING",
    "ROWING",
    "SAILING",
    "SCHEDULING",
    "SEALED_MISSION",
    "SEARCHING",
    "SHEDDING",
    "SHIPPING",
    "SIGHTLESS",
    "SIGNALLING",
    "SKIING",
    "SLIPPERY",
    "SMELTING",
    "SMELTING_LONG",
    "SPELLING",
    "STEERING",
    "STOKING",
    "SWIMMER",
    "SWITCHING",
    "TAXI",
    "THROWING",
    "TOLLING",
    "TRACKING",
    "WALKER",
    "WATERING",
    "WELDING",
    "Task",
]

WORLDS, NOISY = "benchmarks.health.worlds", "benchmarks.health.noisy_worlds"
FURTHER, LATER = "benchmarks.health.further_worlds", "benchmarks.health.later_worlds"
TENTH, TWELFTH = "benchmarks.health.tenth_worlds", "benchmarks.health.twelfth_worlds"
THIRTEENTH, TUNING = "benchmarks.health.thirteenth_worlds", "benchmarks.health.tuning_worlds"


@dataclass(frozen=True, slots=True)
class Task:
    """An environment with the PPO that learns it. `scores` are what its episodes were worth, more is better."""

    name: str
    env: EnvSpec
    ppo: PpoSpec
    scores: Callable[[Episodes], list[float]]

    def spec(
        self, preset: str, seed: int, updates: int, ppo: Mapping[str, Any], kwargs: Mapping[str, Any] | None = None
    ) -> Spec:
        """The spec of one run of `updates` updates with `ppo` written over the task's own settings.

        `kwargs` are further arguments of the environment.
        """
        settings = structs.replace(self.ppo, **ppo)
        steps = updates * self.env.n_envs * settings.n_steps
        run = RunSpec(total_timesteps=steps, seed=seed, device="cpu", threads=1)
        env = structs.replace(self.env, kwargs={**self.env.kwargs, **(kwargs or {})})
        return Spec(preset=preset, env=env, ppo=settings, run=run)


def _returns(episodes: Episodes) -> list[float]:
    return [float(value) for value in episodes.r]


def _lengths(episodes: Episodes) -> list[float]:
    return [float(value) for value in episodes.l]


def _quickness(episodes: Episodes) -> list[float]:
    return [-float(value) for value in episodes.l]


def _hits(episodes: Episodes) -> list[float]:
    outcomes = episodes.outcomes or {}
    return [1.0] * outcomes.get("hit", 0) + [0.0] * outcomes.get("miss", 0)


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

HARBOUR_MISSION = _mission(
    "harbour-mission",
    world=_WORLD
    | {
        "zone": {"centre_m": [70, 45], "radius_m": 12, "jitter_m": 3},
        "obstacles": [{"low_m": [45, 70], "high_m": [50, 110]}],
    },
)

POINTING = Task(
    "pointing",
    EnvSpec(id=f"{WORLDS}:Pointing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=5e-3),
    _returns,
)
PENDULUM_SDE = Task(
    "pendulum-sde",
    EnvSpec(id="Pendulum-v1", n_envs=8, vec="inline"),
    PpoSpec(
        n_steps=64,
        batch_size=64,
        n_epochs=8,
        learning_rate=3e-4,
        gamma=0.9,
        clip_range=0.4,
        use_sde=True,
        sde_sample_freq=4,
        policy_kwargs={"log_std_init": -1.0},
    ),
    _returns,
)
NOISY_CARTPOLE = Task(
    "noisy-cartpole",
    EnvSpec(id=f"{WORLDS}:NoisyCartPole-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=1e-3, gamma=0.98, gae_lambda=0.9),
    _lengths,
)
FROZEN_LAKE = Task(
    "frozen-lake",
    EnvSpec(id="FrozenLake-v1", n_envs=16, vec="inline"),
    PpoSpec(n_steps=64, batch_size=256, n_epochs=4, learning_rate=1e-3),
    _returns,
)
TAXI = Task(
    "taxi",
    EnvSpec(id="Taxi-v4", n_envs=16, vec="inline", normalize=Normalize(obs=False, reward=True)),
    PpoSpec(n_steps=32, batch_size=256, n_epochs=4, learning_rate=2e-3, ent_coef=0.01),
    _quickness,
)
BLACKJACK = Task(
    "blackjack",
    EnvSpec(id="Blackjack-v1", n_envs=16, vec="inline", wrappers=("gymnasium.wrappers:FlattenObservation",)),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3),
    _returns,
)
BANDIT = Task(
    "bandit",
    EnvSpec(id=f"{WORLDS}:Bandit-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=16, batch_size=64, n_epochs=4, learning_rate=7e-4),
    _hits,
)
CORRIDOR = Task(
    "corridor",
    EnvSpec(id=f"{WORLDS}:Corridor-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=4, learning_rate=5e-4, ent_coef=0.01),
    _returns,
)
DIALLING = Task(
    "dialling",
    EnvSpec(id=f"{WORLDS}:Dialling-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=64, batch_size=256, n_epochs=4, learning_rate=7e-4),
    _returns,
)
FERRYING = Task(
    "ferrying",
    EnvSpec(id=f"{WORLDS}:Ferrying-v0", n_envs=8, vec="inline"),
    PpoSpec(n_steps=64, batch_size=128, n_epochs=6, learning_rate=7e-4, gae_lambda=0.99, ent_coef=0.02),
    _returns,
)
SLIPPERY = Task(
    "slippery",
    EnvSpec(id=f"{WORLDS}:Slippery-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3),
    _returns,
)
TRACKING = Task(
    "tracking",
    EnvSpec(id=f"{WORLDS}:Tracking-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=6, learning_rate=1e-3, gamma=0.95),
    _returns,
)
LOCKS = Task(
    "locks",
    EnvSpec(id=f"{WORLDS}:Locks-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=5e-4),
    _returns,
)
CATCH = Task(
    "catch",
    EnvSpec(id=f"{WORLDS}:Catch-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=36, batch_size=144, n_epochs=4, learning_rate=1e-3),
    _hits,
)
DOCKING = Task(
    "docking",
    EnvSpec(id=f"{WORLDS}:Docking-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=6, learning_rate=7e-4, gamma=0.95),
    _quickness,
)
INVENTORY = Task(
    "inventory",
    EnvSpec(id=f"{WORLDS}:Inventory-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=4, learning_rate=1e-3, gamma=0.97),
    _returns,
)
PRICING = Task(
    "pricing",
    EnvSpec(id=f"{NOISY}:Pricing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=4, learning_rate=1e-3),
    _returns,
)
HEATING = Task(
    "heating",
    EnvSpec(id=f"{NOISY}:Heating-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=6, learning_rate=1e-3, gamma=0.95),
    _returns,
)
NOISY_POINTING = Task(
    "noisy-pointing",
    EnvSpec(id=f"{NOISY}:NoisyPointing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3),
    _hits,
)
QUEUE = Task(
    "queue",
    EnvSpec(id=f"{NOISY}:Queue-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=5, learning_rate=1e-3, gamma=0.97),
    _returns,
)
REACHING = Task(
    "reaching",
    EnvSpec(id=f"{NOISY}:Reaching-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=6, learning_rate=8e-4, gamma=0.95),
    _returns,
)
NOISY_ACROBOT = Task(
    "noisy-acrobot",
    EnvSpec(id=f"{NOISY}:NoisyAcrobot-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, gae_lambda=0.94),
    _quickness,
)
SAILING = Task(
    "sailing",
    EnvSpec(id=f"{NOISY}:Sailing-v0", n_envs=32, vec="inline"),
    PpoSpec(n_steps=20, batch_size=160, n_epochs=5, learning_rate=3e-4, gamma=0.97),
    _returns,
)
SIGNALLING = Task(
    "signalling",
    EnvSpec(id=f"{NOISY}:Signalling-v0", n_envs=24, vec="inline", normalize=True),
    PpoSpec(n_steps=16, batch_size=96, n_epochs=5, learning_rate=1e-3, gamma=0.95),
    _returns,
)
_OF_SB3 = PpoSpec(n_steps=50, batch_size=100, n_epochs=10, learning_rate=3e-4, gamma=0.95)
SMELTING = Task("smelting", EnvSpec(id=f"{NOISY}:Smelting-v0", n_envs=16, vec="inline"), _OF_SB3, _hits)
SMELTING_LONG = Task(
    "smelting-long",
    EnvSpec(id=f"{NOISY}:Smelting-v0", n_envs=16, vec="inline", kwargs={"steps": 500, "price": 0.5}),
    PpoSpec(n_steps=25, batch_size=80, n_epochs=8, learning_rate=1e-3, gamma=0.9),
    _hits,
)
SHIPPING = Task("shipping", EnvSpec(id=f"{NOISY}:Shipping-v0", n_envs=16, vec="inline"), _OF_SB3, _hits)

_CLEAN = PpoSpec(
    n_steps=128,
    batch_size=128,
    n_epochs=4,
    learning_rate=Schedule(start=2.5e-4, end=0.0),
    gamma=0.99,
    ent_coef=0.01,
)
"""The settings of CleanRL's `ppo.py`, its annealed learning rate included."""

CARTPOLE_CLEAN = Task("cartpole-clean", EnvSpec(id="CartPole-v1", n_envs=4, vec="inline"), _CLEAN, _lengths)
ACROBOT_CLEAN = Task("acrobot-clean", EnvSpec(id="Acrobot-v1", n_envs=4, vec="inline"), _CLEAN, _quickness)
CARTPOLE_ZOO = Task(
    "cartpole-zoo",
    EnvSpec(id="CartPole-v1", n_envs=8, vec="inline"),
    PpoSpec(
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        learning_rate=Schedule(start=1e-3, end=0.0),
        clip_range=Schedule(start=0.2, end=0.0),
        gamma=0.98,
        gae_lambda=0.8,
    ),
    _lengths,
)
CLIFF = Task(
    "cliff",
    EnvSpec(id=f"{FURTHER}:ShortCliff-v0", n_envs=16, vec="inline", normalize=Normalize(obs=False, reward=True)),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=2e-3, ent_coef=0.01),
    _quickness,
)
DOSING = Task(
    "dosing",
    EnvSpec(id=f"{FURTHER}:Dosing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=16, batch_size=64, n_epochs=5, learning_rate=1e-3),
    _hits,
)
LENDING = Task(
    "lending",
    EnvSpec(id=f"{FURTHER}:Lending-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=4, learning_rate=1e-3),
    _returns,
)
NOISY_PENDULUM = Task(
    "noisy-pendulum",
    EnvSpec(id=f"{FURTHER}:NoisyPendulum-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=6, learning_rate=1.5e-3, gamma=0.9),
    _returns,
)
AUCTION = Task(
    "auction",
    EnvSpec(id=f"{FURTHER}:Auction-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=16, batch_size=64, n_epochs=4, learning_rate=1e-3, ent_coef=0.01),
    _hits,
)
MACHINE = Task(
    "machine",
    EnvSpec(id=f"{FURTHER}:Machine-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=60, batch_size=240, n_epochs=4, learning_rate=1e-3, gamma=0.95),
    _returns,
)
KEYS = Task(
    "keys",
    EnvSpec(id=f"{FURTHER}:Keys-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, ent_coef=0.01),
    _hits,
)
CHASING = Task(
    "chasing",
    EnvSpec(id=f"{FURTHER}:Chasing-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=6, learning_rate=1e-3, gamma=0.95),
    _hits,
)
FLOORS = Task(
    "floors",
    EnvSpec(id=f"{LATER}:Floors-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=4, learning_rate=5e-4, ent_coef=0.01),
    _hits,
)
PROSPECTING = Task(
    "prospecting",
    EnvSpec(id=f"{LATER}:Prospecting-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=4, learning_rate=1e-3, gamma=0.9),
    _hits,
)
CRANE = Task(
    "crane",
    EnvSpec(id=f"{LATER}:Crane-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=6, learning_rate=1e-3, gamma=0.95),
    _hits,
)
ARCHERY = Task(
    "archery",
    EnvSpec(id=f"{LATER}:Archery-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=5, learning_rate=1e-3, gamma=0.9),
    _hits,
)
CATALOGUE = Task(
    "catalogue",
    EnvSpec(id=f"{LATER}:Catalogue-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=4, learning_rate=2e-3, gamma=0.9, ent_coef=0.01),
    _hits,
)
HOPPER = Task(
    "hopper",
    EnvSpec(id="Hopper-v5", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=64, batch_size=128, n_epochs=6, learning_rate=5e-4),
    _returns,
)
REACHER = Task(
    "reacher",
    EnvSpec(id="Reacher-v5", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=100, n_epochs=8, learning_rate=6e-4, gamma=0.9),
    _returns,
)
_LANDING = PpoSpec(
    n_steps=64, batch_size=128, n_epochs=4, learning_rate=1e-3, gamma=0.999, gae_lambda=0.98, ent_coef=0.01
)
LUNAR_CONTINUOUS = Task(
    "lunar-continuous", EnvSpec(id="LunarLanderContinuous-v3", n_envs=16, vec="inline"), _LANDING, _returns
)
LUNAR_LANDER = Task("lunar-lander", EnvSpec(id="LunarLander-v3", n_envs=16, vec="inline"), _LANDING, _returns)
HALF_CHEETAH = Task(
    "half-cheetah",
    EnvSpec(id="HalfCheetah-v5", n_envs=8, vec="inline", normalize=True),
    PpoSpec(n_steps=128, batch_size=128, n_epochs=8, learning_rate=4e-4, gamma=0.98, gae_lambda=0.92),
    _returns,
)
INVERTED_PENDULUM = Task(
    "inverted-pendulum",
    EnvSpec(id="InvertedPendulum-v5", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=5e-4),
    _lengths,
)
DOUBLE_PENDULUM = Task(
    "double-pendulum",
    EnvSpec(id="InvertedDoublePendulum-v5", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=64, batch_size=128, n_epochs=8, learning_rate=5e-4, gamma=0.98, gae_lambda=0.9),
    _lengths,
)
PUSHER = Task(
    "pusher",
    EnvSpec(id="Pusher-v5", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=100, n_epochs=8, learning_rate=6e-4, gamma=0.95),
    _returns,
)
HILL = Task(
    "hill",
    EnvSpec(id="MountainCarContinuous-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(
        n_steps=64,
        batch_size=256,
        n_epochs=10,
        learning_rate=5e-4,
        gamma=0.9999,
        gae_lambda=0.9,
        use_sde=True,
        policy_kwargs={"log_std_init": -1.0},
    ),
    _returns,
)
WALKER = Task(
    "walker",
    EnvSpec(id="Walker2d-v5", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=64, batch_size=128, n_epochs=6, learning_rate=5e-4),
    _returns,
)
SWIMMER = Task(
    "swimmer",
    EnvSpec(id="Swimmer-v5", n_envs=8, vec="inline", normalize=True),
    PpoSpec(n_steps=128, batch_size=128, n_epochs=8, learning_rate=6e-4, gamma=0.9999, gae_lambda=0.98),
    _returns,
)
BIPEDAL = Task(
    "bipedal",
    EnvSpec(id="BipedalWalker-v3", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=64, batch_size=128, n_epochs=6, learning_rate=6e-4),
    _returns,
)
_SINGLE = PpoSpec(n_steps=2048, batch_size=64, n_epochs=10, learning_rate=3e-4)
"""`PPO("MlpPolicy", env)`: SB3's defaults on one environment."""

CARTPOLE_SINGLE = Task("cartpole-single", EnvSpec(id="CartPole-v1", n_envs=1, vec="inline"), _SINGLE, _lengths)
LANDER_SINGLE = Task("lander-single", EnvSpec(id="LunarLander-v3", n_envs=1, vec="inline"), _SINGLE, _returns)
PIXELS = Task(
    "pixels",
    EnvSpec(id=f"{LATER}:Pixels-v0", n_envs=16, vec="inline"),
    PpoSpec(policy="CnnPolicy", n_steps=32, batch_size=128, n_epochs=4, learning_rate=7e-4, ent_coef=0.01),
    _hits,
)
LARGE_LAKE = Task(
    "large-lake",
    EnvSpec(id="FrozenLake8x8-v1", n_envs=16, vec="inline", kwargs={"is_slippery": False}),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=5e-4, ent_coef=0.01),
    _returns,
)
SCHEDULING = Task(
    "scheduling",
    EnvSpec(id=f"{LATER}:Scheduling-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=4, learning_rate=4e-4, gamma=0.95),
    _hits,
)
SIGHTLESS = Task(
    "sightless",
    EnvSpec(id=f"{LATER}:Sightless-v0", n_envs=16, vec="inline", frame_stack=4),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=6e-4, gamma=0.98, gae_lambda=0.9),
    _lengths,
)
ASSEMBLY = Task(
    "assembly",
    EnvSpec(id=f"{LATER}:Assembly-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=48, batch_size=192, n_epochs=4, learning_rate=1e-3, gamma=1.0, gae_lambda=1.0),
    _hits,
)
HOVERING = Task(
    "hovering",
    EnvSpec(id=f"{LATER}:Hovering-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=6, learning_rate=1e-3, gamma=0.97),
    _hits,
)
GRAZING = Task(
    "grazing",
    EnvSpec(id=f"{LATER}:Grazing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=48, batch_size=192, n_epochs=4, learning_rate=1e-3, gamma=0.97),
    _returns,
)
MINING = Task(
    "mining",
    EnvSpec(id=f"{LATER}:Mining-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=50, batch_size=100, n_epochs=4, learning_rate=2e-3, gamma=0.9),
    _hits,
)
SPELLING = Task(
    "spelling",
    EnvSpec(id=f"{LATER}:Spelling-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=7e-5, ent_coef=0.01),
    _quickness,
)
FORAGING = Task(
    "foraging",
    EnvSpec(id=f"{LATER}:Foraging-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=4, learning_rate=1e-3, gamma=0.9),
    _hits,
)
GRADING = Task(
    "grading",
    EnvSpec(id=f"{LATER}:Grading-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=4, learning_rate=3e-5, gamma=0.9),
    _hits,
)
DELIVERING = Task(
    "delivering",
    EnvSpec(id=f"{LATER}:Delivering-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1.5e-4, ent_coef=0.02),
    _hits,
)
ROLLING = Task(
    "rolling",
    EnvSpec(id=f"{LATER}:Rolling-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=6, learning_rate=8e-4, gamma=0.95),
    _hits,
)
DISPATCHING = Task(
    "dispatching",
    EnvSpec(id=f"{LATER}:Dispatching-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=48, batch_size=192, n_epochs=4, learning_rate=1e-3, gamma=0.9),
    _hits,
)
SWITCHING = Task(
    "switching",
    EnvSpec(id=f"{LATER}:Switching-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=5, learning_rate=2e-3, gamma=0.95),
    _hits,
)
ECHOING = Task(
    "echoing",
    EnvSpec(id=f"{LATER}:Echoing-v0", n_envs=16, vec="inline", frame_stack=4),
    PpoSpec(n_steps=30, batch_size=120, n_epochs=4, learning_rate=5e-4, gamma=0.9),
    _hits,
)
PARKING = Task(
    "parking",
    EnvSpec(id=f"{TENTH}:Parking-v0", n_envs=8, vec="inline"),
    PpoSpec(
        n_steps=50,
        batch_size=200,
        n_epochs=4,
        learning_rate=3e-3,
        gamma=0.9,
        use_sde=True,
        sde_sample_freq=8,
        policy_kwargs={"log_std_init": -1.0, "ortho_init": False},
    ),
    _hits,
)
MOWING = Task(
    "mowing",
    EnvSpec(id=f"{TENTH}:Mowing-v0", n_envs=8, vec="inline"),
    PpoSpec(
        n_steps=64,
        batch_size=128,
        n_epochs=4,
        learning_rate=Schedule(start=5e-4, end=0.0),
        clip_range=0.1,
        gamma=0.9,
        ent_coef=0.01,
    ),
    _hits,
)
PACKING = Task(
    "packing",
    EnvSpec(id=f"{TENTH}:Packing-v0", n_envs=16, vec="inline"),
    PpoSpec(policy="MultiInputPolicy", n_steps=40, batch_size=320, n_epochs=4, learning_rate=3e-3, gamma=0.9),
    _hits,
)
WATERING = Task(
    "watering",
    EnvSpec(id=f"{TENTH}:Watering-v0", n_envs=32, vec="inline"),
    PpoSpec(n_steps=16, batch_size=128, n_epochs=5, learning_rate=2e-3, gamma=0.95, net_arch=(32, 32)),
    _returns,
)
FILING = Task(
    "filing",
    EnvSpec(id=f"{TENTH}:Filing-v0", n_envs=16, vec="inline"),
    PpoSpec(algo="maskable_ppo", n_steps=16, batch_size=128, n_epochs=4, learning_rate=3e-3, gamma=1.0),
    _hits,
)
COOLING = Task(
    "cooling",
    EnvSpec(id=f"{TENTH}:Cooling-v0", n_envs=8, vec="inline"),
    PpoSpec(n_steps=64, batch_size=64, n_epochs=10, learning_rate=3e-4),
    _hits,
)
ACROBOT_ZOO = Task(
    "acrobot-zoo",
    EnvSpec(id="Acrobot-v1", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=256, batch_size=64, n_epochs=4, learning_rate=3e-4, gae_lambda=0.94),
    _quickness,
)
HOMING = Task(
    "homing",
    EnvSpec(id=f"{TENTH}:Homing-v0", n_envs=16, vec="inline", frame_stack=3),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=6, learning_rate=2e-3, gamma=0.95),
    _hits,
)
ESCAPING = Task(
    "escaping",
    EnvSpec(id=f"{TENTH}:Escaping-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=64, batch_size=256, n_epochs=4, learning_rate=3e-4, ent_coef=0.01),
    _quickness,
)
ROWING = Task(
    "rowing",
    EnvSpec(id=f"{TENTH}:Rowing-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=60, batch_size=240, n_epochs=6, learning_rate=1e-3, gamma=0.997, gae_lambda=0.9),
    _hits,
)
SKIING = Task(
    "skiing",
    EnvSpec(id=f"{TENTH}:Skiing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=48, batch_size=192, n_epochs=5, learning_rate=5e-4, gamma=0.98),
    _lengths,
)
ELEVATING = Task(
    "elevating",
    EnvSpec(id=f"{TENTH}:Elevating-v0", n_envs=128, vec="inline"),
    PpoSpec(n_steps=8, batch_size=256, n_epochs=4, learning_rate=1e-3, gamma=0.97),
    _hits,
)
THROWING = Task(
    "throwing",
    EnvSpec(id=f"{TENTH}:Throwing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=5, learning_rate=2e-3, gamma=0.5),
    _hits,
)
REACHER_ZOO = Task(
    "reacher-zoo",
    EnvSpec(id="Reacher-v5", n_envs=1, vec="inline", normalize=True),
    PpoSpec(
        n_steps=512,
        batch_size=32,
        n_epochs=5,
        learning_rate=0.000104019,
        gamma=0.9,
        gae_lambda=1.0,
        clip_range=0.3,
        ent_coef=7.52585e-08,
        vf_coef=0.950368,
        max_grad_norm=0.9,
    ),
    _returns,
)
LIFTING = Task(
    "lifting",
    EnvSpec(id=f"{TWELFTH}:Lifting-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=50, batch_size=200, n_epochs=6, learning_rate=1e-3, gamma=0.95),
    _hits,
)
TOLLING = Task(
    "tolling",
    EnvSpec(id=f"{TWELFTH}:Tolling-v0", n_envs=8, vec="inline"),
    PpoSpec(n_steps=512, batch_size=256, n_epochs=4, learning_rate=1e-3),
    _hits,
)
WELDING = Task(
    "welding",
    EnvSpec(id=f"{TWELFTH}:Welding-v0", n_envs=64, vec="inline"),
    PpoSpec(n_steps=16, batch_size=256, n_epochs=5, learning_rate=1e-3, gamma=0.9),
    _hits,
)
MILLING = Task(
    "milling",
    EnvSpec(id=f"{TWELFTH}:Milling-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, gamma=0.97, ent_coef=0.005),
    _hits,
)
SHEDDING = Task(
    "shedding",
    EnvSpec(id=f"{TWELFTH}:Shedding-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=64, batch_size=128, n_epochs=6, learning_rate=2e-3, gamma=0.98, ent_coef=0.01),
    _hits,
)
KEEPING = Task(
    "keeping",
    EnvSpec(id=f"{TWELFTH}:Keeping-v0", n_envs=16, vec="inline", frame_stack=4),
    PpoSpec(n_steps=60, batch_size=240, n_epochs=4, learning_rate=7e-4),
    _hits,
)
INVERTED_ZOO = Task(
    "inverted-zoo",
    EnvSpec(id="InvertedPendulum-v5", n_envs=1, vec="inline", normalize=True),
    PpoSpec(
        n_steps=32,
        batch_size=64,
        n_epochs=5,
        learning_rate=0.000222425,
        gamma=0.999,
        gae_lambda=0.9,
        clip_range=0.4,
        ent_coef=1.37976e-07,
        vf_coef=0.19816,
        max_grad_norm=0.3,
    ),
    _lengths,
)
BREWING = Task(
    "brewing",
    EnvSpec(id=f"{THIRTEENTH}:Brewing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=40, batch_size=160, n_epochs=5, learning_rate=1e-3, gae_lambda=0.98),
    _hits,
)
CROSSING = Task(
    "crossing",
    EnvSpec(id=f"{THIRTEENTH}:Crossing-v0", n_envs=24, vec="inline", normalize=Normalize(obs=False, reward=True)),
    PpoSpec(n_steps=25, batch_size=150, n_epochs=5, learning_rate=1e-3, gamma=0.97),
    _hits,
)
BLENDING = Task(
    "blending",
    EnvSpec(id=f"{THIRTEENTH}:Blending-v0", n_envs=8, vec="inline"),
    PpoSpec(n_steps=80, batch_size=64, n_epochs=10, learning_rate=3e-4, gamma=0.95),
    _hits,
)
HUNTING = Task(
    "hunting",
    EnvSpec(id=f"{THIRTEENTH}:Hunting-v0", n_envs=12, vec="inline", normalize=True),
    PpoSpec(n_steps=96, batch_size=192, n_epochs=6, learning_rate=1e-3, gamma=0.97),
    _hits,
)
DRILLING = Task(
    "drilling",
    EnvSpec(id=f"{THIRTEENTH}:Drilling-v0", n_envs=32, vec="inline"),
    PpoSpec(n_steps=24, batch_size=192, n_epochs=4, learning_rate=5e-4, gamma=0.98),
    _hits,
)
FISHING = Task(
    "fishing",
    EnvSpec(id=f"{THIRTEENTH}:Fishing-v0", n_envs=48, vec="inline"),
    PpoSpec(n_steps=20, batch_size=240, n_epochs=4, learning_rate=5e-4, gamma=0.995, ent_coef=0.01),
    _hits,
)
DOUBLE_CLEAN = Task(
    "double-clean",
    EnvSpec(id="InvertedDoublePendulum-v5", n_envs=1, vec="inline", normalize=True),
    PpoSpec(n_steps=2048, batch_size=64, n_epochs=10, learning_rate=Schedule(start=3e-4, end=0.0), clip_range_vf=0.2),
    _lengths,
)
BALANCING = Task(
    "balancing",
    EnvSpec(id=f"{TUNING}:Balancing-v0", n_envs=1, vec="inline"),
    PpoSpec(n_steps=256, batch_size=64, n_epochs=8, learning_rate=1e-3, gamma=0.97),
    _lengths,
)
HERDING = Task(
    "herding",
    EnvSpec(id=f"{TUNING}:Herding-v0", n_envs=64, vec="inline"),
    PpoSpec(n_steps=8, batch_size=128, n_epochs=4, learning_rate=1e-3, gamma=0.9),
    _hits,
)
LISTENING = Task(
    "listening",
    EnvSpec(id=f"{TUNING}:Listening-v0", n_envs=16, vec="inline", frame_stack=4),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=6, learning_rate=6e-4, gamma=0.9),
    _hits,
)
STEERING = Task(
    "steering",
    EnvSpec(id=f"{TUNING}:Steering-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=3e-4, gamma=0.97),
    _quickness,
)
SEARCHING = Task(
    "searching",
    EnvSpec(id=f"{TUNING}:Searching-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, ent_coef=0.005),
    _quickness,
)
CLIMBING = Task(
    "climbing",
    EnvSpec(id=f"{TUNING}:Climbing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=1e-3, gamma=0.95, ent_coef=0.01),
    _hits,
)
PLOUGHING = Task(
    "ploughing",
    EnvSpec(id=f"{TUNING}:Ploughing-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=5, learning_rate=2.5e-4, gamma=0.97),
    _returns,
)
STOKING = Task(
    "stoking",
    EnvSpec(id=f"{TUNING}:Stoking-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=4, learning_rate=5e-4, gamma=0.95),
    _hits,
)
KNEADING = Task(
    "kneading",
    EnvSpec(id=f"{TUNING}:Kneading-v0", n_envs=16, vec="inline", normalize=True),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=6, learning_rate=7e-4, gamma=0.95),
    _quickness,
)
MELDING = Task(
    "melding",
    EnvSpec(id=f"{TUNING}:Melding-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=128, n_epochs=8, learning_rate=1.5e-3, gamma=0.95, ent_coef=0.003),
    _quickness,
)
ANGLING = Task(
    "angling",
    EnvSpec(id=f"{TUNING}:Angling-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=64, n_epochs=8, learning_rate=5e-3, gamma=0.95),
    _returns,
)
DIVING = Task(
    "diving",
    EnvSpec(id=f"{TUNING}:Diving-v0", n_envs=16, vec="inline"),
    PpoSpec(n_steps=32, batch_size=64, n_epochs=8, learning_rate=1e-3, gamma=0.97),
    _returns,
)
