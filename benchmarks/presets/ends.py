"""The two ends between which a policy of a mission stands: orders drawn by chance, and a script that knows its way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from mission_tui.envs import MissionGymVector
from mission_tui.envs.core import HEADINGS, MissionCore

__all__ = ["Ends", "Policy", "ends_of", "play", "random_orders", "seeker"]

Policy = Callable[[MissionCore], NDArray[np.int64]]
_HOLD = 0


class Ends(msgspec.Struct, frozen=True):
    """Outcomes of as many episodes by random orders and by the seeker."""

    random: dict[str, int]
    seeker: dict[str, int]


def seeker(core: MissionCore) -> NDArray[np.int64]:
    """Heads for the zone's centre; ground units first pass the first wall on the side they stand nearer to."""
    fields, walls = core.fields, core.mission.world.obstacles
    to_x, to_y = fields.zone_x - fields.x, fields.zone_y - fields.y
    arrived = np.hypot(to_x, to_y) < 3
    if walls:
        (_, low_y), (high_x, high_y) = walls[0].low_m, walls[0].high_m
        detour_y = np.where(fields.y >= (low_y + high_y) / 2, high_y + 6, low_y - 6)
        ground = np.array([[name == "ground"] for name in core.mission.units.attackers])
        before = ground & (fields.x < high_x + 2)
        to_x, to_y = np.where(before, high_x + 4 - fields.x, to_x), np.where(before, detour_y - fields.y, to_y)
    headings = np.array(HEADINGS)
    closeness = to_x[..., None] * headings[:, 0] + to_y[..., None] * headings[:, 1]
    return np.where(arrived, _HOLD, closeness.argmax(axis=-1)).T


def random_orders(rng: np.random.Generator) -> Policy:
    """Every unit is ordered anew at every decision, each heading as likely as any other."""

    def act(core: MissionCore) -> NDArray[np.int64]:
        return rng.integers(0, len(HEADINGS), (core.num_lanes, len(core.mission.units.attackers)))

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


def ends_of(config: str, episodes: int, seed: int = 10_000) -> Ends:
    """What chance and the script come to, on the episodes that an evaluation of that seed would play."""
    chance = random_orders(np.random.default_rng(seed))
    return Ends(*(dict(play(config, episodes, policy, seed)) for policy in (chance, seeker)))
