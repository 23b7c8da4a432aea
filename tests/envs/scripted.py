"""Scripted attackers for tests: a seeker that walks round walls, and a player that runs one policy over a vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mission_tui.envs import MissionGymVector
from mission_tui.envs.core import MissionCore
from mission_tui.envs.movement import HEADINGS

Policy = Callable[[MissionCore], NDArray[np.int64]]

HOLD, NORTH, EAST, SOUTH, WEST = 0, 1, 3, 5, 7


def seeker(core: MissionCore) -> NDArray[np.int64]:
    """Heads for the zone; ground units first pass the first wall on the side they stand nearer to."""
    fields, walls = core.fields, core.mission.world.obstacles
    to_x, to_y = fields.zone_x - fields.x, fields.zone_y - fields.y
    if walls:
        (_, low_y), (high_x, high_y) = walls[0].low_m, walls[0].high_m
        detour_y = np.where(fields.y >= (low_y + high_y) / 2, high_y + 6, low_y - 6)
        ground = np.array([[name == "ground"] for name in core.mission.units.attackers])
        before = ground & (fields.x < high_x + 2)
        to_x, to_y = np.where(before, high_x + 4 - fields.x, to_x), np.where(before, detour_y - fields.y, to_y)
    headings = np.array(HEADINGS)
    closeness = to_x[..., None] * headings[:, 0] + to_y[..., None] * headings[:, 1]
    arrived = np.hypot(to_x, to_y) < 3
    return np.where(arrived, HOLD, closeness.argmax(axis=-1)).T


def mixture(rng: np.random.Generator) -> Policy:
    """Random orders in every third lane, else the seeker with a tenth of its orders replaced by random ones."""

    def act(core: MissionCore) -> NDArray[np.int64]:
        orders = seeker(core)
        chance = rng.integers(0, len(HEADINGS), orders.shape)
        replaced = rng.random(orders.shape) < 0.1
        replaced[::3] = True
        return np.where(replaced, chance, orders)

    return act


def play(config: str, lanes: int, policy: Policy, seed: int = 0) -> Counter[str]:
    """Outcomes of the first episode of each lane."""
    env = MissionGymVector(lanes, config)
    env.reset(seed=seed)
    outcomes: dict[int, str] = {}
    while len(outcomes) < lanes:
        *_, infos = env.step(policy(env.core))
        for lane in np.flatnonzero(infos["_final_info"]) if infos else ():
            outcomes.setdefault(int(lane), infos["final_info"]["outcome"][lane])
    return Counter(outcomes.values())
