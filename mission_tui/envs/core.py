"""N fields of one mission, advanced together: the only implementation of the game, whatever N is; how attackers and
guards move; what a policy sees; what a decision comes to: progress and the shaping gain paid for it, capture of the
zone, the reward, and the verdict.

One call makes one decision: orders, `ticks_per_decision` physics ticks, then capture, rewards and the verdict. All
arithmetic is elementwise over lanes, so a lane's trajectory is bit-equal for every N.

An observation has ten numbers per attacker, then clock and capture progress, all within [-1, 1]. Per attacker:
position, velocity, offset to the zone, offset to the nearest defender (x and y each), armour left (-1 once disabled)
and endurance left. With `observe_best` the best distance so far comes last, which makes `best_so_far` shaping a
function of the observation.

Attackers go at full speed in one of eight headings, or not at all. There is no inertia, so going there and back ends
where it began: a cycle of orders never creeps. Each tick adds ordered velocity * dt, cut off at the field's edge. A
ground unit that would enter an obstacle keeps its old coordinate on that axis and so slides along the wall; air units
fly over.

Guards are drones, obstacles do not stop them: they walk their route, chase the nearest attacker in sight and tag what
stays in reach. They choose a target at each decision and fly straight at it for the whole decision; contact is counted
at every physics tick. A unit whose armour is worn down is disabled, and the guards that touched it cannot tag again
until they have reloaded.

Shaping that pays each step against the previous one pays for oscillating (`one_way`) or needs a step cost to punish it
(`two_way`); against the best distance so far (`best_so_far`) a cycle earns its first improvement once and never again.

Capture progress is measured in seconds. While anybody alive is inside it grows by the sum of their weights per second;
while nobody is, it falls by `capture_decay` per second. Distances include disabled units where they lie, so that losing
a straggler is never progress.

`fields.outcome`, and the word it becomes in `info["outcome"]`, is the only record of how an episode ended; flags and
wins are derived from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, MultiDiscrete, Space
from numpy.typing import NDArray

from mission_tui.envs.fields import NOT_STARTED, Bools, Fields, Floats, Ints, Spawner
from mission_tui.envs.mission import OUTCOMES, Mission, Outcome, Shaping
from mission_tui.envs.state import State, generator_from_words, stack_words
from mission_tui.errors import CheckpointError

_DIAGONAL = math.sqrt(0.5)
HEADINGS: tuple[tuple[float, float], ...] = (
    (0.0, 0.0),
    (0.0, 1.0),
    (_DIAGONAL, _DIAGONAL),
    (1.0, 0.0),
    (_DIAGONAL, -_DIAGONAL),
    (0.0, -1.0),
    (-_DIAGONAL, -_DIAGONAL),
    (-1.0, 0.0),
    (-_DIAGONAL, _DIAGONAL),
)
"""Unit vector of each action: 0 holds, 1 to 8 go round clockwise from north."""
_TINY_M = 1e-9
_MARGIN_M = 1.0
"""Far more than rounding can add to the distance that two units close in one decision."""

_CODES: dict[Outcome, int] = {name: code for code, name in enumerate(OUTCOMES, start=1)}


class _Movement:
    """Motion of a mission's attackers."""

    def __init__(self, mission: Mission) -> None:
        kinds, world = mission.units.kinds(), mission.world
        self._tick_s = mission.tick_s
        self._headings = np.array(HEADINGS).T
        self._speed = np.array([[kind.speed_mps] for kind in kinds])
        self._endurance = np.array(mission.endurance_decisions())
        self._width, self._height = world.width_m, world.height_m
        self._ground = mission.units.attackers.count("ground")
        margin = world.clearance_m
        corners = np.array([(*box.low_m, *box.high_m) for box in world.obstacles]).reshape(-1, 4, 1)
        self._low_x, self._low_y = corners[:, 0] - margin, corners[:, 1] - margin
        self._high_x, self._high_y = corners[:, 2] + margin, corners[:, 3] + margin

    def ordered_steps(self, actions: NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Metres per tick (A, N) along x and y that the actions (N, A) ask for."""
        orders, per_tick = actions.T, self._speed * self._tick_s
        return self._headings[0][orders] * per_tick, self._headings[1][orders] * per_tick

    def advance(self, fields: Fields, step_x: Floats, step_y: Floats) -> None:
        """One physics tick."""
        new_x = self._moved(fields.x, step_x, fields.alive, self._width)
        new_y = self._moved(fields.y, step_y, fields.alive, self._height)
        if len(self._low_x) and self._ground:
            ground = slice(self._ground)
            hit_x = self._blocked(new_x[ground], fields.y[ground])
            np.copyto(new_x[ground], fields.x[ground], where=hit_x)
            hit_y = self._blocked(new_x[ground], new_y[ground])
            np.copyto(new_y[ground], fields.y[ground], where=hit_y)
        fields.x, fields.y = new_x, new_y

    def retire_spent(self, fields: Fields) -> None:
        """Disable units whose endurance is over."""
        fields.alive &= fields.decisions < self._endurance

    @staticmethod
    def _moved(place: Floats, step: Floats, alive: Bools, limit: float) -> Floats:
        moved = step * alive
        moved += place
        np.maximum(moved, 0.0, out=moved)
        return np.minimum(moved, limit, out=moved)

    def _blocked(self, x: Floats, y: Floats) -> Bools:
        x, y = x[:, None], y[:, None]
        inside = (x > self._low_x) & (x < self._high_x)
        inside &= y > self._low_y
        inside &= y < self._high_y
        blocked: Bools = np.logical_or.reduce(inside, axis=1)
        return blocked


class _Flight(NamedTuple):
    """What the guards do in one decision."""

    vx: Floats
    """(D, N) velocities in m/s, like `vy`."""
    vy: Floats
    lanes: Ints | slice | None
    """Lanes in which anybody can come within reach of anybody before the next decision; None where nobody can."""


class _Guards:
    """The defenders of a mission."""

    def __init__(self, mission: Mission) -> None:
        drone, rules = mission.units.defender, mission.rules
        routes = [patrol.waypoints_m for patrol in mission.world.patrols]
        longest = max(len(route) for route in routes)
        corners = np.array([[route[i % len(route)] for i in range(longest)] for route in routes])
        self._routes_x, self._routes_y = corners[..., 0].copy(), corners[..., 1].copy()
        self._lengths = np.array([[len(route)] for route in routes])
        self._rows = np.arange(len(routes))[:, None]
        self._drone = drone
        self._tick_s, self._decision_s = mission.tick_s, mission.decision_s
        self._reload_ticks = round(drone.reload_s * rules.physics_hz)
        closing_mps = max(kind.speed_mps for kind in mission.units.kinds()) + max(drone.chase_mps, drone.patrol_mps)
        self._risk_m = drone.tag_m + closing_mps * mission.decision_s + _MARGIN_M
        self._pairs = _Pairs()

    def plan(self, fields: Fields) -> _Flight:
        """The flight of this decision; a guard that will reach its waypoint turns to the next."""
        squared = self._pairs.squared(fields.x, fields.y, fields.guard_x, fields.guard_y)
        np.copyto(squared, np.inf, where=~fields.alive)
        nearest, at_x, at_y = squared[:, 0], fields.x[0], fields.y[0]
        # Unit by unit is faster than `argmin` over the middle axis and a look-up; ties go to the first either way.
        for unit in range(1, len(fields.x)):
            closer = squared[:, unit] < nearest
            nearest = np.minimum(nearest, squared[:, unit])
            at_x, at_y = np.where(closer, fields.x[unit], at_x), np.where(closer, fields.y[unit], at_y)
        chasing = nearest < self._drone.sight_m * self._drone.sight_m
        goal = self._rows, fields.waypoint
        to_x = np.where(chasing, at_x, self._routes_x[goal]) - fields.guard_x
        to_y = np.where(chasing, at_y, self._routes_y[goal]) - fields.guard_y
        distance = np.sqrt(to_x * to_x + to_y * to_y)
        reach = np.where(chasing, self._drone.chase_mps, self._drone.patrol_mps) * self._decision_s
        arriving = ~chasing & (distance <= reach)
        fields.waypoint = (fields.waypoint + arriving) % self._lengths
        pace = np.minimum(reach, distance) / (np.maximum(distance, _TINY_M) * self._decision_s)
        return _Flight(to_x * pace, to_y * pace, self._lanes_at_risk(nearest))

    def advance(self, fields: Fields, flight: _Flight) -> None:
        """One physics tick: move, then wear down and disable the attackers within reach."""
        fields.guard_x += flight.vx * self._tick_s
        fields.guard_y += flight.vy * self._tick_s
        if flight.lanes is not None:
            self._touch(fields, flight.lanes)
        fields.reload -= fields.reload > 0

    def _lanes_at_risk(self, nearest: Floats) -> Ints | slice | None:
        at_risk = (nearest < self._risk_m * self._risk_m).any(axis=0)
        count = np.count_nonzero(at_risk)
        if count == 0:
            return None
        # Picking lanes out costs more than looking at all of them when most are picked.
        return np.flatnonzero(at_risk) if 2 * count < at_risk.size else slice(None)

    def _touch(self, fields: Fields, lanes: Ints | slice) -> None:
        places = (place[:, lanes] for place in (fields.x, fields.y, fields.guard_x, fields.guard_y))
        near = self._pairs.squared(*places) < self._drone.tag_m * self._drone.tag_m
        if not near.any():
            return
        alive, reload = fields.alive[:, lanes], fields.reload[:, lanes]
        contact: Bools = near & alive & (reload == 0)[:, None]
        touched = contact.any(axis=0)
        armour = fields.armour[:, lanes] - touched
        downed = touched & (armour == 0)
        fields.armour[:, lanes] = armour
        fields.alive[:, lanes] = alive & ~downed
        fields.reload[:, lanes] = np.where((contact & downed).any(axis=1), self._reload_ticks, reload)


class _Pairs:
    """Squared distances between all guards and attackers, in a buffer that the next call overwrites.

    For thousands of lanes these are the largest arrays; fresh ones would be fresh pages every time.
    """

    def __init__(self) -> None:
        self._dx = self._dy = np.empty((0, 0, 0))

    def squared(self, x: Floats, y: Floats, guard_x: Floats, guard_y: Floats) -> Floats:
        """(D, A, N) square metres, for attackers (A, N) and guards (D, N)."""
        shape = len(guard_x), *x.shape
        if self._dx.shape != shape:
            self._dx, self._dy = np.empty(shape), np.empty(shape)
        dx = np.subtract(x, guard_x[:, None], out=self._dx)
        dy = np.subtract(y, guard_y[:, None], out=self._dy)
        dx *= dx
        dy *= dy
        dx += dy
        return dx


PER_ATTACKER = 10
_SHARED = 2
_PADDING = 24


class MissionCore:
    """State and rules of N fields; `generators[i]` is lane i's only source of chance."""

    def __init__(
        self,
        mission: Mission,
        generators: Sequence[np.random.Generator],
        *,
        shaping: Shaping | None = None,
        observe_best: bool = False,
    ) -> None:
        self.mission = mission
        self.generators = list(generators)
        self.observer = Observer(mission, observe_best=observe_best)
        self._spawner = Spawner(mission)
        self._movement = _Movement(mission)
        self._guards = _Guards(mission)
        self._capture = Capture(mission)
        self._progress = Progress(mission, shaping or mission.rewards.shaping)
        self._judge = OutcomeRules(mission)
        self._rewards = RewardModel(mission)
        self._attackers = len(mission.units.attackers)
        self.fields = self._spawner.fresh([np.random.default_rng(0) for _ in self.generators])
        self.fields.outcome[:] = NOT_STARTED

    @property
    def num_lanes(self) -> int:
        """Number of fields."""
        return len(self.generators)

    def reset(self, lanes: Ints) -> None:
        """Start new episodes in `lanes`."""
        fresh = self._spawner.fresh([self.generators[lane] for lane in lanes])
        self._progress.begin(fresh)
        self.fields.put(lanes, fresh)

    def observe(self, lanes: Ints | None = None) -> NDArray[np.float32]:
        """Observations of all lanes, or of some."""
        return self.observer.observe(self.fields if lanes is None else self.fields.take(lanes))

    def action_masks(self) -> NDArray[np.bool_]:
        """Which actions are open, shape (N, A * 9), unit after unit: a disabled unit can only hold."""
        masks = np.repeat(self.fields.alive.T, len(HEADINGS), axis=1)
        masks[:, :: len(HEADINGS)] = True
        return masks

    def step(self, actions: NDArray[np.integer]) -> Floats:
        """Carry out one decision and return the rewards (N,); `fields.outcome` tells which episodes are over.

        `actions` has shape (N, A) with values 0 to 8, see `HEADINGS`. Raises `ValueError` for anything else,
        `ResetNeeded` if a lane has no running episode.
        """
        self._check(actions)
        fields = self.fields
        alive_before = fields.alive.sum(axis=0)
        start_x, start_y = fields.x, fields.y
        step_x, step_y = self._movement.ordered_steps(actions)
        flight = self._guards.plan(fields)
        for _ in range(self.mission.ticks_per_decision):
            self._movement.advance(fields, step_x, step_y)
            self._guards.advance(fields, flight)
        fields.vx = (fields.x - start_x) * self.mission.rules.decision_hz
        fields.vy = (fields.y - start_y) * self.mission.rules.decision_hz
        fields.decisions += 1
        self._movement.retire_spent(fields)
        held = self._capture.advance(fields)
        gain_m, capture_gain_s = self._progress.measure(fields)
        self._judge.decide(fields, held)
        return self._rewards.compute(gain_m, capture_gain_s, alive_before - fields.alive.sum(axis=0), fields.outcome)

    def final_info(self, lane: int) -> dict[str, Any]:
        """How the episode in `lane` ended; the only place where an outcome gets its name."""
        fields, rules = self.fields, self.mission.rules
        return {
            "outcome": outcome_name(int(fields.outcome[lane])),
            "capture": float(fields.capture_s[lane] / rules.capture_s),
            "survivors": int(fields.alive[:, lane].sum()),
            "time_s": float(fields.decisions[lane] / rules.decision_hz),
        }

    def get_state(self) -> State:
        """Everything that changes: the fields' arrays and each lane's generator."""
        return {
            "fields": {name: array.copy() for name, array in self.fields.arrays()},
            "generators": stack_words(self.generators),
        }

    def set_state(self, state: State) -> None:
        """Continue from `state`; raises `CheckpointError` unless every array has the expected shape and type."""
        saved, words = state.get("fields", {}), state.get("generators", ())
        for name, array in self.fields.arrays():
            found = saved.get(name)
            if found is None or found.shape != array.shape or found.dtype != array.dtype:
                raise CheckpointError(
                    f"environment state: '{name}' must be {array.dtype}{list(array.shape)}, found "
                    + ("nothing" if found is None else f"{found.dtype}{list(found.shape)}")
                )
        if len(words) != self.num_lanes:
            raise CheckpointError(f"environment state: {self.num_lanes} generators expected, found {len(words)}")
        self.generators = [generator_from_words(row) for row in words]
        self.fields.put(np.arange(self.num_lanes), Fields(**{name: saved[name] for name, _ in self.fields.arrays()}))

    def _check(self, actions: NDArray[np.integer]) -> None:
        if actions.shape != (self.num_lanes, self._attackers):
            raise ValueError(f"actions must have shape {(self.num_lanes, self._attackers)}, found {actions.shape}")
        if self.fields.outcome.any():
            raise ResetNeeded("an episode has ended or was never started: call reset() before step()")
        if actions.min() < 0 or actions.max() >= len(HEADINGS):
            raise ValueError(f"actions must lie in 0..{len(HEADINGS) - 1}, found {actions.min()}..{actions.max()}")


def observation_space(core: MissionCore) -> Space[NDArray[np.float32]]:
    """All observed numbers lie in [-1, 1]."""
    return cast("Space[NDArray[np.float32]]", Box(-1.0, 1.0, (core.observer.size,), np.float32))


def action_space(core: MissionCore) -> MultiDiscrete:
    """One of eight headings, or hold, per attacker."""
    return MultiDiscrete([len(HEADINGS)] * len(core.mission.units.attackers))


class Observer:
    """Turns fields into observations."""

    def __init__(self, mission: Mission, *, observe_best: bool) -> None:
        kinds, rules = mission.units.kinds(), mission.rules
        self._attackers = len(kinds)
        self.size = PER_ATTACKER * self._attackers + _SHARED + observe_best
        self._observe_best = observe_best
        self._half_width, self._half_height = mission.world.width_m / 2, mission.world.height_m / 2
        self._guard_range_m = 2 * mission.units.defender.sight_m or 1.0
        self._speed = np.array([[kind.speed_mps] for kind in kinds])
        self._armour = np.array(mission.armour_ticks())
        self._endurance = np.array(mission.endurance_decisions())
        self._limit = rules.time_limit_s * rules.decision_hz
        self._full_s = rules.capture_s
        self._pairs = _Pairs()

    def observe(self, fields: Fields) -> NDArray[np.float32]:
        """Observations (N, size) of all lanes, freshly allocated."""
        # One row per number while they are worked out: a column would be written with gaps. The padding keeps rows of
        # 2,048 lanes from sharing cache lines when they are turned into columns, which is then ten times as fast.
        lanes = fields.zone_x.size
        rows = np.empty((self.size, lanes + _PADDING), dtype=np.float32)[:, :lanes]
        shared = PER_ATTACKER * self._attackers
        for column, values in enumerate(self._per_attacker(fields)):
            rows[column:shared:PER_ATTACKER] = values
        np.divide(fields.decisions, self._limit, out=rows[shared], casting="same_kind")
        np.divide(fields.capture_s, self._full_s, out=rows[shared + 1], casting="same_kind")
        if self._observe_best:
            np.divide(fields.best_distance_m, 2 * self._half_width, out=rows[-1], casting="same_kind")
        np.maximum(rows, np.float32(-1), out=rows)
        np.minimum(rows, np.float32(1), out=rows)
        return np.ascontiguousarray(rows.T)

    def _per_attacker(self, fields: Fields) -> Iterator[Floats]:
        yield fields.x / self._half_width - 1.0
        yield fields.y / self._half_height - 1.0
        yield fields.vx / self._speed
        yield fields.vy / self._speed
        yield (fields.zone_x - fields.x) / self._half_width
        yield (fields.zone_y - fields.y) / self._half_height
        guard_dx, guard_dy = self._nearest_guard(fields)
        yield guard_dx / self._guard_range_m
        yield guard_dy / self._guard_range_m
        yield np.where(fields.alive, fields.armour / self._armour, -1.0)
        yield 1.0 - fields.decisions / self._endurance

    def _nearest_guard(self, fields: Fields) -> tuple[Floats, Floats]:
        """Vector (A, N) from each attacker to the defender nearest to it, in metres along x and y."""
        squared = self._pairs.squared(fields.x, fields.y, fields.guard_x, fields.guard_y)
        nearest, at_x, at_y = squared[0], fields.guard_x[0], fields.guard_y[0]
        # Guard by guard is faster than `argmin` over the first axis and a look-up; ties go to the first either way.
        for other, guard_x, guard_y in zip(squared[1:], fields.guard_x[1:], fields.guard_y[1:], strict=True):
            closer = other < nearest
            nearest = np.minimum(nearest, other)
            at_x, at_y = np.where(closer, guard_x, at_x), np.where(closer, guard_y, at_y)
        return at_x - fields.x, at_y - fields.y


class Capture:
    """Capture rules of a mission."""

    def __init__(self, mission: Mission) -> None:
        self._radius_m = mission.world.zone.radius_m
        self._ground = mission.units.attackers.count("ground")
        self._weights = mission.units.ground.capture_weight, mission.units.air.capture_weight
        self._full_s = mission.rules.capture_s
        self._decay = mission.rules.capture_decay * mission.decision_s
        self._decision_s = mission.decision_s

    def advance(self, fields: Fields) -> Bools:
        """Advance progress by one decision; true (N,) where all who survive, at least one, stand in the zone."""
        inside = _distances(fields, self._radius_m) <= 0.0
        inside &= fields.alive
        ground, air = inside[: self._ground].sum(axis=0), inside[self._ground :].sum(axis=0)
        rate = ground * self._weights[0] + air * self._weights[1]
        change = np.where(rate > 0, rate * self._decision_s, -self._decay)
        fields.capture_s = np.minimum(np.maximum(fields.capture_s + change, 0.0), self._full_s)
        present = ground + air
        held: Bools = (present > 0) & (present == fields.alive.sum(axis=0))
        return held


def _mean_distance(fields: Fields, radius_m: float) -> Floats:
    """Mean over all attackers of the distance to the zone's edge in metres, 0 inside; shape (N,)."""
    distances = np.maximum(_distances(fields, radius_m), 0.0)
    # Added in a fixed order: a pairwise sum could round differently with another number of lanes.
    total = distances[0]
    for row in distances[1:]:
        total = total + row
    mean: Floats = total / len(distances)
    return mean


def _distances(fields: Fields, radius_m: float) -> Floats:
    dx, dy = fields.x - fields.zone_x, fields.y - fields.zone_y
    distances: Floats = np.sqrt(dx * dx + dy * dy) - radius_m
    return distances


class Progress:
    """Measures gains; owns the distance, record and stall arrays of the fields."""

    def __init__(self, mission: Mission, shaping: Shaping) -> None:
        self._radius_m = mission.world.zone.radius_m
        self._mark_m = mission.rules.stall_progress_m
        self._shaping = shaping

    def begin(self, fields: Fields) -> None:
        """Take the first measurement of fresh fields."""
        fields.distance_m = _mean_distance(fields, self._radius_m)
        fields.best_distance_m = fields.distance_m.copy()
        fields.mark_distance_m = fields.distance_m.copy()

    def measure(self, fields: Fields) -> tuple[Floats, Floats]:
        """Gains (N,) since the last decision: metres that shaping pays for, and new capture seconds."""
        distance = _mean_distance(fields, self._radius_m)
        match self._shaping:
            case "two_way":
                gain_m = fields.distance_m - distance
            case "one_way":
                gain_m = np.maximum(fields.distance_m - distance, 0.0)
            case "best_so_far":
                gain_m = np.maximum(fields.best_distance_m - distance, 0.0)
        fields.distance_m = distance
        fields.best_distance_m = np.minimum(fields.best_distance_m, distance)
        capture_gain_s = np.maximum(fields.capture_s - fields.best_capture_s, 0.0)
        fields.best_capture_s = np.maximum(fields.best_capture_s, fields.capture_s)
        closer = distance <= fields.mark_distance_m - self._mark_m
        fields.mark_distance_m = np.where(closer, distance, fields.mark_distance_m)
        moved = closer | (capture_gain_s > 0)
        fields.progress_at = np.where(moved, fields.decisions, fields.progress_at)
        return gain_m, capture_gain_s


class RewardModel:
    """Prices of a mission."""

    def __init__(self, mission: Mission) -> None:
        self._prices = mission.rewards
        self._endings = np.array([0.0, *(getattr(mission.rewards.outcome, name) for name in OUTCOMES)])

    def compute(self, gain_m: Floats, capture_gain_s: Floats, lost: Ints, outcome: Ints) -> Floats:
        """Reward (N,) for metres and capture seconds gained, units lost in this decision, and the outcome code."""
        prices = self._prices
        reward: Floats = prices.progress_per_m * gain_m + prices.capture_per_s * capture_gain_s
        reward -= prices.step_cost
        reward -= prices.unit_lost * lost
        reward += self._endings[outcome]
        return reward


class OutcomeRules:
    """Ending rules of a mission; see `Rules` for each of them."""

    def __init__(self, mission: Mission) -> None:
        rules, hz = mission.rules, mission.rules.decision_hz
        self._full_s, self._early_hold_s = rules.capture_s, rules.early_hold_s
        self._limit = round(rules.time_limit_s * hz)
        self._early_before = rules.early_share * rules.time_limit_s * hz
        self._stall = round(rules.stall_s * hz) or self._limit + 1

    def decide(self, fields: Fields, held: Bools) -> None:
        """Set `fields.outcome`; `held` (N,) tells where all survivors stand in the zone."""
        checks: dict[Outcome, Bools] = {
            "captured": fields.capture_s >= self._full_s,
            "early_success": held & (fields.capture_s >= self._early_hold_s) & (fields.decisions < self._early_before),
            "all_disabled": fields.alive.sum(axis=0) == 0,
            "stalled": fields.decisions - fields.progress_at >= self._stall,
            "timeout": fields.decisions >= self._limit,
        }
        outcome: Ints = np.zeros_like(fields.outcome)
        for name in reversed(OUTCOMES):
            outcome = np.where(checks[name], _CODES[name], outcome)
        fields.outcome = outcome


def is_truncated(outcome: Ints) -> Bools:
    """True where the clock ended an episode that had not ended itself."""
    truncated: Bools = outcome == _CODES["timeout"]
    return truncated


def outcome_name(code: int) -> Outcome:
    """The word for a code above 0."""
    return OUTCOMES[code - 1]
