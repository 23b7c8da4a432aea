"""Environments as text: drawn from their state (classic control, toy text and missions, without pygame), and what their
actions are called.

Every drawing is a function of the state and of the room there is. Lines of classic control are made of Braille dots,
which are square: two in a cell's width and four in its height. Environments are known by the names of their classes, so
that nothing of Gymnasium's own is loaded that the run does not use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from gymnasium import ActionWrapper, Wrapper, spaces
from numpy.typing import NDArray

from mission_tui.envs.mission_gym import page

Known = TypeVar("Known")

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot in a Braille character, by its row and column in the cell."""
_BRAILLE = 0x2800
_CART_POLE_M = 2.4
_POLE_SCALE = 2.0
"""Gymnasium's pole is a fifth of the track: in characters it would be a stub, so it is drawn twice as long."""
_TALLEST = 7
"""Lines of a cell of a grid, beyond which one would lose sight of who stands in it."""
_LEGEND_LINES = 1


class Dots:
    """A picture of `columns` x `lines` cells; x and y are in world units, y upwards, with `scale` dots a unit."""

    def __init__(self, columns: int, lines: int, left: float, right: float, bottom: float, top: float) -> None:
        self.columns, self.lines = columns, lines
        self._dots = np.zeros((4 * lines, 2 * columns), dtype=np.bool_)
        self.scale = min((2 * columns - 1) / (right - left), (4 * lines - 1) / (top - bottom))
        self._x0 = (2 * columns - 1) / 2 - self.scale * (left + right) / 2
        self._y0 = (4 * lines - 1) / 2 + self.scale * (bottom + top) / 2

    def line(self, x0: float, y0: float, x1: float, y1: float, thick: float = 0.0) -> None:
        """A straight line, `thick` dots to each side."""
        ax, ay, bx, by = *self._place(x0, y0), *self._place(x1, y1)
        many = int(max(abs(bx - ax), abs(by - ay))) + 1
        for at in np.linspace(0.0, 1.0, many + 1):
            self._disc(ax + at * (bx - ax), ay + at * (by - ay), thick)

    def box(self, x0: float, y0: float, x1: float, y1: float) -> None:
        """A filled rectangle."""
        (left, low), (right, high) = self._place(min(x0, x1), min(y0, y1)), self._place(max(x0, x1), max(y0, y1))
        columns = slice(max(0, round(left)), max(0, round(right) + 1))
        self._dots[max(0, round(high)) : max(0, round(low) + 1), columns] = True

    def disc(self, x: float, y: float, radius: float) -> None:
        """A filled circle."""
        self._disc(*self._place(x, y), radius * self.scale)

    def text(self) -> str:
        """The picture as lines."""
        bits = self._dots.reshape(self.lines, 4, self.columns, 2).transpose(0, 2, 1, 3) * _DOTS
        codes = bits.sum(axis=(2, 3))
        rows = [[chr(_BRAILLE + code) if code else " " for code in row] for row in codes.tolist()]
        return "\n".join("".join(row).rstrip() for row in rows)

    def _place(self, x: float, y: float) -> tuple[float, float]:
        return self._x0 + self.scale * x, self._y0 - self.scale * y

    def _disc(self, x: float, y: float, radius: float) -> None:
        if not (math.isfinite(x) and math.isfinite(y)):
            return
        reach = math.ceil(radius)
        for row in range(round(y) - reach, round(y) + reach + 1):
            for column in range(round(x) - reach, round(x) + reach + 1):
                inside = (row - round(y)) ** 2 + (column - round(x)) ** 2 <= radius**2 + 0.25
                if inside and 0 <= row < self._dots.shape[0] and 0 <= column < self._dots.shape[1]:
                    self._dots[row, column] = True


def _thick(dots: Dots) -> float:
    """Dots to each side of a pole that can be seen at any size."""
    return max(0.8, 0.03 * dots.scale)


def cart_pole(x: float, angle: float, columns: int, lines: int, *, limit: float = math.radians(12)) -> str:
    """Position in metres, the pole's angle from upright in radians, clockwise; `limit` is the angle that ends it."""
    picture_lines = max(4, lines - _LEGEND_LINES)
    high = _POLE_SCALE + 0.5
    wide = max(2 * _CART_POLE_M + 0.2, high * columns / (2 * picture_lines))
    dots = Dots(columns, picture_lines, -wide / 2, wide / 2, -0.15, high)
    dots.line(-_CART_POLE_M, 0.0, _CART_POLE_M, 0.0)
    for end in (-_CART_POLE_M, _CART_POLE_M):
        dots.line(end, -0.1, end, 0.15)
    dots.box(x - 0.3, 0.03, x + 0.3, 0.33)
    dots.line(x, 0.33, x + _POLE_SCALE * math.sin(angle), 0.33 + _POLE_SCALE * math.cos(angle), _thick(dots))
    said = f"x {x:+.2f} of {_CART_POLE_M:.1f}   pole {math.degrees(angle):+.1f} of {math.degrees(limit):.0f} deg"
    return f"{dots.text()}\n{said[:columns]}"


def acrobot(first: float, second: float, columns: int, lines: int) -> str:
    """Angles in radians: of the first link from straight down, of the second from the first; the tip has to reach the
    dashed line.
    """
    dots = Dots(columns, max(4, lines - _LEGEND_LINES), -2.2, 2.2, -2.2, 2.2)
    for at in np.arange(-2.2, 2.2, 0.3):
        dots.line(float(at), 1.0, float(at) + 0.1, 1.0)
    elbow = math.sin(first), -math.cos(first)
    tip = elbow[0] + math.sin(first + second), elbow[1] - math.cos(first + second)
    dots.line(0.0, 0.0, *elbow, _thick(dots))
    dots.line(*elbow, *tip, _thick(dots))
    for joint in ((0.0, 0.0), elbow):
        dots.disc(*joint, 0.09)
    return f"{dots.text()}\n{f'tip {tip[1]:+.2f}, goal 1.00'[:columns]}"


def mountain_car(position: float, velocity: float, columns: int, lines: int, *, goal: float = 0.5) -> str:
    """The valley of Gymnasium: height sin(3 x) * 0.45 + 0.55 for x from -1.2 to 0.6."""

    def height(x: float) -> float:
        return math.sin(3 * x) * 0.45 + 0.55

    dots = Dots(columns, max(4, lines - _LEGEND_LINES), -1.25, 0.65, 0.0, 1.3)
    places = np.linspace(-1.2, 0.6, 4 * columns)
    for at, to in pairwise(places.tolist()):
        dots.line(at, height(at), to, height(to))
    dots.line(goal, height(goal), goal, height(goal) + 0.2)
    dots.box(goal, height(goal) + 0.12, goal + 0.08, height(goal) + 0.2)
    dots.disc(position, height(position) + 0.06, 0.045)
    return f"{dots.text()}\n{f'x {position:+.2f}, goal {goal:.2f}   speed {velocity:+.3f}'[:columns]}"


def pendulum(angle: float, torque: float | None, columns: int, lines: int) -> str:
    """Angle in radians from upright, counter-clockwise; the torque in Nm that was applied last."""
    dots = Dots(columns, max(4, lines - _LEGEND_LINES), -1.2, 1.2, -1.2, 1.2)
    dots.line(0.0, 0.0, -math.sin(angle), math.cos(angle), _thick(dots))
    dots.disc(0.0, 0.0, 0.07)
    upright = math.degrees(math.remainder(angle, 2 * math.pi))
    said = f"{upright:+.0f} degrees from upright" + ("" if torque is None else f"   torque {torque:+.2f}")
    return f"{dots.text()}\n{said[:columns]}"


def grid(cells: Sequence[Sequence[str]], agent: tuple[int, int], legend: str, columns: int, lines: int) -> str:
    """One character a cell, as large as there is room for: the agent is `@`, `legend` says what the others are."""
    rows, across = len(cells), len(cells[0])
    # A cell of a terminal is twice as high as wide; an odd height has a middle.
    tall = min((lines - _LEGEND_LINES - 1) // rows - 1, columns // across // 2, _TALLEST)
    tall = max(1, tall - (tall + 1) % 2)
    wide = max(2, min(2 * tall + 4, (columns - 1) // across - 1))
    wide = wide if (wide + 1) * across + 1 <= columns else 1
    ruled = (tall + 1) * rows + 1 + _LEGEND_LINES <= lines and wide > 1
    if not ruled:
        between = " " if 2 * across <= columns else ""
        said = [
            between.join("@" if (row, at) == agent else cells[row][at].replace(" ", ".") for at in range(across))
            for row in range(rows)
        ]
        return "\n".join([*(line[:columns] for line in said[:lines]), legend[:columns]][:lines])
    edge, bare = "+" + ("-" * wide + "+") * across, "|" + (" " * wide + "|") * across
    beside = [bare] * (tall // 2)
    drawn = [edge]
    for row in range(rows):
        inside = ("@" if (row, at) == agent else cells[row][at] for at in range(across))
        drawn += [*beside, "|" + "".join(char.center(wide) + "|" for char in inside), *beside, edge]
    return "\n".join([*drawn, legend[:columns]])


def frozen_lake(desc: Sequence[Sequence[str]], state: int, columns: int, lines: int) -> str:
    """`desc` has S, F, H and G as in Gymnasium's maps; `state` counts cells row by row."""
    shown = {"F": " ", "H": "O", "S": "S", "G": "G"}
    cells = [[shown.get(char, char) for char in row] for row in desc]
    return grid(cells, divmod(state, len(cells[0])), "@ agent  O hole  S start  G goal", columns, lines)


def cliff_walking(cliff: Sequence[Sequence[bool]], state: int, columns: int, lines: int) -> str:
    """Start and goal are the two ends of the last row, as in Gymnasium."""
    cells = [["#" if deep else " " for deep in row] for row in cliff]
    cells[-1][0], cells[-1][-1] = "S", "G"
    return grid(cells, divmod(state, len(cells[0])), "@ agent  # cliff  S start  G goal", columns, lines)


def taxi(
    desc: Sequence[Sequence[str]],
    locs: Sequence[tuple[int, int]],
    at: tuple[int, int, int, int],
    columns: int,
    lines: int,
) -> str:
    """Gymnasium's map; `at` is the taxi's row and column, where the passenger waits (4: in the taxi), and the goal."""
    row, column, passenger, goal = at
    cells = [list(line) for line in desc]
    names = [cells[1 + y][1 + 2 * x] for y, x in locs]
    if passenger < len(locs):
        waits = locs[passenger]
        cells[1 + waits[0]][1 + 2 * waits[1]] = "p"
    cells[1 + row][1 + 2 * column] = "@" if passenger < len(locs) else "&"
    rides = "rides (&)" if passenger >= len(locs) else f"waits at {names[passenger]} (p)"
    said = ["".join(line) for line in cells]
    if 2 * len(said[0]) <= columns:
        said = [" ".join(line) for line in said]
    legend = f"@ taxi; the passenger {rides}, to {names[goal]}"
    return "\n".join([*(line[:columns] for line in said), *_folded(legend, columns)][:lines])


def _folded(text: str, columns: int) -> list[str]:
    lines, current = [], ""
    for word in text.split(" "):
        if current and len(current) + 1 + len(word) > columns:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}" if current else word
    return [*lines, current]


def _characters(desc: NDArray[np.bytes_]) -> list[list[str]]:
    return [[char.decode("ascii", "replace") for char in row] for row in desc.tolist()]


def _of_pendulum(env: Any, columns: int, lines: int) -> str:
    torque = getattr(env, "last_u", None)
    said = None if torque is None else float(np.asarray(torque).flat[0])
    return pendulum(float(env.state[0]), said, columns, lines)


def _of_taxi(env: Any, columns: int, lines: int) -> str:
    row, column, passenger, goal = (int(part) for part in env.decode(int(env.s)))
    return taxi(_characters(env.desc), env.locs, (row, column, passenger, goal), columns, lines)


def _of_cart_pole(env: Any, columns: int, lines: int) -> str:
    limit = float(env.theta_threshold_radians)
    return cart_pole(float(env.state[0]), float(env.state[2]), columns, lines, limit=limit)


_DRAWN: dict[tuple[str, str], Callable[[Any, int, int], str]] = {
    ("gymnasium.envs.classic_control.cartpole", "CartPoleEnv"): _of_cart_pole,
    ("gymnasium.envs.classic_control.acrobot", "AcrobotEnv"): lambda env, columns, lines: acrobot(
        float(env.state[0]), float(env.state[1]), columns, lines
    ),
    ("gymnasium.envs.classic_control.mountain_car", "MountainCarEnv"): lambda env, columns, lines: mountain_car(
        float(env.state[0]), float(env.state[1]), columns, lines, goal=float(env.goal_position)
    ),
    (
        "gymnasium.envs.classic_control.continuous_mountain_car",
        "Continuous_MountainCarEnv",
    ): lambda env, columns, lines: mountain_car(
        float(env.state[0]), float(env.state[1]), columns, lines, goal=float(env.goal_position)
    ),
    ("gymnasium.envs.classic_control.pendulum", "PendulumEnv"): _of_pendulum,
    ("gymnasium.envs.toy_text.frozen_lake", "FrozenLakeEnv"): lambda env, columns, lines: frozen_lake(
        _characters(env.desc), int(env.s), columns, lines
    ),
    ("gymnasium.envs.toy_text.cliffwalking", "CliffWalkingEnv"): lambda env, columns, lines: cliff_walking(
        env._cliff.tolist(), int(env.s), columns, lines
    ),
    ("gymnasium.envs.toy_text.taxi", "TaxiEnv"): _of_taxi,
    ("mission_tui.envs.mission_gym", "MissionGym"): lambda env, columns, lines: page(env.core, 0, columns, lines),
}

# As Gymnasium's pages have them, in a word each.
_ACTIONS: dict[tuple[str, str], tuple[str, ...]] = {
    ("gymnasium.envs.classic_control.cartpole", "CartPoleEnv"): ("left", "right"),
    ("gymnasium.envs.classic_control.acrobot", "AcrobotEnv"): ("-1", "none", "+1"),
    ("gymnasium.envs.classic_control.mountain_car", "MountainCarEnv"): ("left", "none", "right"),
    ("gymnasium.envs.box2d.lunar_lander", "LunarLander"): ("none", "left", "main", "right"),
    ("gymnasium.envs.toy_text.frozen_lake", "FrozenLakeEnv"): ("left", "down", "right", "up"),
    ("gymnasium.envs.toy_text.cliffwalking", "CliffWalkingEnv"): ("up", "right", "down", "left"),
    ("gymnasium.envs.toy_text.taxi", "TaxiEnv"): ("south", "north", "east", "west", "pick up", "drop off"),
    ("mission_tui.envs.mission_gym", "MissionGym"): ("hold", "N", "NE", "E", "SE", "S", "SW", "W", "NW"),
}


def action_names(env: Any) -> tuple[str, ...]:
    """What the choices of each discrete action of `env` are called; nothing where a wrapper made others of them, or
    nobody says. An environment of somebody else's says it as those of Atari do, by `get_action_meanings()`.
    """
    below = env.unwrapped
    if env.action_space != below.action_space or _changes_actions(env):
        return ()
    if (names := _known(below, _ACTIONS)) is not None:
        return names
    # Of several switches the names are those of the switches, not of their two places.
    asked = isinstance(below.action_space, spaces.Discrete) and hasattr(below, "get_action_meanings")
    said: Any = below.get_action_meanings() if asked else ()
    return tuple(map(str, said)) if isinstance(said, list | tuple) else ()


def _changes_actions(env: Any) -> bool:
    while isinstance(env, Wrapper):
        if isinstance(env, ActionWrapper):
            return True
        env = env.env
    return False


def can_draw(env: Any) -> bool:
    """Whether `env`, an environment below all wrappers, is one of those that are drawn here."""
    return _drawer(env) is not None


def picture_of_state(env: Any, columns: int, lines: int) -> str:
    """`env` as it stands, in at most so many cells. Raises `ValueError` for one that is not drawn here."""
    drawer = _drawer(env)
    if drawer is None:
        raise ValueError(f"{type(env).__name__} is not drawn from its state")
    return drawer(env, columns, lines)


def _drawer(env: Any) -> Callable[[Any, int, int], str] | None:
    return _known(env, _DRAWN)


def _known(env: Any, table: Mapping[tuple[str, str], Known]) -> Known | None:
    """What the table has of the class of `env`, or of the nearest class that this one is made of."""
    names = ((kind.__module__, kind.__name__) for kind in type(env).__mro__)
    return next((table[name] for name in names if name in table), None)
