"""Environments of real trainings that fail after the first update, start helpers that hide, or never come back."""

from __future__ import annotations

import ctypes
import os
import secrets
import subprocess
import time
from contextlib import suppress
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

FEW = 4
HIDE = "import os, sys, time\nos.fork() and os._exit(0)\nos.setsid()\nos.fork() and os._exit(0)\ntime.sleep(3600)"


class Crashing(CartPoleEnv):
    """Starts a helper that sheds session, parent and environment; crashes in native code at step `at`."""

    def __init__(self, helper: str, at: int = 100) -> None:
        super().__init__()
        self._helper, self._at, self._steps = helper, at, 0

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._steps == 1:
            subprocess.run(["/usr/bin/env", "-i", "python3", "-S", "-c", HIDE, self._helper], check=True)
        if self._steps == self._at:
            os.write(2, b"joint 4 left the arm\n")
            ctypes.string_at(0)
        return super().step(action)  # type: ignore[no-untyped-call]


class Stuck(CartPoleEnv):
    """Never comes back from its hundredth step; the first few take named shared memory, each with a tracker process."""

    def __init__(self, prefix: str = "") -> None:
        super().__init__()
        self._steps = 0
        if prefix and len(list(Path("/dev/shm").glob(f"{prefix}*"))) < FEW:
            self._memory = shared_memory.SharedMemory(f"{prefix}-{secrets.token_hex(4)}", create=True, size=4096)

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._steps == 100:
            time.sleep(3600)
        return super().step(action)  # type: ignore[no-untyped-call]


class Sulking(CartPoleEnv):
    """Whichever makes the file `mark` first never comes back from its hundredth step; the others are well."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self._mark, self._steps = Path(mark), 0

    def step(self, action: Any) -> Any:
        self._steps += 1
        if self._steps == 100:
            with suppress(FileExistsError):
                self._mark.touch(exist_ok=False)
                time.sleep(3600)
        return super().step(action)  # type: ignore[no-untyped-call]


for probe in (Crashing, Stuck, Sulking):
    gymnasium.register(f"{probe.__name__}-v0", f"{__name__}:{probe.__name__}", max_episode_steps=500)
