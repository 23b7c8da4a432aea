"""Environments drawn from their state: what moves is seen to move, and nothing is drawn beyond the room there is."""

from __future__ import annotations

import math
import sys
from typing import Any

import gymnasium
import pytest

from mission_tui.envs.core import HEADINGS
from mission_tui.envs.state_pictures import (
    acrobot,
    action_names,
    can_draw,
    cart_pole,
    cliff_walking,
    frozen_lake,
    mountain_car,
    pendulum,
    picture_of_state,
    taxi,
)

DRAWN = (
    "CartPole-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "Taxi-v4",
    "CliffWalking-v1",
    "MissionGym-v0",
)


def columns_of(text: str) -> list[int]:
    """Where the leftmost dot of each line is that has one."""
    return [len(line) - len(line.lstrip()) for line in text.split("\n")[:-1] if line.strip()]


@pytest.mark.parametrize("env_id", DRAWN)
@pytest.mark.parametrize(("columns", "lines"), [(38, 18), (100, 40), (20, 8)])
def test_each_is_drawn_within_its_room_and_without_pygame(
    env_id: str, columns: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the environment itself, after a few steps; its state is only read, and pygame cannot be imported."""
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = gymnasium.make(env_id)
    env.reset(seed=3)
    env.action_space.seed(3)
    for _ in range(5):
        env.step(env.action_space.sample())
    inner = env.unwrapped
    assert can_draw(inner)
    drawn = picture_of_state(inner, columns, lines)
    rows = drawn.split("\n")
    assert (max(map(len, rows)) <= columns, len(rows) <= max(lines, 8), drawn.strip() != "") == (True, True, True)
    assert picture_of_state(inner, columns, lines) == drawn


def test_another_environment_is_not_taken_for_one_of_them() -> None:
    """By the name of its class alone it is not known: the module counts too."""

    class CartPoleEnv(gymnasium.Env[int, int]):
        """Somebody else's."""

    assert not can_draw(CartPoleEnv())
    with pytest.raises(ValueError, match="CartPoleEnv is not drawn from its state"):
        picture_of_state(CartPoleEnv(), 40, 10)


@pytest.mark.parametrize("env_id", DRAWN)
def test_each_choice_has_a_name_and_a_push_has_none(env_id: str) -> None:
    """As many as there are choices, all different."""
    env = gymnasium.make(env_id)
    match env.action_space:
        case gymnasium.spaces.Discrete(n=n):
            count = int(n)
        case gymnasium.spaces.MultiDiscrete(nvec=nvec):
            (count,) = {int(n) for n in nvec}
        case _:
            count = 0
    names = action_names(env)
    assert len(names) == len(set(names)) == count


def test_the_names_are_true_of_what_the_actions_do() -> None:
    """The lake is walked down and to the right, a unit flies north where that is its heading."""
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    names, places = action_names(lake), list[int]()
    lake.reset(seed=1)
    for name in ("right", "right", "down", "left"):
        places.append(int(lake.step(names.index(name))[0]))
    assert places == [1, 2, 6, 5]
    headings = dict(zip(action_names(gymnasium.make("MissionGym-v0")), HEADINGS, strict=True))
    assert [headings[name] for name in ("hold", "N", "E", "S", "W")] == [(0, 0), (0, 1), (1, 0), (0, -1), (-1, 0)]


class Buttons(gymnasium.Env[int, Any]):
    """Somebody's own, which names its actions as Atari's do."""

    action_space: gymnasium.Space[Any] = gymnasium.spaces.Discrete(2)

    def get_action_meanings(self) -> list[str]:
        """One for each."""
        return ["NOOP", "FIRE"]


class Switches(Buttons):
    """Two that are on or off."""

    action_space = gymnasium.spaces.MultiBinary(2)


class Others(gymnasium.ActionWrapper[int, Any, Any]):
    """Leaves some of the buttons; of both, each is the other one."""

    def __init__(self, env: gymnasium.Env[int, Any], many: int) -> None:
        super().__init__(env)
        self.action_space = gymnasium.spaces.Discrete(many)

    def action(self, action: Any) -> Any:
        """The other one."""
        return 1 - action


def test_an_environment_says_itself_what_its_actions_are_called() -> None:
    """Not of those that a wrapper made of them, nor of the two places of a switch."""
    assert action_names(Buttons()) == ("NOOP", "FIRE")
    assert action_names(Others(Buttons(), 1)) == action_names(Others(Buttons(), 2)) == ()
    assert action_names(Switches()) == ()


def test_the_cart_moves_and_the_pole_leans() -> None:
    """To the right with x; the tip of the pole is right of the cart where it falls to the right."""
    left, right = (columns_of(cart_pole(x, 0.0, 60, 16)) for x in (-1.0, 1.0))
    assert left[0] < right[0]
    upright, leaning = (cart_pole(0.0, angle, 60, 16).split("\n") for angle in (0.0, 0.2))
    top = next(line for line in leaning if line.strip())
    assert len(top) - len(top.lstrip()) > next(len(line) - len(line.lstrip()) for line in upright if line.strip())
    assert leaning[-1] == "x +0.00 of 2.4   pole +11.5 of 12 deg"


def test_swings_are_drawn_up_and_down() -> None:
    """A pendulum that stands has its dots above those of one that hangs; the acrobot's tip is told against its goal."""
    up, down = (pendulum(angle, None, 40, 20).split("\n")[:-1] for angle in (0.0, math.pi))
    first = [next(at for at, line in enumerate(rows) if line.strip()) for rows in (up, down)]
    assert first[0] < first[1]
    assert pendulum(0.1, -1.5, 40, 20).endswith("+6 degrees from upright   torque -1.50")
    assert acrobot(0.0, 0.0, 40, 20).endswith("tip -2.00, goal 1.00")
    assert acrobot(math.pi, 0.0, 40, 20).endswith("tip +2.00, goal 1.00")


def test_the_car_climbs() -> None:
    """At the flag the picture is another one than in the valley, and both say where the car is."""
    valley, flag = mountain_car(-0.5, 0.0, 50, 16), mountain_car(0.5, 0.02, 50, 16)
    assert valley.split("\n")[:-1] != flag.split("\n")[:-1]
    assert flag.endswith("x +0.50, goal 0.50   speed +0.020")


def test_grids_show_who_is_where() -> None:
    """The agent is the only @; a lake has its holes, a cliff its edge, in cells as large as there is room for."""
    lake = ["SFFF", "FHFH", "FFFH", "HFFG"]
    large, small = frozen_lake(lake, 6, 40, 13), frozen_lake(lake, 6, 12, 6)
    rows = large.split("\n")[:-1]
    assert [line.count("@") for line in rows] == [0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert sum(line.count("O") for line in rows) == 4
    assert small.split("\n")[:4] == ["S . . .", ". O @ O", ". . . O", "O . . G"]
    whole = frozen_lake(lake, 6, 90, 45).split("\n")[:-1]
    assert (len(whole), len(whole[0])) == (4 * 8 + 1, 4 * 19 + 1), "no small map in the middle of an empty screen"
    assert [at for at, line in enumerate(whole) if "@" in line] == [12]
    cliff = [[False] * 12 for _ in range(4)]
    cliff[3][1:11] = [True] * 10
    assert cliff_walking(cliff, 36, 20, 8).split("\n")[3] == "@##########G"


def test_the_taxi_says_who_rides() -> None:
    """The passenger waits as p, and is in the taxi as &; the legend says where to."""
    desc = ["+---------+", "|R: | : :G|", "| : | : : |", "| : : : : |", "| | : | : |", "|Y| : |B: |", "+---------+"]
    locs = [(0, 0), (0, 4), (4, 0), (4, 3)]
    waits, rides = (taxi(desc, locs, (2, 2, passenger, 3), 60, 20) for passenger in (0, 4))
    assert waits.split("\n")[1] == "| p :   |   :   : G |"
    assert waits.endswith("@ taxi; the passenger waits at R (p), to B")
    assert (rides.count("&"), rides.endswith("@ taxi; the passenger rides (&), to B")) == (2, True)
