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


def test_the_advice_for_a_rate_a_hundred_times_too_high_helps(fleet: Shell) -> None:
    """A run with 0.05 has learned little that lasts; the finding names a rate with which it learns.

    Of eight seeds about four say so with this budget; others are too noisy, because such a run recovers at times, or
    have died so early that the last checkpoint is dead too. Which they are, processors round differently.
    """
    said: dict[str, Any] = {}
    for seed in (5, 7, 2):
        run = trained(fleet, f"sick-{seed}", 0.05, 10_240, seed=seed)
        said = verdict(fleet, run, "--budget", "60u", "--seeds", "4")
        assert said["says"] != "hurts", said
        if said["says"] == "helps":
            break
    assert said["says"] == "helps", said
    assert said["low"] > 0


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
