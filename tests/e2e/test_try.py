"""`try` with real trainings: what helps CartPole, what hurts it, and what makes no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PRESET = """description = "CartPole, quickly"
[env]
id = "CartPole-v1"
n_envs = 8
[ppo]
n_steps = 64
batch_size = 128
n_epochs = 8
learning_rate = {rate}
[run]
total_timesteps = {steps}
seed = {seed}
threads = 1
"""


def trained(fleet: Shell, name: str, rate: float, steps: int, seed: int = 1) -> str:
    """An ended run of CartPole; its id."""
    preset = Path(fleet.cwd) / f"{name}.toml"
    preset.write_text(PRESET.format(rate=rate, steps=steps, seed=seed), encoding="utf-8")
    done = fleet("launch", "--preset", str(preset), "--name", name, "--wait", timeout_s=240.0)
    assert done.returncode == 0, done.stderr
    run: str = fleet.view(name)["id"]
    return run


def verdict(fleet: Shell, *words: str) -> dict[str, Any]:
    """What a trial says once it is known."""
    document = fleet.json("try", *words, "--wait", timeout_s=500.0)
    said: dict[str, Any] = document["trial"]["verdict"]
    return said


def test_the_advice_for_a_rate_fifty_times_too_high_helps(fleet: Shell) -> None:
    """The preset with 0.05 is in trouble before its first checkpoint, so the branches begin at the start, and train as
    long as it did: with the rate that the finding names they solve the task.
    """
    words = ("--set", "ppo.learning_rate=0.05", "--set", "run.total_timesteps=60000", "--seed", "1", "--name", "sick")
    done = fleet("launch", "cartpole", *words, "--wait", timeout_s=240.0)
    assert done.returncode == 0, done.stderr
    # Controls scatter from 9 to 400: three pairs would now and then be too noisy.
    trial = fleet.json("try", "sick", "--seeds", "4", "--wait", timeout_s=500.0)["trial"]
    assert (trial["checkpoint"], trial["from_update"], trial["from_timesteps"]) == ("", 0, 0)
    assert trial["verdict"]["says"] == "helps", trial["verdict"]
    assert trial["verdict"]["low"] > 0


def test_a_healthy_run_is_hurt_by_half_and_left_alone_by_nothing(fleet: Shell) -> None:
    """0.5 ruins what was learned; settings that it has already leave both branches of each pair the same to the bit."""
    run = trained(fleet, "healthy", 0.001, 40_960)
    hurt = verdict(fleet, run, "--set", "ppo.learning_rate=0.5", "--budget", "16u")
    assert hurt["says"] == "hurts", hurt
    assert hurt["high"] < 0
    same = verdict(fleet, run, "--set", "ppo.gae_lambda=0.95", "--budget", "24u")
    assert (same["says"], same["identical"], same["low"], same["high"]) == ("no difference", True, 0.0, 0.0)
    document = fleet.json("try", run, "--show")
    assert document["trial"]["number"] == 2
