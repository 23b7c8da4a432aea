"""What is recorded: healthy trainings, and trainings that are tampered with from a fixed update on.

Harm tests and right answers are part of a construction and were fixed before it was judged. Tasks and constructions
come in two halves that never meet: one for tuning rules, one for scoring them (`halves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.health import tampering as tamper
from benchmarks.health.halves import MOVED, SEEDS, Half, half_of
from benchmarks.health.harm import (
    HarmTest,
    dropped,
    fell_behind,
    hung,
    lived_at_the_cap,
    lost_for_long,
    never_learned,
    paid_less,
    slowed_down,
    swung,
    turned_nan,
    unsaved,
)
from benchmarks.health.tasks import (
    ACROBOT,
    ACROBOT_CLEAN,
    ACROBOT_ZOO,
    ANGLING,
    ARCHERY,
    ASSEMBLY,
    AUCTION,
    BALANCING,
    BANDIT,
    BIPEDAL,
    BLACKJACK,
    BLENDING,
    BREWING,
    CARTPOLE,
    CARTPOLE_CLEAN,
    CARTPOLE_SINGLE,
    CARTPOLE_ZOO,
    CATALOGUE,
    CATCH,
    CHASING,
    CLIFF,
    CLIMBING,
    COOLING,
    CORRIDOR,
    CRANE,
    CROSSING,
    DELIVERING,
    DIALLING,
    DISPATCHING,
    DIVING,
    DOCKING,
    DOSING,
    DOUBLE_CLEAN,
    DOUBLE_PENDULUM,
    DRILLING,
    ECHOING,
    ELEVATING,
    ESCAPING,
    FERRYING,
    FILING,
    FISHING,
    FLOORS,
    FORAGING,
    FROZEN_LAKE,
    GRADING,
    GRAZING,
    HALF_CHEETAH,
    HARBOUR_MISSION,
    HEATING,
    HERDING,
    HILL,
    HOMING,
    HOPPER,
    HOVERING,
    HUNTING,
    INVENTORY,
    INVERTED_PENDULUM,
    INVERTED_ZOO,
    KEEPING,
    KEYS,
    KNEADING,
    LANDER_SINGLE,
    LARGE_LAKE,
    LENDING,
    LIFTING,
    LISTENING,
    LOCKS,
    LUNAR_CONTINUOUS,
    LUNAR_LANDER,
    MACHINE,
    MELDING,
    MILLING,
    MINING,
    MISSION,
    MOUNTAIN_CAR,
    MOWING,
    NOISY_ACROBOT,
    NOISY_CARTPOLE,
    NOISY_PENDULUM,
    NOISY_POINTING,
    PACKING,
    PARKING,
    PENDULUM,
    PENDULUM_SDE,
    PIXELS,
    PLOUGHING,
    POINTING,
    PRICING,
    PROSPECTING,
    PUSHER,
    QUEUE,
    REACHER,
    REACHER_ZOO,
    REACHING,
    ROLLING,
    ROWING,
    SAILING,
    SCHEDULING,
    SEALED_MISSION,
    SEARCHING,
    SHEDDING,
    SHIPPING,
    SIGHTLESS,
    SIGNALLING,
    SKIING,
    SLIPPERY,
    SMELTING,
    SMELTING_LONG,
    SPELLING,
    STEERING,
    STOKING,
    SWIMMER,
    SWITCHING,
    TAXI,
    THROWING,
    TOLLING,
    TRACKING,
    WALKER,
    WATERING,
    WELDING,
    Task,
)
from benchmarks.health.train import Tamper
from mission_tui.fleet.specs.spec import Schedule

__all__ = ["CONSTRUCTIONS", "TWINS", "Construction"]

UPDATES = 150
EARLY, LEARNED, MIDWAY = 25, 45, 70
SHORT_UPDATES, TENTH_UPDATES, TENTH_MIDWAY = 100, 120, 50
"""Of the tenth set: its trainings are short, and most of what they learn is learned midway."""

ZOO_UPDATES, ZOO_MIDWAY = 40, 14
"""Of `acrobot-zoo`, whose updates are of 4,096 steps."""

ROWING_MIDWAY = 100
"""Its returns may fall for eighty updates before they rise: what comes earlier has nothing to harm."""

TOLLING_UPDATES, INVERTED_UPDATES = 80, 600
"""Of the twelfth set: the first has updates of 4,096 steps, the second of 32."""

TWELFTH_MIDWAY = {"lifting": 70, "tolling": 40, "welding": 60, "shedding": 90, "inverted-zoo": 400}
"""When most of what is learned was learned; of the others of that set it is `TENTH_MIDWAY`."""

THIRTEENTH = {
    "brewing": (120, 60),
    "crossing": (100, 45),
    "blending": (100, 45),
    "hunting": (120, 70),
    "drilling": (120, 60),
    "fishing": (120, 60),
    "double-clean": (50, 30),
}
"""Updates of the thirteenth set's trainings by task, and when most of what is learned was learned."""


@dataclass(frozen=True, slots=True)
class Construction:
    """One way to train `task`. Without `harm` it is meant to be healthy and `rules` are empty.

    `ppo` are settings of the whole run, `resumed` those with which a second attempt goes on after `onset`, and
    `resumed_env` the environment's arguments then.
    """

    name: str
    task: Task
    tamper: Tamper = tamper.leaves_alone
    onset: int | None = None
    harm: tuple[HarmTest, ...] = ()
    rules: tuple[str, ...] = ()
    ppo: Mapping[str, Any] = field(default_factory=dict)
    resumed: Mapping[str, Any] | None = None
    resumed_env: Mapping[str, Any] | None = None
    updates: int = UPDATES
    note: str = ""
    few: int | None = None

    @property
    def half(self) -> Half:
        """Whether it is for tuning or for scoring."""
        return half_of(self.task.name)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds it is trained with: all of its half, or the first `few`; of a moved task those of scoring."""
        return SEEDS["scoring" if self.task.name in MOVED else self.half][: self.few]

    def trace_name(self, seed: int) -> str:
        """The name of its trace with `seed`."""
        return f"{self.name}-{self.task.name}-s{seed}"


KL = ("kl-persistent", "kl-spike", "clip-fraction")
BONUS = ("drawdown", "policy-std", "actions-at-bound", "ent-coef")
COLLAPSE = ("entropy-collapse", "policy-std", "policy-frozen", "drawdown", "actions-at-bound")
IDLE = ("stall", "outcomes")


def _once(name: str, task: Task, act: Callable[[Any], None], onset: int = MIDWAY, **rest: Any) -> Construction:
    return Construction(name, task, tamper.from_onset(onset, act), onset, **rest)


TWINS = (
    *(Construction("healthy", task) for task in (CARTPOLE, ACROBOT, PENDULUM, MISSION)),
    *(Construction("healthy", task, few=2) for task in (POINTING, PENDULUM_SDE)),
    Construction("healthy", FROZEN_LAKE),
    *(
        Construction("healthy", task, updates=120 if task is TAXI else UPDATES)
        for task in (
            NOISY_CARTPOLE,
            SLIPPERY,
            TAXI,
            BLACKJACK,
            BANDIT,
            CORRIDOR,
            TRACKING,
            LOCKS,
            CATCH,
            DOCKING,
            INVENTORY,
            QUEUE,
            REACHING,
            NOISY_ACROBOT,
        )
    ),
    *(Construction("healthy", task, few=3) for task in (PRICING, HEATING, NOISY_POINTING)),
    Construction("healthy", HARBOUR_MISSION, few=2),
    *(
        Construction("healthy", task, updates=200, few=3)
        for task in (CARTPOLE_CLEAN, CARTPOLE_ZOO, CLIFF, DOSING, LENDING, NOISY_PENDULUM)
    ),
    *(Construction("healthy", task, updates=200, few=2) for task in (AUCTION, MACHINE, KEYS, CHASING, ACROBOT_CLEAN)),
    *(Construction("healthy", task, few=3) for task in (FLOORS, PROSPECTING)),
    *(Construction("healthy", task, few=2) for task in (CRANE, ARCHERY, CATALOGUE)),
    *(Construction("healthy", task, few=2) for task in (HOPPER, REACHER, LUNAR_CONTINUOUS)),
    *(
        Construction("healthy", task)
        for task in (LUNAR_LANDER, HALF_CHEETAH, INVERTED_PENDULUM, DOUBLE_PENDULUM, PUSHER, HILL)
    ),
    *(Construction("healthy", task) for task in (WALKER, SWIMMER, BIPEDAL, CARTPOLE_SINGLE, LANDER_SINGLE, PIXELS)),
    *(
        Construction("healthy", task)
        for task in (
            LARGE_LAKE,
            SCHEDULING,
            SIGHTLESS,
            ASSEMBLY,
            HOVERING,
            GRAZING,
            MINING,
            SPELLING,
            FORAGING,
        )
    ),
    *(Construction("healthy", task) for task in (GRADING, DELIVERING, ROLLING, DISPATCHING, SWITCHING, ECHOING)),
    *(Construction("healthy", task, updates=SHORT_UPDATES, few=2) for task in (PARKING, PACKING, FILING)),
    *(Construction("healthy", task, updates=TENTH_UPDATES) for task in (MOWING, WATERING, COOLING)),
    Construction("healthy", ACROBOT_ZOO, updates=ZOO_UPDATES, few=2),
    *(Construction("healthy", task, few=3) for task in (SAILING, SIGNALLING, SMELTING, SMELTING_LONG, SHIPPING)),
    *(Construction("healthy", task, few=3) for task in (DIALLING, FERRYING)),
    Construction("healthy", HOMING),
    *(Construction("healthy", task, few=2) for task in (ROWING, THROWING)),
    Construction("healthy", SKIING, updates=TENTH_UPDATES),
    *(Construction("healthy", task, updates=TENTH_UPDATES, few=2) for task in (ESCAPING, ELEVATING)),
    Construction("healthy", REACHER_ZOO, updates=SHORT_UPDATES, few=2),
    *(Construction("healthy", task, few=2) for task in (LIFTING, SHEDDING)),
    *(Construction("healthy", task, updates=TENTH_UPDATES) for task in (WELDING, KEEPING)),
    Construction("healthy", MILLING, updates=TENTH_UPDATES, few=2),
    Construction("healthy", TOLLING, updates=TOLLING_UPDATES, few=2),
    Construction("healthy", INVERTED_ZOO, updates=INVERTED_UPDATES, few=2),
    *(
        Construction("healthy", task, updates=SHORT_UPDATES, few=3)
        for task in (BALANCING, HERDING, LISTENING, STEERING, SEARCHING, CLIMBING)
    ),
    *(Construction("healthy", task, updates=TENTH_UPDATES, few=3) for task in (PLOUGHING, STOKING, KNEADING, MELDING)),
    *(
        Construction("healthy", task, updates=TENTH_UPDATES, few=5, note="left alone, most settle early on little")
        for task in (ANGLING, DIVING)
    ),
    *(
        Construction("healthy", task, updates=THIRTEENTH[task.name][0], few=2)
        for task in (DOUBLE_CLEAN, BREWING, CROSSING, BLENDING, HUNTING, DRILLING, FISHING)
    ),
)

_VARIANTS = (
    Construction("healthy", MOUNTAIN_CAR, note="still at its time limit, as most young runs are"),
    Construction("clip-0.1", PENDULUM, ppo={"clip_range": 0.1}),
    Construction("clip-0.4", CARTPOLE, ppo={"clip_range": 0.4}),
    Construction("target-kl", PENDULUM, ppo={"target_kl": 0.02}),
    Construction("linear-lr", CARTPOLE, ppo={"learning_rate": Schedule(start=2e-3, end=0.0)}),
    Construction("linear-clip", CARTPOLE, ppo={"clip_range": Schedule(start=0.2, end=0.0)}, few=2),
)

_DECAY = {"learning_rate": Schedule(start=1e-3, end=0.0), "clip_range": Schedule(start=0.2, end=0.0)}

_SCORING_VARIANTS = (
    *(Construction("annealed", task, ppo=_DECAY, few=2) for task in (TRACKING, LOCKS, NOISY_CARTPOLE)),
    *(Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=2) for task in (BANDIT, SLIPPERY)),
    Construction("sde", TRACKING, ppo={"use_sde": True, "sde_sample_freq": 4, "clip_range": 0.4}, few=2),
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

_GONE = (
    *(
        _once("lr-gone", task, tamper.set_ppo(0.0), EARLY, harm=(fell_behind,), rules=("policy-frozen",), few=2)
        for task in (CARTPOLE,)
    ),
    Construction(
        "no-value", ACROBOT, onset=1, harm=(fell_behind,), rules=("explained-variance",), ppo={"vf_coef": 0.0}, few=2
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

WORLD = ("drawdown", "kl-spike", "kl-persistent", "value-loss", "explained-variance", "entropy-collapse")
VALUES = ("explained-variance", "value-loss")
LOST = ("drawdown", "reward-oscillation", *VALUES)
MYOPIC = ("explained-variance", "stall")
SOON = 20


def _worlds_turn(
    name: str, tasks: tuple[Task, ...], act: Callable[[Any], None], few: int = 2, **rest: Any
) -> tuple[Construction, ...]:
    return tuple(_once(name, task, act, harm=(fell_behind,), few=few, **rest) for task in tasks)


def _settings(
    name: str, tasks: tuple[Task, ...], rules: tuple[str, ...], few: int = 2, **ppo: Any
) -> tuple[Construction, ...]:
    harm = (never_learned, fell_behind)
    return tuple(Construction(name, task, onset=1, harm=harm, rules=rules, ppo=ppo, few=few) for task in tasks)


_SCORING = (
    *_worlds_turn("obs-30", (NOISY_CARTPOLE, BANDIT), tamper.observations_times(30.0), rules=WORLD),
    *_worlds_turn("reward-sign", (NOISY_CARTPOLE, BANDIT, CORRIDOR), tamper.rewards_times(-1.0), rules=LOST),
    *_worlds_turn(
        "reward-gone",
        (NOISY_CARTPOLE, BANDIT),
        tamper.rewards_times(0.0),
        onset=SOON,
        rules=(*LOST, "policy-frozen"),
    ),
    *_worlds_turn("liars", (BANDIT, NOISY_CARTPOLE), tamper.liars, rules=LOST),
    *_worlds_turn(
        "lr-0",
        (TRACKING, LOCKS, NOISY_CARTPOLE, SLIPPERY),
        tamper.set_ppo(0.0),
        onset=10,
        rules=("policy-frozen",),
    ),
    *_worlds_turn(
        "minibatch-4",
        (TRACKING, LOCKS),
        tamper.set_ppo(10.0, batch_size=4),
        rules=(*KL, *COLLAPSE, "nan"),
        updates=105,
        note="learning rate x 10 at the same time",
    ),
    *_worlds_turn(
        "ent-1",
        (TRACKING, LOCKS, NOISY_CARTPOLE),
        tamper.set_ppo(ent_coef=1.0),
        rules=BONUS,
    ),
    *_worlds_turn("mismatch", (LOCKS,), tamper.blurs_the_update(1.0), onset=SOON, rules=("ratio",)),
    *_settings("gamma-0", (NOISY_CARTPOLE, SLIPPERY, CORRIDOR), MYOPIC, gamma=0.0),
    *_settings("vf-0", (TRACKING, SLIPPERY, NOISY_CARTPOLE), VALUES, vf_coef=0.0),
    _once(
        "other-env",
        LOCKS,
        tamper.stops,
        harm=(dropped,),
        rules=("resume-probe",),
        resumed={},
        resumed_env={"shift": 1},
        updates=110,
        few=2,
    ),
    Construction(
        "unsaved",
        BLACKJACK,
        tamper.without_checkpoints(MIDWAY, 20),
        MIDWAY,
        (unsaved,),
        ("checkpoint-age",),
        updates=100,
        few=2,
    ),
    Construction(
        "creep",
        TRACKING,
        tamper.creeps(60, 1.04),
        60,
        (fell_behind,),
        ("kl-creep", *KL),
        updates=200,
        few=2,
    ),
    Construction(
        "stuck",
        LOCKS,
        onset=1,
        harm=(never_learned,),
        rules=("plateau",),
        ppo={"ent_coef": 0.3},
        updates=300,
        few=2,
    ),
)

_GSDE = {"use_sde": True, "sde_sample_freq": 4, "clip_range": 0.4}
_TOO_LARGE = (*KL, *COLLAPSE, "nan")

_KNOWN_TROUBLES = (
    *_settings("gamma-0", (CARTPOLE, ACROBOT, PENDULUM, POINTING), MYOPIC, gamma=0.0),
    *_settings("vf-0", (CARTPOLE, PENDULUM, POINTING), VALUES, vf_coef=0.0),
    *_worlds_turn(
        "ent-1",
        (CARTPOLE, PENDULUM, POINTING),
        tamper.set_ppo(ent_coef=1.0),
        rules=BONUS,
    ),
    Construction("sde", PENDULUM, ppo=_GSDE, few=2),
    Construction("annealed", PENDULUM, ppo=_DECAY, few=2),
    *_worlds_turn("obs-30", (CARTPOLE, POINTING), tamper.observations_times(30.0), rules=WORLD),
    *_worlds_turn("reward-sign", (CARTPOLE, POINTING, ACROBOT), tamper.rewards_times(-1.0), rules=LOST),
    *_worlds_turn("lr-0", (ACROBOT, POINTING), tamper.set_ppo(0.0), onset=10, rules=("policy-frozen",)),
    Construction(
        "stuck", POINTING, onset=1, harm=(never_learned,), rules=("plateau",), ppo={"ent_coef": 0.5}, updates=300, few=2
    ),
)

_NEW_TASKS = (
    *(Construction("annealed", task, ppo=_DECAY, few=2) for task in (CATCH, DOCKING, INVENTORY)),
    Construction("sde", DOCKING, ppo=_GSDE, few=2),
    *(Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=2) for task in (CATCH, INVENTORY)),
    *_settings("gamma-0", (CATCH, DOCKING, INVENTORY), MYOPIC, gamma=0.0),
    *_settings("vf-0", (CATCH, DOCKING, INVENTORY), VALUES, vf_coef=0.0),
    *_worlds_turn(
        "ent-1",
        (DOCKING, CATCH),
        tamper.set_ppo(ent_coef=1.0),
        rules=BONUS,
    ),
    *_worlds_turn("obs-30", (CATCH, INVENTORY), tamper.observations_times(30.0), rules=WORLD),
    *_worlds_turn("reward-sign", (CATCH, DOCKING), tamper.rewards_times(-1.0), rules=LOST),
    *_worlds_turn("lr-0", (CATCH, DOCKING, INVENTORY), tamper.set_ppo(0.0), onset=10, rules=("policy-frozen",)),
    *_worlds_turn("lr-300", (CATCH, DOCKING, INVENTORY), tamper.set_ppo(300.0), rules=_TOO_LARGE),
    *_settings("ent-zero", (CATCH, INVENTORY), ("entropy-collapse", "policy-frozen"), ent_coef=0.0, learning_rate=5e-2),
    *_worlds_turn("no-critic", (CATCH, DOCKING, INVENTORY), tamper.loses_its_critic, onset=SOON, rules=VALUES),
    *_worlds_turn("half-blind", (DOCKING, INVENTORY, LOCKS), tamper.hides_observations, rules=WORLD),
    *_worlds_turn("swapped", (CATCH, INVENTORY, NOISY_CARTPOLE), tamper.swaps_actions, rules=WORLD),
)

_MOVED = (
    Construction("wide-clip", FROZEN_LAKE, ppo={"clip_range": 0.4}, few=2),
    *_worlds_turn("lr-0", (FROZEN_LAKE,), tamper.set_ppo(0.0), onset=10, rules=("policy-frozen",)),
    *_settings("gamma-0", (FROZEN_LAKE,), MYOPIC, gamma=0.0),
    *_settings("vf-0", (FROZEN_LAKE,), VALUES, vf_coef=0.0),
)


def _noisy(
    discrete: tuple[Task, ...], continuous: tuple[Task, ...], signed: tuple[Task, ...]
) -> Iterator[Construction]:
    """The same for both halves; rewards change their sign only where something else says how an episode went."""
    tasks = (*discrete, *continuous)
    yield from (Construction("annealed", task, ppo=_DECAY, few=2) for task in tasks)
    yield from (Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=2) for task in discrete)
    yield from (Construction("sde", task, ppo=_GSDE, few=2) for task in continuous)
    yield from _settings("gamma-0", tasks, MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", tasks, VALUES, few=1, vf_coef=0.0)
    yield from _worlds_turn("lr-0", tasks, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",))
    yield from _worlds_turn("lr-300", tasks, tamper.set_ppo(300.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn("ent-1", continuous, tamper.set_ppo(ent_coef=1.0), rules=BONUS)
    yield from _worlds_turn("reward-sign", signed, tamper.rewards_times(-1.0), few=1, rules=LOST)


_LATE = (
    *_noisy((PRICING, NOISY_POINTING), (HEATING,), (NOISY_POINTING,)),
    *_noisy((QUEUE, NOISY_ACROBOT), (REACHING,), (NOISY_ACROBOT,)),
    *_worlds_turn("swapped", (QUEUE, NOISY_ACROBOT), tamper.swaps_actions, few=1, rules=WORLD),
    *_worlds_turn("half-blind", (QUEUE, REACHING), tamper.hides_observations, few=1, rules=WORLD),
    *_worlds_turn("liars", (NOISY_ACROBOT,), tamper.liars, few=1, rules=LOST),
    _once("nan-reward", QUEUE, tamper.nan_rewards, 60, harm=(turned_nan,), rules=("nan",), few=2),
    _once("worker-hang", QUEUE, tamper.hangs(150.0), 80, harm=(hung,), rules=("hang",), updates=95, few=2),
    _once(
        "hacked",
        HARBOUR_MISSION,
        tamper.survival_bonus(0.2),
        harm=(lived_at_the_cap,),
        rules=("outcomes", "stall"),
        few=2,
    ),
)


def _of_strangers(discrete: tuple[Task, ...], continuous: tuple[Task, ...], few: int) -> Iterator[Construction]:
    """Healthy settings that a stranger's log may have: rates and clip ranges that decay, a wide clip range, gSDE."""
    for construction in (
        *(Construction("annealed", task, ppo=_DECAY, few=few) for task in (*discrete, *continuous)),
        *(Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=few) for task in discrete),
        *(Construction("sde", task, ppo=_GSDE, few=few) for task in continuous),
    ):
        yield replace(construction, updates=200)


_BEFORE_FRESH = (
    *_of_strangers((CLIFF, LENDING), (DOSING, NOISY_PENDULUM), few=2),
    *_settings("gamma-0", (CLIFF, LENDING), MYOPIC, few=1, gamma=0.0),
)

_FRESH_TASKS = (AUCTION, MACHINE, KEYS, CHASING, ACROBOT_CLEAN)
_FRESH = (
    *_of_strangers((AUCTION, MACHINE, KEYS), (CHASING,), few=1),
    *_settings("gamma-0", _FRESH_TASKS, MYOPIC, few=1, gamma=0.0),
    *_settings("vf-0", _FRESH_TASKS, VALUES, few=1, vf_coef=0.0),
    *_worlds_turn("lr-0", _FRESH_TASKS, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",)),
    *_worlds_turn("lr-100", _FRESH_TASKS, tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE),
    *_worlds_turn("reward-gone", _FRESH_TASKS, tamper.rewards_times(0.0), few=1, rules=(*LOST, "policy-frozen")),
    # The machine's episodes are told by their rewards alone.
    *_worlds_turn(
        "reward-sign", (AUCTION, KEYS, CHASING, ACROBOT_CLEAN), tamper.rewards_times(-1.0), few=1, rules=LOST
    ),
    *_worlds_turn("obs-30", (AUCTION, MACHINE, KEYS, CHASING), tamper.observations_times(30.0), few=1, rules=WORLD),
)

_LATER_DISCRETE, _LATER_CONTINUOUS = (FLOORS, PROSPECTING, CATALOGUE), (CRANE, ARCHERY)
_LATER_TASKS = (*_LATER_DISCRETE, *_LATER_CONTINUOUS)
_LATER = (
    *(Construction("annealed", task, ppo=_DECAY, few=1) for task in _LATER_TASKS),
    *(Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1) for task in _LATER_DISCRETE),
    *(Construction("sde", task, ppo=_GSDE, few=1) for task in _LATER_CONTINUOUS),
    _once("nan-reward", PROSPECTING, tamper.nan_rewards, 60, harm=(turned_nan,), rules=("nan",), few=1),
    _once("worker-hang", CATALOGUE, tamper.hangs(150.0), 80, harm=(hung,), rules=("hang",), updates=95, few=1),
    *_worlds_turn("lr-100", _LATER_TASKS, tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE),
    *_worlds_turn("reward-sign", _LATER_TASKS, tamper.rewards_times(-1.0), few=1, rules=LOST),
    *_settings("gamma-0", _LATER_TASKS, MYOPIC, few=1, gamma=0.0),
    *_settings("vf-0", _LATER_TASKS, VALUES, few=1, vf_coef=0.0),
    *_worlds_turn("lr-0", _LATER_TASKS, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",)),
    *_worlds_turn("obs-30", _LATER_TASKS, tamper.observations_times(30.0), few=1, rules=WORLD),
    *_worlds_turn("reward-gone", _LATER_TASKS, tamper.rewards_times(0.0), few=1, rules=(*LOST, "policy-frozen")),
)


_DISCRETE_OF_GYMNASIUM = ("lunar-lander", "cartpole-single", "lander-single", "pixels")


def _settings_of_others(tasks: tuple[Task, ...]) -> Iterator[Construction]:
    """Healthy settings, one seed each."""
    for task in tasks:
        yield Construction("annealed", task, ppo=_DECAY, few=1)
        yield Construction("clip-0.1", task, ppo={"clip_range": 0.1}, few=1)
        yield Construction("target-kl", task, ppo={"target_kl": 0.02}, few=1)
        if task.name in _DISCRETE_OF_GYMNASIUM:
            yield Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1)
        elif not task.ppo.use_sde:
            yield Construction("sde", task, ppo=_GSDE, few=1)


_STOCK = {
    "n_steps": 128,
    "batch_size": 64,
    "n_epochs": 10,
    "learning_rate": 3e-4,
    "clip_range": 0.2,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "ent_coef": 0.0,
}
"""SB3's defaults for PPO, with its 2,048 steps taken by 16 environments."""


def _stock(tasks: tuple[Task, ...]) -> Iterator[Construction]:
    """Left as SB3 has it, for the 100,000 steps that somebody tries first."""
    return (Construction("stock", task, ppo=_STOCK, updates=50, few=1) for task in tasks)


def _or_for_long(constructions: Iterable[Construction]) -> Iterator[Construction]:
    """Harmed too if it passed: a training that came back has still lost that time."""
    return (replace(it, harm=(*it.harm, lost_for_long)) for it in constructions)


def _troubles(tasks: tuple[Task, ...]) -> Iterator[Construction]:
    yield from _worlds_turn("lr-100", tasks, tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn("obs-30", tasks, tamper.observations_times(30.0), few=1, rules=WORLD)
    yield from _settings("gamma-0", tasks, MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", tasks, VALUES, few=1, vf_coef=0.0)


def _further_troubles(tasks: tuple[Task, ...], gaussian: tuple[Task, ...]) -> Iterator[Construction]:
    yield from _worlds_turn("lr-0", tasks, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",))
    yield from _worlds_turn("no-critic", tasks, tamper.loses_its_critic, few=1, onset=SOON, rules=VALUES)
    yield from _worlds_turn("ent-1", gaussian, tamper.set_ppo(ent_coef=1.0), few=1, rules=BONUS)
    # The pendulums' episodes are told by their lengths, whatever is paid.
    by_length = (INVERTED_PENDULUM, DOUBLE_PENDULUM)
    yield from _worlds_turn("reward-sign", by_length, tamper.rewards_times(-1.0), few=1, rules=LOST)
    yield from _worlds_turn("reward-gone", by_length, tamper.rewards_times(0.0), few=1, rules=(*LOST, "policy-frozen"))
    seen = (LUNAR_LANDER, HALF_CHEETAH, PUSHER)
    yield from _worlds_turn("half-blind", seen, tamper.hides_observations, few=1, rules=WORLD)
    yield from _worlds_turn("swapped", (LUNAR_LANDER,), tamper.swaps_actions, few=1, rules=WORLD)


_GAUSSIAN = (HALF_CHEETAH, INVERTED_PENDULUM, DOUBLE_PENDULUM, PUSHER, HILL)
_GYMNASIUM = (LUNAR_LANDER, *_GAUSSIAN)
"""Tasks that their healthy seeds learn well, so that the tests of harm have something to see."""

_OF_GYMNASIUM = (
    *_settings_of_others((HOPPER, REACHER, LUNAR_CONTINUOUS)),
    *_stock((CARTPOLE, ACROBOT, PENDULUM, FROZEN_LAKE, HOPPER, REACHER, LUNAR_CONTINUOUS)),
    *_or_for_long(_troubles((HOPPER, REACHER))),
    *_settings_of_others(_GYMNASIUM),
    *_stock(_GYMNASIUM),
    *_or_for_long(_troubles(_GYMNASIUM)),
    *_or_for_long(_further_troubles(_GYMNASIUM, _GAUSSIAN)),
)

_WALKING = (WALKER, SWIMMER, BIPEDAL)
_SEEN_AS_IMAGES = (PIXELS,)
_SEVENTH = (*_WALKING, CARTPOLE_SINGLE, LANDER_SINGLE, *_SEEN_AS_IMAGES)


def _seventh_troubles() -> Iterator[Construction]:
    """Rewards are gone or reversed only where an episode is told by something else; images are not multiplied."""
    by_something_else = (CARTPOLE_SINGLE, PIXELS)
    numbers = (*_WALKING, CARTPOLE_SINGLE, LANDER_SINGLE)
    yield from _worlds_turn("lr-100", _SEVENTH, tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn("obs-30", numbers, tamper.observations_times(30.0), few=1, rules=WORLD)
    yield from _settings("gamma-0", _SEVENTH, MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", _SEVENTH, VALUES, few=1, vf_coef=0.0)
    yield from _worlds_turn("lr-0", _SEVENTH, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",))
    yield from _worlds_turn("no-critic", _SEVENTH, tamper.loses_its_critic, few=1, onset=SOON, rules=VALUES)
    yield from _worlds_turn("ent-1", _WALKING, tamper.set_ppo(ent_coef=1.0), few=1, rules=BONUS)
    yield from _worlds_turn("reward-sign", by_something_else, tamper.rewards_times(-1.0), few=1, rules=LOST)
    yield from _worlds_turn(
        "reward-gone", by_something_else, tamper.rewards_times(0.0), few=1, rules=(*LOST, "policy-frozen")
    )
    yield from _worlds_turn(
        "half-blind", (WALKER, BIPEDAL, LANDER_SINGLE), tamper.hides_observations, few=1, rules=WORLD
    )
    yield from _worlds_turn(
        "swapped", (CARTPOLE_SINGLE, LANDER_SINGLE, PIXELS), tamper.swaps_actions, few=1, rules=WORLD
    )


_OF_THE_SEVENTH = (
    *_settings_of_others(_SEVENTH),
    *_stock((*_WALKING, PIXELS)),
    *_or_for_long(_seventh_troubles()),
)

_ONE_HEAD = (LARGE_LAKE, SIGHTLESS, ASSEMBLY, GRAZING, MINING, SPELLING, FORAGING)
_EIGHTH = (*_ONE_HEAD, SCHEDULING, HOVERING)


def _eighth_settings() -> Iterator[Construction]:
    """Benign, three or four a task."""
    yield from (Construction("annealed", task, ppo=_DECAY, few=1) for task in _EIGHTH)
    yield from (Construction("target-kl", task, ppo={"target_kl": 0.02}, few=1) for task in _EIGHTH)
    wide = (LARGE_LAKE, ASSEMBLY, GRAZING, SPELLING, SCHEDULING)
    yield from (Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1) for task in wide)
    yield Construction("sde", HOVERING, ppo=_GSDE, few=1)
    for task in (SIGHTLESS, MINING, FORAGING):
        yield Construction("linear-clip", task, ppo={"clip_range": Schedule(start=0.2, end=0.0)}, few=1)
    yield from _stock((SCHEDULING, ASSEMBLY, HOVERING, MINING))


def _eighth_troubles() -> Iterator[Construction]:
    """Rewards are gone or reversed, or lied about, only where an episode is told by something else."""
    for it in (
        *_worlds_turn(
            "reward-sign",
            (SIGHTLESS, ASSEMBLY, HOVERING, MINING, SPELLING, FORAGING),
            tamper.rewards_times(-1.0),
            rules=LOST,
        ),
        *_worlds_turn(
            "reward-gone",
            (SCHEDULING, SIGHTLESS, ASSEMBLY, FORAGING),
            tamper.rewards_times(0.0),
            few=1,
            rules=(*LOST, "policy-frozen"),
        ),
        *_worlds_turn("liars", (SCHEDULING, ASSEMBLY, MINING), tamper.liars, few=1, rules=LOST),
    ):
        yield replace(it, harm=(*it.harm, paid_less))
    yield from _worlds_turn(
        "reward-clipped",
        (HOVERING, GRAZING, MINING),
        tamper.clips_rewards,
        few=1,
        onset=SOON,
        rules=(*LOST, "policy-frozen"),
    )
    yield from _worlds_turn(
        "late-actions",
        (SIGHTLESS, HOVERING, GRAZING, SPELLING, FORAGING),
        tamper.acts_late(3),
        few=1,
        rules=WORLD,
    )
    yield from _worlds_turn("norm-lost", (SCHEDULING, HOVERING), tamper.loses_its_normalizer, few=1, rules=WORLD)
    yield from _worlds_turn(
        "swapped",
        (LARGE_LAKE, SIGHTLESS, ASSEMBLY, GRAZING, MINING, SPELLING, FORAGING),
        tamper.swaps_actions,
        rules=WORLD,
    )
    seen = (SCHEDULING, SIGHTLESS, HOVERING, MINING, FORAGING)
    yield from _worlds_turn("half-blind", seen, tamper.hides_observations, few=1, rules=WORLD)
    raw = (SCHEDULING, ASSEMBLY, MINING, FORAGING)
    yield from _worlds_turn("obs-30", raw, tamper.observations_times(30.0), few=1, rules=WORLD)
    frozen = (LARGE_LAKE, SCHEDULING, HOVERING, GRAZING, MINING, SPELLING, FORAGING)
    yield from _worlds_turn("lr-0", frozen, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",))
    large = (SIGHTLESS, HOVERING, GRAZING, MINING, FORAGING)
    yield from _worlds_turn("lr-100", large, tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn("lr-300", (SCHEDULING, ASSEMBLY, SPELLING), tamper.set_ppo(300.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn(
        "minibatch-4",
        (ASSEMBLY,),
        tamper.set_ppo(10.0, batch_size=4),
        few=1,
        rules=_TOO_LARGE,
        updates=105,
        note="learning rate x 10 at the same time",
    )
    bonus = (SCHEDULING, HOVERING, GRAZING, FORAGING)
    yield from _worlds_turn("ent-1", bonus, tamper.set_ppo(ent_coef=1.0), few=1, rules=BONUS)
    for task in (SCHEDULING, GRAZING):
        rules = ("kl-creep", *KL)
        yield Construction("creep", task, tamper.creeps(60, 1.04), 60, (fell_behind,), rules, updates=200, few=1)
    yield from _settings("gamma-0", (LARGE_LAKE, SIGHTLESS, ASSEMBLY, HOVERING), MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", (SIGHTLESS, HOVERING), VALUES, few=1, vf_coef=0.0)
    yield from _settings(
        "ent-zero",
        (LARGE_LAKE, SPELLING, FORAGING),
        ("entropy-collapse", "policy-frozen"),
        few=1,
        ent_coef=0.0,
        learning_rate=5e-2,
    )


_OF_THE_EIGHTH = (*_eighth_settings(), *_or_for_long(_eighth_troubles()))

_NINTH = (GRADING, DELIVERING, ROLLING, DISPATCHING, SWITCHING, ECHOING)


def _ninth_settings() -> Iterator[Construction]:
    """Benign, three or four a task; what is learned at a small rate is annealed from one of that size. Left out is what
    would change nothing: a limit of KL, or a wide clip range, where no update comes near it.
    """
    annealed = (ROLLING, DISPATCHING, SWITCHING, ECHOING)
    yield from (Construction("annealed", task, ppo=_DECAY, few=1) for task in annealed)
    for task, rate in ((GRADING, 6e-5), (DELIVERING, 1.5e-4)):
        decay = {**_DECAY, "learning_rate": Schedule(start=rate, end=0.0)}
        yield Construction("annealed", task, ppo=decay, few=1)
    yield from (Construction("target-kl", task, ppo={"target_kl": 0.02}, few=1) for task in (ROLLING, SWITCHING))
    yield from (Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1) for task in (DELIVERING, ECHOING))
    yield Construction("sde", ROLLING, ppo=_GSDE, few=1)
    for task in (GRADING, DELIVERING, DISPATCHING, SWITCHING, ECHOING):
        yield Construction("linear-clip", task, ppo={"clip_range": Schedule(start=0.2, end=0.0)}, few=1)
    yield from _stock((GRADING, ROLLING, DISPATCHING, SWITCHING))


def _ninth_troubles() -> Iterator[Construction]:
    """Four or five a task, one seed each."""
    for it in (
        *_worlds_turn("reward-sign", (GRADING, SWITCHING), tamper.rewards_times(-1.0), few=1, rules=LOST),
        *_worlds_turn(
            "reward-gone", (DELIVERING, ECHOING), tamper.rewards_times(0.0), few=1, rules=(*LOST, "policy-frozen")
        ),
        *_worlds_turn("liars", (DISPATCHING, SWITCHING), tamper.liars, few=1, rules=LOST),
    ):
        yield replace(it, harm=(*it.harm, paid_less))
    yield from _worlds_turn(
        "reward-clipped",
        (DISPATCHING,),
        tamper.clips_rewards,
        few=1,
        onset=SOON,
        rules=(*LOST, "policy-frozen"),
    )
    yield from _worlds_turn("late-actions", (ROLLING, ECHOING), tamper.acts_late(3), few=1, rules=WORLD)
    yield from _worlds_turn("norm-lost", (ROLLING,), tamper.loses_its_normalizer, few=1, rules=WORLD)
    yield from _worlds_turn("swapped", (GRADING, DELIVERING), tamper.swaps_actions, few=1, rules=WORLD)
    yield from _worlds_turn("half-blind", (GRADING, DISPATCHING), tamper.hides_observations, few=1, rules=WORLD)
    yield from _worlds_turn("obs-30", (DISPATCHING, ECHOING), tamper.observations_times(30.0), few=1, rules=WORLD)
    frozen = (GRADING, DELIVERING, ROLLING)
    yield from _worlds_turn("lr-0", frozen, tamper.set_ppo(0.0), few=1, onset=10, rules=("policy-frozen",))
    yield from _worlds_turn("lr-100", (DISPATCHING, ROLLING), tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn("lr-300", (SWITCHING, ECHOING), tamper.set_ppo(300.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn(
        "minibatch-4",
        (ECHOING,),
        tamper.set_ppo(10.0, batch_size=4),
        few=1,
        rules=_TOO_LARGE,
        updates=105,
        note="learning rate x 10 at the same time",
    )
    yield from _worlds_turn("ent-1", (ROLLING, SWITCHING), tamper.set_ppo(ent_coef=1.0), few=1, rules=BONUS)
    yield from _settings("gamma-0", (DELIVERING,), MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", (DELIVERING,), VALUES, few=1, vf_coef=0.0)
    yield from _settings(
        "ent-zero",
        (SWITCHING,),
        ("entropy-collapse", "policy-frozen"),
        few=1,
        ent_coef=0.0,
        learning_rate=5e-2,
    )


def _kinds_that_tuning_lacked() -> Iterator[Construction]:
    """What was told of scoring tasks alone until now, on tuning tasks: one seed each."""
    yield from _worlds_turn("late-actions", (CARTPOLE, PENDULUM, HEATING), tamper.acts_late(3), few=1, rules=WORLD)
    yield from _worlds_turn("norm-lost", (PENDULUM, HEATING), tamper.loses_its_normalizer, few=1, rules=WORLD)
    yield from _worlds_turn(
        "reward-clipped",
        (INVENTORY, PRICING),
        tamper.clips_rewards,
        few=1,
        onset=SOON,
        rules=(*LOST, "policy-frozen"),
    )
    yield from _settings("ent-first", (CARTPOLE, PENDULUM), (*BONUS, "explained-variance"), few=1, ent_coef=1.0)
    long = (SAILING, SIGNALLING, SMELTING_LONG)
    yield from _worlds_turn("late-actions", (*long, SMELTING), tamper.acts_late(3), few=2, rules=WORLD)
    yield from _worlds_turn("new-head", (*long, SMELTING), tamper.loses_its_head, few=2, rules=WORLD)
    yield from _worlds_turn("half-blind", (SAILING, SIGNALLING), tamper.hides_observations, few=1, rules=WORLD)
    yield from _worlds_turn("reversed", (SAILING,), tamper.reverses_actions, few=1, rules=WORLD)
    yield from _worlds_turn("swapped", (SMELTING_LONG, SHIPPING), tamper.swaps_actions, few=1, rules=WORLD)
    yield from _worlds_turn("lr-100", (SAILING, SIGNALLING), tamper.set_ppo(100.0), few=1, rules=_TOO_LARGE)
    yield from _worlds_turn(
        "reward-clipped",
        (SMELTING, SMELTING_LONG, SHIPPING),
        tamper.clips_rewards,
        few=2,
        onset=SOON,
        rules=(*LOST, "policy-frozen"),
    )


def _before_the_first_success() -> Iterator[Construction]:
    """Where one reward is seldom met: randomness that is paid for, steps far too large, and values that cannot help."""
    sparse = (DIALLING, FERRYING)
    yield from _settings("ent-first", sparse, (*BONUS, "explained-variance"), few=3, ent_coef=1.0)
    yield from _worlds_turn("ent-1", (DIALLING,), tamper.set_ppo(ent_coef=1.0), onset=SOON, rules=BONUS)
    yield from _worlds_turn("ent-1", (FERRYING,), tamper.set_ppo(ent_coef=1.0), rules=BONUS)
    yield from _worlds_turn("lr-300", sparse, tamper.set_ppo(300.0), rules=_TOO_LARGE)
    yield from _settings("gamma-0", sparse, MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", sparse, VALUES, few=1, vf_coef=0.0)


def _benign_where_tuning_lacked_runs() -> Iterator[Construction]:
    for task in (DIALLING, FERRYING):
        yield Construction("ent-0.01", task, ppo={"ent_coef": 0.01}, few=1)
        yield Construction("annealed", task, ppo=_DECAY, few=1)
    for task in (SAILING, SIGNALLING, SMELTING, SHIPPING):
        yield Construction("annealed", task, ppo=_DECAY, few=1)
    for task in (SAILING, SIGNALLING):
        yield Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1)


_FOR_TUNING = (
    *_benign_where_tuning_lacked_runs(),
    *_or_for_long(_kinds_that_tuning_lacked()),
    *_or_for_long(_before_the_first_success()),
)

_OF_THE_NINTH = (*_ninth_settings(), *_or_for_long(_ninth_troubles()))


def _tenth_settings() -> Iterator[Construction]:
    """Benign, three or four a task: what people set, and a training that was stopped and goes on."""
    for task, rate in ((PARKING, 3e-3), (PACKING, 3e-3), (WATERING, 2e-3), (FILING, 3e-3), (COOLING, 3e-4)):
        yield Construction("annealed", task, ppo=_decay_from(rate), few=1)
    yield Construction("annealed", ACROBOT_ZOO, ppo=_decay_from(3e-4), few=1)
    # In `packing` and `acrobot-zoo` no update comes near the limit: their recorded runs were those of their twins.
    yield Construction("target-kl", PARKING, ppo={"target_kl": 0.02}, few=1)
    yield from (Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1) for task in (WATERING, FILING))
    yield Construction("clip-0.1", PARKING, ppo={"clip_range": 0.1}, few=1)
    yield from (_resumed(task) for task in (MOWING, PACKING, WATERING, COOLING))
    many = {"n_epochs": 20, "learning_rate": 3e-4}
    yield from (Construction("epochs-20", task, ppo=many, few=1) for task in (MOWING, WATERING))
    yield Construction("clip-vf", FILING, ppo={"clip_range_vf": 0.2}, few=1)
    yield from (Construction("ent-0.01", task, ppo={"ent_coef": 0.01}, few=1) for task in (PACKING, COOLING))
    yield from (Construction("whole-batch", task, ppo={"batch_size": 512}, few=1) for task in (MOWING, COOLING))


def _decay_from(rate: float) -> dict[str, Schedule]:
    return {**_DECAY, "learning_rate": Schedule(start=rate, end=0.0)}


def _resumed(task: Task) -> Construction:
    return Construction("resumed", task, tamper.from_onset(TENTH_MIDWAY, tamper.stops), TENTH_MIDWAY, resumed={}, few=1)


def _turn_of_the_tenth(
    name: str, tasks: tuple[Task, ...], act: Callable[[Any], None], onset: int = TENTH_MIDWAY, **rest: Any
) -> tuple[Construction, ...]:
    return _worlds_turn(name, tasks, act, few=1, onset=onset, **rest)


def _tenth_troubles() -> Iterator[Construction]:
    """About five a task, one seed each. Rewards are touched only where an episode is told by something else."""
    for it in (
        *_turn_of_the_tenth("reward-sign", (MOWING, PACKING), tamper.rewards_times(-1.0), rules=LOST),
        *_turn_of_the_tenth("reward-gone", (FILING,), tamper.rewards_times(0.0), rules=(*LOST, "policy-frozen")),
        *_turn_of_the_tenth("liars", (FILING,), tamper.liars, rules=LOST),
    ):
        yield replace(it, harm=(*it.harm, paid_less))
    yield from _turn_of_the_tenth(
        "reward-clipped", (COOLING,), tamper.clips_rewards, onset=SOON, rules=(*LOST, "policy-frozen")
    )
    yield from _turn_of_the_tenth("reward-drowned", (PACKING,), tamper.drowns_rewards(10.0), rules=LOST)
    yield from _turn_of_the_tenth("late-actions", (PARKING, WATERING), tamper.acts_late(3), rules=WORLD)
    yield from _turn_of_the_tenth("reversed", (PARKING,), tamper.reverses_actions, rules=WORLD)
    yield from _turn_of_the_tenth("swapped", (MOWING, FILING), tamper.swaps_actions, rules=WORLD)
    yield from _turn_of_the_tenth("half-blind", (WATERING,), tamper.hides_observations, rules=WORLD)
    yield from _turn_of_the_tenth("stuck-sensor", (PARKING, PACKING), tamper.freezes_observations, rules=WORLD)
    yield from _turn_of_the_tenth("noisy-sensor", (MOWING,), tamper.noisy_observations, rules=WORLD)
    yield from _turn_of_the_tenth("obs-30", (COOLING,), tamper.observations_times(30.0), rules=WORLD)
    zoo: dict[str, Any] = {"onset": ZOO_MIDWAY, "few": 1}
    yield from _worlds_turn("norm-lost", (ACROBOT_ZOO,), tamper.loses_its_normalizer, rules=WORLD, **zoo)
    yield from _worlds_turn("lr-100", (ACROBOT_ZOO,), tamper.set_ppo(100.0), rules=_TOO_LARGE, **zoo)
    yield from _turn_of_the_tenth("new-head", (WATERING,), tamper.loses_its_head, rules=WORLD)
    yield from _turn_of_the_tenth("lr-0", (PARKING, COOLING), tamper.set_ppo(0.0), onset=10, rules=("policy-frozen",))
    yield from _turn_of_the_tenth(
        "grad-0", (PACKING,), tamper.set_ppo(max_grad_norm=1e-9), onset=10, rules=("policy-frozen", "grad-norm")
    )
    yield from _turn_of_the_tenth("lr-100", (WATERING, FILING), tamper.set_ppo(100.0), rules=_TOO_LARGE)
    yield from _turn_of_the_tenth("lr-300", (MOWING,), tamper.set_ppo(300.0), rules=_TOO_LARGE)
    yield from _turn_of_the_tenth(
        "minibatch-8",
        (WATERING,),
        tamper.set_ppo(10.0, batch_size=8),
        rules=_TOO_LARGE,
        note="learning rate x 10 at the same time",
    )
    yield from _turn_of_the_tenth(
        "clip-10",
        (MOWING, COOLING),
        tamper.set_ppo(10.0, clip_range=lambda _: 10.0, n_epochs=20),
        rules=_TOO_LARGE,
        note="learning rate x 10 and 20 epochs at the same time",
    )
    yield from _turn_of_the_tenth("ent-1", (PACKING,), tamper.set_ppo(ent_coef=1.0), rules=BONUS)
    yield from _settings("gamma-0", (FILING, COOLING), MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", (PACKING,), VALUES, few=1, vf_coef=0.0)


def _as_long_as_its_twin(construction: Construction) -> Construction:
    twin = next(it for it in TWINS if it.task is construction.task)
    return replace(construction, updates=min(construction.updates, twin.updates))


_OF_THE_TENTH = tuple(map(_as_long_as_its_twin, (*_tenth_settings(), *_or_for_long(_tenth_troubles()))))


def _eleventh_settings() -> Iterator[Construction]:
    """Benign, two to four a task. A limit of KL and a wide clip range only where updates are as large as that."""
    rates = ((HOMING, 2e-3), (ESCAPING, 5e-4), (ROWING, 1e-3), (SKIING, 7e-4), (ELEVATING, 1e-3), (THROWING, 2e-3))
    yield from (Construction("annealed", task, ppo=_decay_from(rate), few=1) for task, rate in rates)
    yield from (Construction("target-kl", task, ppo={"target_kl": 0.02}, few=1) for task in (HOMING, ROWING))
    yield from (Construction("wide-clip", task, ppo={"clip_range": 0.4}, few=1) for task in (HOMING, THROWING))
    yield Construction("clip-0.1", REACHER_ZOO, ppo={"clip_range": 0.1}, few=1)
    # In `throwing` a resume would start the curriculum anew.
    yield from (_resumed(task) for task in (HOMING, ROWING, ELEVATING, REACHER_ZOO))
    yield Construction("epochs-20", SKIING, ppo={"n_epochs": 20, "learning_rate": 3e-4}, few=1)
    yield Construction("clip-vf", ESCAPING, ppo={"clip_range_vf": 0.2}, few=1)
    yield Construction("ent-0.01", ELEVATING, ppo={"ent_coef": 0.01}, few=1)
    yield Construction("whole-batch", ELEVATING, ppo={"batch_size": 1024}, few=1)
    yield Construction("gae-0.8", SKIING, ppo={"gae_lambda": 0.8}, few=1)
    yield Construction("raw-advantage", THROWING, ppo={"normalize_advantage": False}, few=1)
    yield Construction("small-net", ESCAPING, ppo={"net_arch": (32,)}, few=1)


def _turn_of_the_eleventh(
    name: str, tasks: tuple[Task, ...], act: Callable[[Any], None], onset: int | None = None, **rest: Any
) -> Iterator[Construction]:
    for task in tasks:
        midway = ROWING_MIDWAY if task is ROWING else TENTH_MIDWAY
        yield from _worlds_turn(name, (task,), act, few=1, onset=onset or midway, **rest)


def _eleventh_troubles() -> Iterator[Construction]:
    """About five a task, one seed each. Rewards are touched only where an episode is told by something else."""
    for it in (
        *_turn_of_the_eleventh("reward-sign", (HOMING, ELEVATING), tamper.rewards_times(-1.0), rules=LOST),
        *_turn_of_the_eleventh("reward-gone", (SKIING,), tamper.rewards_times(0.0), rules=(*LOST, "policy-frozen")),
        *_turn_of_the_eleventh("liars", (ESCAPING, THROWING), tamper.liars, rules=LOST),
    ):
        yield replace(it, harm=(*it.harm, paid_less))
    yield from _turn_of_the_eleventh(
        "reward-clipped", (ROWING, ELEVATING), tamper.clips_rewards, onset=SOON, rules=(*LOST, "policy-frozen")
    )
    yield from _turn_of_the_eleventh("late-actions", (ROWING, SKIING), tamper.acts_late(3), rules=WORLD)
    yield from _turn_of_the_eleventh("norm-lost", (ROWING, REACHER_ZOO), tamper.loses_its_normalizer, rules=WORLD)
    yield from _turn_of_the_eleventh("new-head", (ESCAPING, THROWING), tamper.loses_its_head, rules=WORLD)
    yield from _turn_of_the_eleventh("reversed", (REACHER_ZOO,), tamper.reverses_actions, rules=WORLD)
    yield from _turn_of_the_eleventh("swapped", (ELEVATING,), tamper.swaps_actions, rules=WORLD)
    yield from _turn_of_the_eleventh("half-blind", (SKIING,), tamper.hides_observations, rules=WORLD)
    yield from _turn_of_the_eleventh("stuck-sensor", (HOMING,), tamper.freezes_observations, rules=WORLD)
    yield from _turn_of_the_eleventh("noisy-sensor", (THROWING,), tamper.noisy_observations, rules=WORLD)
    yield from _turn_of_the_eleventh("obs-30", (ELEVATING,), tamper.observations_times(30.0), rules=WORLD)
    gone = ("policy-frozen",)
    yield from _turn_of_the_eleventh("lr-0", (HOMING, SKIING), tamper.set_ppo(0.0), onset=10, rules=gone)
    yield from _turn_of_the_eleventh("lr-gone", (ELEVATING, REACHER_ZOO), tamper.set_ppo(0.0), onset=EARLY, rules=gone)
    yield from _turn_of_the_eleventh("lr-100", (SKIING, THROWING), tamper.set_ppo(100.0), rules=_TOO_LARGE)
    yield from _turn_of_the_eleventh("lr-300", (ESCAPING,), tamper.set_ppo(300.0), rules=_TOO_LARGE)
    yield from _turn_of_the_eleventh(
        "clip-10",
        (ROWING,),
        tamper.set_ppo(10.0, clip_range=lambda _: 10.0, n_epochs=20),
        rules=_TOO_LARGE,
        note="learning rate x 10 and 20 epochs at the same time",
    )
    yield from _turn_of_the_eleventh("ent-1", (ESCAPING, THROWING), tamper.set_ppo(ent_coef=1.0), rules=BONUS)
    yield from _settings("ent-first", (ROWING, SKIING), (*BONUS, "explained-variance"), few=1, ent_coef=1.0)
    idle = ("entropy-collapse", "policy-frozen")
    yield from _settings("ent-zero", (HOMING,), idle, few=1, ent_coef=0.0, learning_rate=5e-2)
    yield from _settings("gamma-0", (HOMING, ESCAPING), MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", (SKIING,), VALUES, few=1, vf_coef=0.0)


_OF_THE_ELEVENTH = tuple(map(_as_long_as_its_twin, (*_eleventh_settings(), *_or_for_long(_eleventh_troubles()))))


def _midway_of(task: Task) -> int:
    return TWELFTH_MIDWAY.get(task.name, TENTH_MIDWAY)


def _goes_on(task: Task) -> Construction:
    onset = _midway_of(task)
    return Construction("resumed", task, tamper.from_onset(onset, tamper.stops), onset, resumed={}, few=1)


def _twelfth_settings() -> Iterator[Construction]:
    """Benign, two to four a task."""
    for task, rate in ((LIFTING, 1e-3), (SHEDDING, 2e-3)):
        yield Construction("annealed", task, ppo=_decay_from(rate), few=1)
    yield from (_goes_on(task) for task in (LIFTING, SHEDDING, INVERTED_ZOO))
    rectified = {"policy_kwargs": {"activation_fn": "torch.nn:ReLU"}}
    yield Construction("relu", LIFTING, ppo=rectified, few=1)
    falls = {"learning_rate": Schedule(start=4.4e-4, end=0.0)}
    yield Construction("linear-lr", INVERTED_ZOO, ppo=falls, few=1)
    yield Construction("target-kl", LIFTING, ppo={"target_kl": 0.02}, few=1)
    yield Construction("wide-clip", TOLLING, ppo={"clip_range": 0.4}, few=1)
    yield Construction("gae-0.8", TOLLING, ppo={"gae_lambda": 0.8}, few=1)
    yield Construction("gamma-0.95", TOLLING, ppo={"gamma": 0.95}, few=1)
    yield Construction("warm-up", WELDING, tamper.warms_up(20), few=1)
    yield Construction("clip-0.1", WELDING, ppo={"clip_range": 0.1}, few=1)
    yield Construction("whole-batch", WELDING, ppo={"batch_size": 1024}, few=1)
    yield Construction("vf-1", MILLING, ppo={"vf_coef": 1.0}, few=1)
    yield Construction("lr-third", MILLING, ppo={"learning_rate": 3e-4}, few=1)
    yield Construction("clip-vf", MILLING, ppo={"clip_range_vf": 0.2}, few=1)
    yield Construction("small-net", MILLING, ppo={"net_arch": (32,)}, few=1)
    yield Construction("large-net", SHEDDING, ppo={"net_arch": (256, 256)}, few=1)
    yield Construction("raw-advantage", KEEPING, ppo={"normalize_advantage": False}, few=1)
    yield Construction("epochs-20", KEEPING, ppo={"n_epochs": 20, "learning_rate": 3e-4}, few=1)
    yield Construction("ent-0.01", KEEPING, ppo={"ent_coef": 0.01}, few=1)


def _turn_of_the_twelfth(
    name: str, tasks: tuple[Task, ...], act: Callable[[Any], None], onset: int | None = None, **rest: Any
) -> Iterator[Construction]:
    for task in tasks:
        yield from _worlds_turn(name, (task,), act, few=1, onset=onset or _midway_of(task), **rest)


def _twelfth_troubles() -> Iterator[Construction]:
    """Three to seven a task, one seed each. Rewards are touched only where an episode is told by something else."""
    for it in (
        *_turn_of_the_twelfth("reward-sign", (MILLING, SHEDDING), tamper.rewards_times(-1.0), rules=LOST),
        *_turn_of_the_twelfth("reward-gone", (KEEPING,), tamper.rewards_times(0.0), rules=(*LOST, "policy-frozen")),
        *_turn_of_the_twelfth("liars", (TOLLING,), tamper.liars, rules=LOST),
    ):
        yield replace(it, harm=(*it.harm, paid_less))
    yield from _turn_of_the_twelfth(
        "reward-clipped", (TOLLING, WELDING), tamper.clips_rewards, onset=SOON, rules=(*LOST, "policy-frozen")
    )
    yield from _turn_of_the_twelfth("late-actions", (LIFTING, WELDING), tamper.acts_late(3), rules=WORLD)
    yield from _turn_of_the_twelfth("norm-lost", (LIFTING, INVERTED_ZOO), tamper.loses_its_normalizer, rules=WORLD)
    yield from _turn_of_the_twelfth("new-head", (MILLING, SHEDDING), tamper.loses_its_head, rules=WORLD)
    yield from _turn_of_the_twelfth("reversed", (LIFTING,), tamper.reverses_actions, rules=WORLD)
    yield from _turn_of_the_twelfth("swapped", (TOLLING, KEEPING), tamper.swaps_actions, rules=WORLD)
    yield from _turn_of_the_twelfth("half-blind", (WELDING, SHEDDING), tamper.hides_observations, rules=WORLD)
    yield from _turn_of_the_twelfth("stuck-sensor", (TOLLING,), tamper.freezes_observations, rules=WORLD)
    yield from _turn_of_the_twelfth("noisy-sensor", (MILLING,), tamper.noisy_observations, rules=WORLD)
    yield from _turn_of_the_twelfth("obs-30", (MILLING, TOLLING), tamper.observations_times(30.0), rules=WORLD)
    gone = ("policy-frozen",)
    yield from _turn_of_the_twelfth("lr-0", (LIFTING, SHEDDING), tamper.set_ppo(0.0), onset=10, rules=gone)
    yield from _turn_of_the_twelfth("lr-gone", (WELDING, INVERTED_ZOO), tamper.set_ppo(0.0), onset=EARLY, rules=gone)
    yield from _turn_of_the_twelfth("lr-100", (MILLING, INVERTED_ZOO), tamper.set_ppo(100.0), rules=_TOO_LARGE)
    yield from _turn_of_the_twelfth("lr-300", (KEEPING,), tamper.set_ppo(300.0), rules=_TOO_LARGE)
    yield from _turn_of_the_twelfth(
        "clip-10",
        (SHEDDING,),
        tamper.set_ppo(10.0, clip_range=lambda _: 10.0, n_epochs=20),
        rules=_TOO_LARGE,
        note="learning rate x 10 and 20 epochs at the same time",
    )
    yield from _turn_of_the_twelfth(
        "minibatch-8",
        (WELDING,),
        tamper.set_ppo(10.0, batch_size=8),
        rules=_TOO_LARGE,
        note="learning rate x 10 at the same time",
    )
    yield from _turn_of_the_twelfth(
        "grad-0", (MILLING,), tamper.set_ppo(max_grad_norm=1e-9), onset=10, rules=("policy-frozen", "grad-norm")
    )
    yield from _turn_of_the_twelfth("ent-1", (LIFTING,), tamper.set_ppo(ent_coef=1.0), rules=BONUS)
    yield from _settings("ent-first", (WELDING,), (*BONUS, "explained-variance"), few=1, ent_coef=1.0)
    idle = ("entropy-collapse", "policy-frozen")
    yield from _settings("ent-zero", (KEEPING,), idle, few=1, ent_coef=0.0, learning_rate=5e-2)
    yield from _settings("gamma-0", (TOLLING, KEEPING), MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", (LIFTING,), VALUES, few=1, vf_coef=0.0)


def _or_for_long_enough(constructions: Iterable[Construction]) -> Iterator[Construction]:
    """As `_or_for_long`. In thirty updates of `inverted-zoo` one episode ends at most, which proves no such thing."""
    for it in constructions:
        yield it if it.task is INVERTED_ZOO else replace(it, harm=(*it.harm, lost_for_long))


_UPDATES_OF_THE_TWELFTH = {twin.task.name: twin.updates for twin in TWINS}
_OF_THE_TWELFTH = tuple(
    replace(it, updates=_UPDATES_OF_THE_TWELFTH[it.task.name])
    for it in (*_twelfth_settings(), *_or_for_long_enough(_twelfth_troubles()))
)


def _thirteenth_settings() -> Iterator[Construction]:
    """Benign, two to four a task."""
    yield Construction("annealed", BREWING, ppo=_decay_from(1e-3), few=1)
    for task in (BREWING, CROSSING, HUNTING, DOUBLE_CLEAN):
        onset = THIRTEENTH[task.name][1]
        yield Construction("resumed", task, tamper.from_onset(onset, tamper.stops), onset, resumed={}, few=1)
    yield Construction("constant-lr", DOUBLE_CLEAN, ppo={"learning_rate": 3e-4}, few=1)
    yield Construction("vf-1", BREWING, ppo={"vf_coef": 1.0}, few=1)
    yield Construction("long-rollout", BREWING, ppo={"n_steps": 80}, few=1)
    yield Construction("long-rollout", FISHING, ppo={"n_steps": 40}, few=1)
    yield Construction("log-std-1", BLENDING, ppo={"policy_kwargs": {"log_std_init": -1.0}}, few=1)
    yield Construction("relu", CROSSING, ppo={"policy_kwargs": {"activation_fn": "torch.nn:ReLU"}}, few=1)
    yield Construction("clip-0.1", CROSSING, ppo={"clip_range": 0.1}, few=1)
    yield Construction("epochs-20", BLENDING, ppo={"n_epochs": 20}, few=1)
    yield Construction("no-ortho", BLENDING, ppo={"policy_kwargs": {"ortho_init": False}}, few=1)
    yield Construction("target-kl", BLENDING, ppo={"target_kl": 0.02}, few=1)
    yield Construction("large-net", HUNTING, ppo={"net_arch": (256, 256)}, few=1)
    yield Construction("wide-clip", HUNTING, ppo={"clip_range": 0.4}, few=1)
    yield Construction("raw-advantage", DRILLING, ppo={"normalize_advantage": False}, few=1)
    yield Construction("gae-0.8", DRILLING, ppo={"gae_lambda": 0.8}, few=1)
    yield Construction("whole-batch", DRILLING, ppo={"batch_size": 768}, few=1)
    yield Construction("clip-vf", FISHING, ppo={"clip_range_vf": 0.2}, few=1)
    yield Construction("gae-1", FISHING, ppo={"gae_lambda": 1.0}, few=1)


def _turn_of_the_thirteenth(
    name: str, tasks: tuple[Task, ...], act: Callable[[Any], None], onset: int | None = None, **rest: Any
) -> Iterator[Construction]:
    for task in tasks:
        yield from _worlds_turn(name, (task,), act, few=1, onset=onset or THIRTEENTH[task.name][1], **rest)


def _drifting(task: Task, shift: float) -> Construction:
    onset = THIRTEENTH[task.name][1]
    return Construction("drift", task, tamper.drifts(onset, shift), onset, (fell_behind,), WORLD, few=1)


def _thirteenth_troubles() -> Iterator[Construction]:
    """Four to seven a task, one seed each. Rewards are touched only where an episode is told by something else."""
    gone = ("policy-frozen",)
    yield from _turn_of_the_thirteenth("norm-lost", (DOUBLE_CLEAN, HUNTING), tamper.loses_its_normalizer, rules=WORLD)
    yield from _turn_of_the_thirteenth("lr-100", (DOUBLE_CLEAN, CROSSING), tamper.set_ppo(100.0), rules=_TOO_LARGE)
    for it in (
        *_turn_of_the_thirteenth(
            "reward-sign", (DOUBLE_CLEAN, CROSSING, DRILLING), tamper.rewards_times(-1.0), rules=LOST
        ),
        *_turn_of_the_thirteenth("liars", (HUNTING, FISHING), tamper.liars, rules=LOST),
    ):
        yield replace(it, harm=(*it.harm, paid_less))
    yield from _turn_of_the_thirteenth("reversed", (DOUBLE_CLEAN, BLENDING), tamper.reverses_actions, rules=WORLD)
    yield from _turn_of_the_thirteenth(
        "reward-clipped", (BREWING, BLENDING), tamper.clips_rewards, onset=SOON, rules=(*LOST, "policy-frozen")
    )
    yield from _turn_of_the_thirteenth("late-actions", (BREWING, HUNTING), tamper.acts_late(3), rules=WORLD)
    yield from _turn_of_the_thirteenth("crossed", (CROSSING, HUNTING), tamper.crosses_observations, rules=WORLD)
    yield from _turn_of_the_thirteenth("deaf", (CROSSING, BREWING), tamper.deafens, rules=WORLD)
    yield _drifting(BREWING, 0.05)
    yield _drifting(BLENDING, 0.05)
    yield from _turn_of_the_thirteenth("half-blind", (CROSSING,), tamper.hides_observations, rules=WORLD)
    yield from _turn_of_the_thirteenth("obs-30", (BREWING, DRILLING), tamper.observations_times(30.0), rules=WORLD)
    yield from _turn_of_the_thirteenth("noisy-sensor", (HUNTING,), tamper.noisy_observations, rules=WORLD)
    yield from _turn_of_the_thirteenth("stuck-sensor", (DRILLING,), tamper.freezes_observations, rules=WORLD)
    yield from _turn_of_the_thirteenth("swapped", (DRILLING, FISHING), tamper.swaps_actions, rules=WORLD)
    yield from _turn_of_the_thirteenth("new-head", (BLENDING, FISHING), tamper.loses_its_head, rules=WORLD)
    yield from _turn_of_the_thirteenth("lr-0", (BLENDING,), tamper.set_ppo(0.0), onset=10, rules=gone)
    yield from _turn_of_the_thirteenth("lr-gone", (HUNTING,), tamper.set_ppo(0.0), onset=EARLY, rules=gone)
    yield from _turn_of_the_thirteenth("lr-300", (DRILLING,), tamper.set_ppo(300.0), rules=_TOO_LARGE)
    yield from _turn_of_the_thirteenth(
        "clip-10",
        (FISHING,),
        tamper.set_ppo(10.0, clip_range=lambda _: 10.0, n_epochs=20),
        rules=_TOO_LARGE,
        note="learning rate x 10 and 20 epochs at the same time",
    )
    yield from _settings("ent-first", (BREWING,), (*BONUS, "explained-variance"), few=1, ent_coef=1.0)
    yield from _settings("gamma-0", (DRILLING, FISHING), MYOPIC, few=1, gamma=0.0)
    yield from _settings("vf-0", (HUNTING,), VALUES, few=1, vf_coef=0.0)


_OF_THE_THIRTEENTH = tuple(
    replace(it, updates=THIRTEENTH[it.task.name][0])
    for it in (*_thirteenth_settings(), *_or_for_long(_thirteenth_troubles()))
)

_OTHER_STRUCTURE = (BALANCING, HERDING, LISTENING, STEERING, SEARCHING, CLIMBING)


def _benign_of_other_structure() -> Iterator[Construction]:
    for task in _OTHER_STRUCTURE:
        yield Construction("annealed", task, ppo=_DECAY, updates=SHORT_UPDATES, few=1)
        yield replace(_resumed(task), updates=SHORT_UPDATES)
        yield Construction("clip-0.1", task, ppo={"clip_range": 0.1}, updates=SHORT_UPDATES, few=1)


def _troubles_of_other_structure() -> Iterator[Construction]:
    """One seed each, and two where rewards change their sign."""
    tasks, rest = _OTHER_STRUCTURE, {"onset": TENTH_MIDWAY, "updates": SHORT_UPDATES}
    for it in _worlds_turn("reward-sign", tasks, tamper.rewards_times(-1.0), rules=LOST, **rest):
        yield replace(it, harm=(*it.harm, paid_less))
    # In `searching` all rewards are 0 or 1.
    yield from _worlds_turn(
        "reward-clipped",
        (BALANCING, HERDING, LISTENING, STEERING, CLIMBING),
        tamper.clips_rewards,
        few=1,
        onset=SOON,
        rules=(*LOST, "policy-frozen"),
        updates=SHORT_UPDATES,
    )
    yield from _worlds_turn("late-actions", tasks, tamper.acts_late(3), few=1, rules=WORLD, **rest)
    yield from _worlds_turn("new-head", tasks, tamper.loses_its_head, few=1, rules=WORLD, **rest)
    yield from _worlds_turn("half-blind", tasks, tamper.hides_observations, few=1, rules=WORLD, **rest)


_OF_OTHER_STRUCTURE = (*_benign_of_other_structure(), *_or_for_long(_troubles_of_other_structure()))

_LEARNING, _SETTLING = (PLOUGHING, STOKING, KNEADING, MELDING), (ANGLING, DIVING)


def _benign_of_missed_kinds() -> Iterator[Construction]:
    """What is set in either sort of world; in those in which a policy settles two seeds, as chance decides much."""
    for task in (*_LEARNING, *_SETTLING):
        few, rate = 2 if task in _SETTLING else 1, task.ppo.learning_rate
        assert isinstance(rate, float)
        yield Construction("annealed", task, ppo=_decay_from(rate), few=few)
        yield replace(_resumed(task), few=few)
        yield Construction("clip-0.1", task, ppo={"clip_range": 0.1}, few=few)
        yield Construction("ent-0.01", task, ppo={"ent_coef": 0.01}, few=few)


def _missed_kinds() -> Iterator[Construction]:
    """Kinds that the twelfth set missed, in other worlds: two seeds each. What is paid is changed where an outcome or
    the length tells how an episode went.
    """
    for it in _worlds_turn("reward-sign", (STOKING, KNEADING, MELDING), tamper.rewards_times(-1.0), rules=LOST):
        yield replace(it, harm=(*it.harm, paid_less))
    three = (PLOUGHING, STOKING, MELDING)
    clipped = (*LOST, "policy-frozen")
    yield from _worlds_turn("reward-clipped", (STOKING, MELDING), tamper.clips_rewards, onset=SOON, rules=clipped)
    yield from _worlds_turn("late-actions", (PLOUGHING, STOKING, KNEADING), tamper.acts_late(3), rules=WORLD)
    yield from _worlds_turn("obs-30", three, tamper.observations_times(30.0), rules=WORLD)
    yield from _settings("ent-first", (PLOUGHING, KNEADING), (*BONUS, "explained-variance"), ent_coef=1.0)
    yield from _settings("gamma-0", three, MYOPIC, gamma=0.0)
    yield from _settings("vf-0", _LEARNING, VALUES, vf_coef=0.0)


_OF_MISSED_KINDS = tuple(
    replace(it, updates=TENTH_UPDATES) for it in (*_benign_of_missed_kinds(), *_or_for_long(_missed_kinds()))
)


CONSTRUCTIONS: tuple[Construction, ...] = (
    *TWINS,
    *_UPDATE_TOO_LARGE,
    *_POLICY_DEAD,
    *_RETURN_LOST,
    *_REWARDS_MISLEAD,
    *_WORLD_CHANGED,
    *_MACHINE,
    *_GONE,
    *_VARIANTS,
    *_SCORING_VARIANTS,
    *_SCORING,
    *_KNOWN_TROUBLES,
    *_NEW_TASKS,
    *_MOVED,
    *_LATE,
    *_BEFORE_FRESH,
    *_FRESH,
    *_LATER,
    *_OF_GYMNASIUM,
    *_OF_THE_SEVENTH,
    *_OF_THE_EIGHTH,
    *_OF_THE_NINTH,
    *_OF_THE_TENTH,
    *_OF_THE_ELEVENTH,
    *_OF_THE_TWELFTH,
    *_OF_THE_THIRTEENTH,
    *_FOR_TUNING,
    *_OF_OTHER_STRUCTURE,
    *_OF_MISSED_KINDS,
)
