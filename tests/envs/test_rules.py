"""The game itself: movement, walls, guards, capture, and each way an episode can end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from mission_tui.envs import OUTCOMES, MissionGym
from tests.envs.scripted import EAST, HOLD, NORTH, WEST, mixture, play, seeker

FAR_GUARD: dict[str, Any] = {"patrols": [{"waypoints_m": [[199, 199]]}]}
OPEN_FIELD: dict[str, Any] = {**FAR_GUARD, "obstacles": []}


def started(world: dict[str, Any], **tables: dict[str, Any]) -> MissionGym:
    env = MissionGym("demo", overrides={"world": world, **tables})
    env.reset(seed=1)
    return env


def place(env: MissionGym, x: Sequence[float], y: Sequence[float]) -> None:
    env.core.fields.x[:, 0], env.core.fields.y[:, 0] = x, y


def run(env: MissionGym, action: Sequence[int], decisions: int) -> tuple[float, dict[str, Any]]:
    """Repeat one action until the episode ends or `decisions` are made; return and last info."""
    total = 0.0
    info: dict[str, Any] = {}
    for _ in range(decisions):
        _, reward, terminated, truncated, info = env.step(np.array(action))
        total += reward
        if terminated or truncated:
            break
        assert info == {}
    return total, info


def test_units_reach_their_speed_and_stop_at_the_edge() -> None:
    """A unit moves at its class's speed at once, and the field's edge ends the move."""
    env = started(OPEN_FIELD)
    place(env, [150, 150, 150], [140, 150, 160])
    run(env, [WEST, WEST, WEST], 1)
    units = env.mission.units
    speeds = [units.ground.speed_mps, units.ground.speed_mps, units.air.speed_mps]
    assert env.core.fields.vx[:, 0] == pytest.approx([-speed for speed in speeds])
    run(env, [NORTH, NORTH, HOLD], 30)
    assert env.core.fields.y[:2, 0].tolist() == [200, 200]


def test_walls_stop_ground_units_and_not_air_units() -> None:
    """Heading east into a wall, ground units stand at its face while the air unit is beyond it."""
    wall = {"low_m": [70, 0], "high_m": [80, 200]}
    env = started({**FAR_GUARD, "obstacles": [wall]})
    place(env, [60, 60, 60], [40, 50, 60])
    run(env, [EAST, EAST, EAST], 20)
    ground, face = env.core.fields.x[:2, 0], 70 - env.mission.world.clearance_m
    assert np.all(ground <= face)
    assert ground == pytest.approx([face, face], abs=0.5)
    assert env.core.fields.x[2, 0] > 85


def test_ground_units_slide_along_walls() -> None:
    """A diagonal order against a wall still moves along it."""
    env = started({**FAR_GUARD, "obstacles": [{"low_m": [70, 0], "high_m": [80, 200]}]})
    place(env, [67, 67, 20], [40, 50, 60])
    run(env, [2, 4, HOLD], 8)
    assert env.core.fields.y[0, 0] > 45
    assert env.core.fields.y[1, 0] < 45


def test_guards_patrol_their_route() -> None:
    """With nobody in sight a guard visits its waypoints in turn."""
    route = [[100.0, 100.0], [110.0, 100.0], [110.0, 110.0]]
    env = started({"patrols": [{"waypoints_m": route}], "obstacles": []})
    visited: set[int] = set()
    for _ in range(60):
        env.step(np.zeros(3, dtype=np.int64))
        here = np.array([env.core.fields.guard_x[0, 0], env.core.fields.guard_y[0, 0]])
        visited |= {i for i, point in enumerate(route) if np.hypot(*(here - point)) < 1.0}
    assert visited == {0, 1, 2}


def test_guards_chase_and_tag_air_units_sooner_than_ground_units() -> None:
    """An air unit falls after its armour's seconds of contact; the guard then reloads before it tags the next."""
    env = started({"patrols": [{"waypoints_m": [[100, 180]]}], "obstacles": []})
    place(env, [98, 20, 102], [180, 20, 180])
    lost_at: dict[int, float] = {}
    for decision in range(60):
        env.step(np.zeros(3, dtype=np.int64))
        for unit in np.flatnonzero(~env.core.fields.alive[:, 0]):
            lost_at.setdefault(int(unit), (decision + 1) / 4)
    units = env.mission.units
    assert set(lost_at) == {0, 2}
    assert lost_at[2] == pytest.approx(units.air.armour_s, abs=0.25)
    assert lost_at[0] == pytest.approx(units.air.armour_s + units.defender.reload_s + units.ground.armour_s, abs=0.75)


def test_disabled_units_stay_and_ignore_orders() -> None:
    """A disabled unit keeps its place whatever it is told, and its observation says so."""
    env = started(OPEN_FIELD)
    place(env, [50, 60, 70], [50, 60, 70])
    env.core.fields.alive[1, 0] = False
    run(env, [EAST, EAST, EAST], 10)
    assert (env.core.fields.x[1, 0], env.core.fields.y[1, 0]) == (60, 60)
    assert env.core.observe()[0, 10 + 8] == -1


def test_endurance_ends_a_unit() -> None:
    """An air unit is spent when its endurance is over, ground units with more of it go on."""
    env = started(OPEN_FIELD, rules={"stall_s": 0})
    run(env, [HOLD] * 3, round(env.mission.units.air.endurance_s * 4) - 1)
    assert env.core.fields.alive[:, 0].tolist() == [True, True, True]
    run(env, [HOLD] * 3, 1)
    assert env.core.fields.alive[:, 0].tolist() == [True, True, False]


def test_captured_when_progress_is_complete() -> None:
    """One ground unit in the zone completes the capture in exactly its seconds, and the ending is paid for."""
    env = started(OPEN_FIELD)
    zone_x, zone_y = env.core.fields.zone_x[0], env.core.fields.zone_y[0]
    place(env, [zone_x, 50, 50], [zone_y, 50, 60])
    _, info = run(env, [HOLD] * 3, 1000)
    assert info == {"outcome": "captured", "capture": 1.0, "survivors": 3, "time_s": env.mission.rules.capture_s}


def test_capture_progress_decays_while_nobody_is_inside() -> None:
    """Leaving the zone costs progress, never below nothing."""
    env = started(OPEN_FIELD)
    zone_x, zone_y = env.core.fields.zone_x[0], env.core.fields.zone_y[0]
    place(env, [zone_x, 50, 50], [zone_y, 50, 60])
    run(env, [HOLD] * 3, 8)
    assert env.core.fields.capture_s[0] == 2.0
    place(env, [50, 50, 50], [40, 50, 60])
    run(env, [HOLD] * 3, 4)
    assert env.core.fields.capture_s[0] == 2.0 - env.mission.rules.capture_decay
    run(env, [HOLD] * 3, 20)
    assert env.core.fields.capture_s[0] == 0.0


def test_early_success_when_all_survivors_hold_the_zone_early() -> None:
    """With every survivor inside, the episode is won at the early mark; a disabled unit outside does not prevent it."""
    env = started(OPEN_FIELD)
    zone_x, zone_y = env.core.fields.zone_x[0], env.core.fields.zone_y[0]
    place(env, [zone_x, zone_x, 50], [zone_y, zone_y, 50])
    env.core.fields.alive[2, 0] = False
    _, info = run(env, [HOLD] * 3, 1000)
    assert info["outcome"] == "early_success"
    assert info["time_s"] == env.mission.rules.early_hold_s / 2


def test_stalled_without_progress() -> None:
    """Standing still ends the episode after the stall time, as a termination."""
    env = started(OPEN_FIELD)
    _, info = run(env, [HOLD] * 3, 1000)
    assert info["outcome"] == "stalled"
    assert info["time_s"] == env.mission.rules.stall_s


def test_all_disabled_ends_the_episode() -> None:
    """When nobody is left the episode is over at once."""
    env = started(OPEN_FIELD)
    env.core.fields.alive[:] = False
    _, info = run(env, [HOLD] * 3, 1)
    assert info["outcome"] == "all_disabled"


def test_timeout_is_the_only_truncation() -> None:
    """The time limit truncates; every other ending terminates."""
    env = started(OPEN_FIELD, rules={"stall_s": 0, "time_limit_s": 2})
    run(env, [HOLD] * 3, 7)
    _, _, terminated, truncated, info = env.step(np.zeros(3, dtype=np.int64))
    assert (terminated, truncated, info["outcome"]) == (False, True, "timeout")


@pytest.mark.slow
@pytest.mark.parametrize("config", ["standard", "demo"])
def test_random_orders_do_not_win_and_a_plan_does(config: str) -> None:
    """Random play wins less than one episode in twenty; a scripted seeker wins more than a third of them."""
    rng = np.random.default_rng(0)
    attackers = len(MissionGym(config).mission.units.attackers)
    random = play(config, 64, lambda core: rng.integers(0, 9, (core.num_lanes, attackers)))
    planned = play(config, 64, seeker)
    winning = MissionGym(config).mission.rules.winning
    assert sum(random[name] for name in winning) <= 3
    assert sum(planned[name] for name in winning) > 21


@pytest.mark.slow
def test_every_ending_is_one_of_the_closed_set() -> None:
    """Mixed play on the standard mission sees several endings, all of them known words."""
    outcomes = play("standard", 48, mixture(np.random.default_rng(1)))
    assert set(outcomes) <= set(OUTCOMES)
    assert len(outcomes) >= 2
