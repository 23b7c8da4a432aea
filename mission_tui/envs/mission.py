"""What a mission consists of: world, units, rules and rewards as frozen values, one class per TOML file and table.

Every key is required and typed here and nowhere else, so a folder of four files is complete by itself. All lengths
are metres, all times seconds; the field's origin is its south-west corner, x points east and y north.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

Point = tuple[float, float]
Positive = Annotated[float, "above 0"]
NotNegative = Annotated[float, "0 or more"]
Share = Annotated[float, "between 0 and 1"]

Outcome = Literal["captured", "early_success", "all_disabled", "stalled", "timeout"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""How an episode can end; the first of two that happen in the same decision is the one that counts."""

Shaping = Literal["two_way", "one_way", "best_so_far"]
UnitClass = Literal["ground", "air"]


@dataclass(frozen=True, slots=True)
class Box:
    """An axis-aligned rectangle from its south-west to its north-east corner."""

    low_m: Point
    high_m: Point


@dataclass(frozen=True, slots=True)
class Zone:
    """The defended disc; each episode moves its centre by up to `jitter_m` along each axis."""

    centre_m: Point
    radius_m: Positive
    jitter_m: NotNegative


@dataclass(frozen=True, slots=True)
class Patrol:
    """The closed route of one defender, which starts each episode at a random place along it."""

    waypoints_m: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class World:
    """`world.toml`: the field, what stands on it, where attackers start and where defenders patrol.

    Ground units come no nearer than `clearance_m` to an obstacle.
    """

    width_m: Positive
    height_m: Positive
    clearance_m: NotNegative
    zone: Zone
    spawn: Box
    obstacles: tuple[Box, ...]
    patrols: tuple[Patrol, ...]


@dataclass(frozen=True, slots=True)
class UnitKind:
    """What an attacker of one class can do.

    `armour_s` is the seconds of contact with a defender that it withstands, `endurance_s` the seconds after which it
    is spent, and `capture_weight` the capture seconds that it gathers per second in the zone.
    """

    speed_mps: Positive
    armour_s: NotNegative
    endurance_s: Positive
    capture_weight: NotNegative


@dataclass(frozen=True, slots=True)
class Defender:
    """A guard drone: it patrols, chases what it sees within `sight_m`, wears down within `tag_m`, then reloads."""

    patrol_mps: Positive
    chase_mps: Positive
    sight_m: NotNegative
    tag_m: Positive
    reload_s: NotNegative


@dataclass(frozen=True, slots=True)
class Units:
    """`units.toml`: the attackers' classes in slot order (ground units come first), and what each class can do."""

    attackers: tuple[UnitClass, ...]
    ground: UnitKind
    air: UnitKind
    defender: Defender

    def kinds(self) -> tuple[UnitKind, ...]:
        """The kind of each attacker, in slot order."""
        return tuple(self.ground if name == "ground" else self.air for name in self.attackers)


@dataclass(frozen=True, slots=True)
class Rules:
    """`rules.toml`: clocks, what ends an episode, and which endings count as won.

    captured: capture progress has reached `capture_s`.
    early_success: before `early_share` of the time limit, every surviving attacker stands in the zone and capture
    progress has reached `early_hold_s`.
    all_disabled: every attacker is tagged or spent.
    stalled: for `stall_s` neither did the mean distance fall by another `stall_progress_m` nor did capture progress
    set a record; 0 switches this rule off.
    timeout: `time_limit_s` has passed.
    """

    physics_hz: int
    decision_hz: int
    time_limit_s: Positive
    capture_s: Positive
    capture_decay: NotNegative
    early_hold_s: Positive
    early_share: Share
    stall_s: NotNegative
    stall_progress_m: Positive
    winning: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class OutcomeRewards:
    """What each ending pays, once, on the final step."""

    captured: float
    early_success: float
    stalled: float
    all_disabled: float
    timeout: float


@dataclass(frozen=True, slots=True)
class Rewards:
    """`rewards.toml`: pay per metre of mean distance gained, per decision, per capture second, per loss, per ending."""

    shaping: Shaping
    progress_per_m: NotNegative
    step_cost: NotNegative
    capture_per_s: NotNegative
    unit_lost: NotNegative
    outcome: OutcomeRewards


@dataclass(frozen=True, slots=True)
class Mission:
    """A whole mission, checked: what a core needs to simulate it."""

    world: World
    units: Units
    rules: Rules
    rewards: Rewards

    @property
    def ticks_per_decision(self) -> int:
        """Physics ticks between two decisions."""
        return self.rules.physics_hz // self.rules.decision_hz

    def armour_ticks(self) -> list[list[int]]:
        """Physics ticks of contact that each attacker withstands, at least 1; a column of shape (A, 1)."""
        return [[max(1, round(kind.armour_s * self.rules.physics_hz))] for kind in self.units.kinds()]

    def endurance_decisions(self) -> list[list[float]]:
        """Decisions after which each attacker is spent; a column of shape (A, 1)."""
        return [[kind.endurance_s * self.rules.decision_hz] for kind in self.units.kinds()]

    @property
    def tick_s(self) -> float:
        """Seconds of one physics tick."""
        return 1.0 / self.rules.physics_hz

    @property
    def decision_s(self) -> float:
        """Seconds between two decisions."""
        return 1.0 / self.rules.decision_hz
