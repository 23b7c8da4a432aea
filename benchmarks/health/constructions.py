"""What is recorded: healthy trainings, and trainings that are tampered with from a fixed update on.

Harm tests and right answers are part of a construction and were fixed before it was judged. Seeds come in two groups
that never meet: one for tuning rules, one for judging them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks.health import tampering as tamper
from benchmarks.health.harm import HarmTest, fell_behind, hung, lived_at_the_cap, slowed_down, swung, turned_nan
from benchmarks.health.tasks import ACROBOT, CARTPOLE, MISSION, MOUNTAIN_CAR, PENDULUM, SEALED_MISSION, Task
from benchmarks.health.train import Tamper
from mission_tui.fleet.specs.spec import Schedule

__all__ = ["CONSTRUCTIONS", "SEEDS", "TWINS", "Construction"]

Split = Literal["tune", "judge"]

SEEDS: Mapping[Split, tuple[int, ...]] = {"tune": (101, 102, 103), "judge": (1, 2, 3, 4, 5)}
UPDATES = 150
EARLY, LEARNED, MIDWAY = 25, 45, 70


@dataclass(frozen=True, slots=True)
class Construction:
    """One way to train `task`. Without `harm` it is meant to be healthy and `rules` are empty.

    `ppo` are settings of the whole run, `resumed` those with which a second attempt goes on after `onset`.
    """

    name: str
    task: Task
    tamper: Tamper = tamper.leaves_alone
    onset: int | None = None
    harm: tuple[HarmTest, ...] = ()
    rules: tuple[str, ...] = ()
    ppo: Mapping[str, Any] = field(default_factory=dict)
    resumed: Mapping[str, Any] | None = None
    updates: int = UPDATES
    note: str = ""

    def trace_name(self, seed: int) -> str:
        """The name of its trace with `seed`."""
        return f"{self.name}-{self.task.name}-s{seed}"


KL = ("kl-persistent", "kl-spike", "clip-fraction")
COLLAPSE = ("entropy-collapse", "policy-std", "policy-frozen", "drawdown", "actions-at-bound")
IDLE = ("stall", "outcomes")


def _once(name: str, task: Task, act: Callable[[Any], None], onset: int = MIDWAY, **rest: Any) -> Construction:
    return Construction(name, task, tamper.from_onset(onset, act), onset, **rest)


TWINS = tuple(Construction("healthy", task) for task in (CARTPOLE, ACROBOT, PENDULUM, MISSION))

_VARIANTS = (
    Construction("healthy", MOUNTAIN_CAR, note="still at its time limit, as most young runs are"),
    Construction("clip-0.1", PENDULUM, ppo={"clip_range": 0.1}),
    Construction("clip-0.4", CARTPOLE, ppo={"clip_range": 0.4}),
    Construction("target-kl", PENDULUM, ppo={"target_kl": 0.02}),
    Construction("linear-lr", CARTPOLE, ppo={"learning_rate": Schedule(start=2e-3, end=0.0)}),
)

_UPDATE_TOO_LARGE = (
    *(
        _once("lr-300", task, tamper.set_ppo(300.0), harm=(turned_nan, fell_behind), rules=(*KL, *COLLAPSE, "nan"))
        for task in (CARTPOLE, PENDULUM)
    ),
    _once(
        "epochs-40",
        PENDULUM,
        tamper.set_ppo(10.0, n_epochs=40),
        harm=(turned_nan, fell_behind),
        rules=(*KL, *COLLAPSE, "nan"),
        updates=115,
        note="learning rate x 10 at the same time",
    ),
    _once(
        "batch-8",
        PENDULUM,
        tamper.stops,
        harm=(turned_nan, fell_behind),
        rules=(*KL, *COLLAPSE, "nan"),
        resumed={"batch_size": 25, "learning_rate": 1.5e-2},
        updates=115,
        note="learning rate x 10 in the same resume",
    ),
)

_POLICY_DEAD = (
    *(
        _once("frozen", task, tamper.set_ppo(1e-7), EARLY, harm=(fell_behind,), rules=("policy-frozen",))
        for task in (CARTPOLE, PENDULUM)
    ),
    _once(
        "stale-optimizer",
        CARTPOLE,
        tamper.loses_its_optimizer,
        EARLY,
        harm=(fell_behind,),
        rules=("policy-frozen",),
        note="the learning rate stays as it was",
    ),
    Construction(
        "ent-zero",
        CARTPOLE,
        onset=1,
        harm=(fell_behind,),
        rules=("entropy-collapse", "policy-frozen"),
        ppo={"ent_coef": 0.0, "learning_rate": 5e-2},
    ),
)

_WORLD_CHANGED = (
    _once(
        "reward-100",
        CARTPOLE,
        tamper.rewards_times(100.0),
        EARLY,
        harm=(fell_behind,),
        rules=("value-loss", "explained-variance", "grad-norm", "policy-frozen"),
    ),
    _once(
        "obs-jump",
        CARTPOLE,
        tamper.observations_times(10.0),
        harm=(fell_behind,),
        rules=("drawdown", "kl-spike", "kl-persistent", "value-loss", "explained-variance", "entropy-collapse"),
    ),
    _once("nan-reward", ACROBOT, tamper.nan_rewards, 60, harm=(turned_nan,), rules=("nan",)),
)

_RETURN_LOST = (
    Construction(
        "reward-flip",
        MISSION,
        tamper.alternating(
            50,
            12,
            tamper.mission_rewards({"outcome": {"captured": -3.0, "early_success": -4.0}}),
            tamper.mission_rewards({"outcome": {"captured": 3.0, "early_success": 4.0}}),
        ),
        50,
        (swung,),
        ("reward-oscillation",),
        note="what a win pays changes its sign every 12 updates",
    ),
    Construction("drawdown", PENDULUM, tamper.noise(90, 0.5, 4), 90, (fell_behind,), ("drawdown",)),
)

_MACHINE = (
    Construction(
        "worker-slow",
        CARTPOLE,
        tamper.sleeps(MIDWAY, updates=20, seconds=0.004),
        MIDWAY,
        (slowed_down,),
        ("throughput",),
        updates=120,
    ),
    _once(
        "worker-hang",
        PENDULUM,
        tamper.hangs(150.0),
        80,
        harm=(hung,),
        rules=("hang",),
        updates=95,
        note="clock shifted: nobody waited the 150 s, one step of one environment set the trainer's clocks forward",
    ),
)

_REWARDS_MISLEAD = (
    _once(
        "oscillator-one-way",
        MISSION,
        tamper.mission_rewards(
            {
                "shaping": "one_way",
                "step_cost": 0.0,
                "progress_per_m": 0.04,
                "capture_per_s": 0.0,
                "outcome": {"captured": 0.0, "early_success": 0.0, "timeout": 0.0},
            }
        ),
        LEARNED,
        harm=(lived_at_the_cap,),
        rules=IDLE,
        updates=200,
    ),
    _once(
        "oscillator-two-way",
        MISSION,
        tamper.mission_rewards(
            {
                "shaping": "two_way",
                "step_cost": 0.0,
                "capture_per_s": 0.0,
                "outcome": {"captured": -1.0, "early_success": -1.0, "timeout": 0.0},
            }
        ),
        LEARNED,
        harm=(lived_at_the_cap,),
        rules=IDLE,
        updates=200,
    ),
    _once("hacked", MISSION, tamper.survival_bonus(0.2), harm=(lived_at_the_cap,), rules=("outcomes", "stall")),
    Construction("stall-no-way-forward", SEALED_MISSION, onset=1, harm=(lived_at_the_cap,), rules=IDLE),
)

CONSTRUCTIONS: tuple[Construction, ...] = (
    *TWINS,
    *_UPDATE_TOO_LARGE,
    *_POLICY_DEAD,
    *_RETURN_LOST,
    *_REWARDS_MISLEAD,
    *_WORLD_CHANGED,
    *_MACHINE,
    *_VARIANTS,
)
