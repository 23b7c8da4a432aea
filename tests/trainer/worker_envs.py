"""Environments that fail in a worker when their action says so, and some that say unusual things; registered here."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.trainer.probe_envs import Walk

FINE, RAISE, UNPICKLABLE, LEAVE, HANG, EXIT, CRASH, SPEAK, EAT, STARVE = range(10)


class StubbornError(Exception):
    """Cannot be made again from its arguments, as some libraries' errors."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} is not {other}")


class Obedient(Walk):
    """Fails in the way that its action names."""

    action_space: spaces.Space[Any] = spaces.Discrete(10)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        match int(action):
            case 1:
                raise ValueError("the bridge is out")
            case 2:
                raise StubbornError(1, 2)
            case 3:
                os._exit(7)
            case 4:
                time.sleep(3600)
            case 5:
                raise SystemExit(3)
            case 6:
                ctypes.string_at(0)
            case 7:
                os.write(2, b"\nthe physics exploded\n\x1b[31mat joint 4\n")
                os.abort()
            case 8:
                eaten = [bytearray(b"x" * (1 << 20)) for _ in range(1 << 14)]
                raise AssertionError(len(eaten))
            case 9:
                raise MemoryError
        return super().step(action)

    def refuse(self) -> None:
        raise LookupError("not here")


class Talkative(Walk):
    """Every info has something in it, resets too; episodes end by time, in success and by both; it can be drawn."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's own way

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode
        self.resets = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        self.resets += 1
        return observation, {"resets": self.resets, "options": options}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, _, over, _, info = super().step(action)
        turn = self.resets % 3
        reward = float(self.np_random.normal())
        return observation, reward, over and turn != 1, over and turn != 2, {**info, "draw": np.float64(reward)}

    def render(self) -> Any:
        return np.full((4, 4, 3), self.steps, dtype=np.uint8)

    def add(self, one: int, other: int = 0) -> int:
        return self.steps + one + other


class SwitchWalk(Walk):
    """Observes a MultiBinary, acts in a grid of them."""

    action_space: spaces.Space[Any] = spaces.MultiBinary((2, 2))

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiBinary(3)

    def _observe(self) -> Any:
        return self.np_random.integers(0, 2, 3, dtype=np.int8)


class MixedWalk(Walk):
    """A dictionary of every kind of part that SB3's PPO takes."""

    action_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            image=spaces.Box(0, 255, (36, 36, 3), dtype=np.uint8),
            place=spaces.Discrete(5),
            gears=spaces.MultiDiscrete([3, 4]),
            switches=spaces.MultiBinary(2),
            precise=spaces.Box(-1.0, 1.0, (2, 2), dtype=np.float64),
        )

    def _observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


class TupleWalk(Walk):
    """An observation that SB3's PPO does not take."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)])


class Slow(Walk):
    """A step is 10 ms of work."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        begun = time.thread_time()
        while time.thread_time() - begun < 0.01:
            pass
        return super().step(action)


class Waiting(Walk):
    """A step waits 5 ms for somebody else."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(0.005)
        return super().step(action)


class Asking(Walk):
    """A step is 5 ms of work of a process of its own, which the environment waits for."""

    def __init__(self) -> None:
        super().__init__()
        self.simulator = subprocess.Popen(
            [sys.executable, "-c", _SIMULATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.simulator.stdin is not None
        assert self.simulator.stdout is not None
        self.simulator.stdin.write(b"\n")
        self.simulator.stdout.readline()
        return super().step(action)

    def close(self) -> None:
        self.simulator.communicate()


_SIMULATOR = """
import sys, time
for line in sys.stdin.buffer:
    begun = time.thread_time()
    while time.thread_time() - begun < 0.005:
        pass
    print(flush=True)
"""

for probe in (Obedient, Talkative, SwitchWalk, MixedWalk, TupleWalk, Slow, Waiting, Asking):
    gymnasium.register(id=f"{probe.__name__}-v0", entry_point=f"{__name__}:{probe.__name__}")
