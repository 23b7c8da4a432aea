"""Env workers and their trainer under SIGSTOP: the time that nobody lived through is nobody's hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.waiting import until

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[3]
STEPPING = """
import sys
import gymnasium, numpy as np
from mission_tui.envs.channel import EnvRecipe
from mission_tui.trainer.vec_env import WorkersVecEnv
import tests.trainer.worker_envs

made = gymnasium.make("Obedient-v0")
recipe = EnvRecipe("Obedient-v0", {}, ("tests.trainer.worker_envs",))
vec = WorkersVecEnv(recipe, 2, (made.observation_space, made.action_space), 2, floor_s=1.5)
vec.reset()
while not sys.stdin.closed:
    vec.step(np.zeros(2, dtype=np.int64))
    print(".", flush=True)
"""


def test_a_freeze_that_lasts_longer_than_their_patience_breaks_nothing() -> None:
    """Workers that have 1.5 s for a step go on after 4 s of SIGSTOP, also where they wake later than their trainer."""
    trainer = subprocess.Popen(
        [sys.executable, "-c", STEPPING], stdout=subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert trainer.stdout is not None
    output = trainer.stdout
    try:
        for _ in range(20):
            assert output.readline()
        family = [psutil.Process(trainer.pid), *psutil.Process(trainer.pid).children()]
        assert len(family) == 3
        for process in reversed(family):  # so that the trainer stands while it waits for an answer
            process.suspend()
        passes(4.0)
        os.set_blocking(output.fileno(), False)
        while output.read(1 << 16):
            pass
        family[0].resume()
        passes(0.6)
        for process in family[1:]:
            process.resume()
        seen = bytearray()
        until(lambda: len(seen.__iadd__(output.read(1 << 16) or b"")) > 200, what="it steps again")
        assert trainer.poll() is None
    finally:
        trainer.send_signal(signal.SIGKILL)
        trainer.wait()
        output.close()


def passes(seconds: float) -> None:
    """Time that is itself what is tested."""
    over = time.monotonic() + seconds
    until(lambda: time.monotonic() > over)
