"""Environments that fork at every twentieth step, and children that do there what they should not; registered here."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import Any

import gymnasium

from tests.trainer.probe_envs import Walk


def square(number: int) -> int:
    """What a process of the pool is given to do."""
    return number * number


class Forking(Walk):
    """`does`: what the child does, or `pool`, where a pool of forks works at the step. The parent waits for it."""

    def __init__(self, does: str = "raise", parent_waits: bool = True) -> None:
        super().__init__()
        self.does, self.parent_waits, self.taken = does, parent_waits, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.taken += 1
        if self.taken % 20 == 0:
            self.fork()
        return super().step(action)

    def fork(self) -> None:
        if self.does == "pool":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert pool.map(square, [2, 3]) == [4, 9]
            return
        child = os.fork()
        if child == 0:
            match self.does:
                case "raise":
                    raise ValueError("the child lost its way")
                case "exit":
                    sys.exit(5)
                case "wait":
                    time.sleep(600)
            return  # into the training, as the parent does
        if self.parent_waits:
            _, status = os.waitpid(child, 0)
            expected = 5 if self.does == "exit" else 1
            assert os.waitstatus_to_exitcode(status) == expected, os.waitstatus_to_exitcode(status)


gymnasium.register(id="Forking-v0", entry_point=f"{__name__}:Forking")
