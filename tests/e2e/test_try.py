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
vec = "inline"
[ppo]
n_steps = 64
batch_size = 128
n_epochs = 8
learning_rate = {rate}
[run]
total_timesteps = {steps}
seed = 1
threads = 1
"""


def trained(fleet: Shell, name: str, rate: float, steps: int, *words: str) -> str:
    """An ended run of CartPole, launched with these further words; its id."""
    preset = Path(fleet.cwd) / f"{name}.toml"
    preset.write_text(PRESET.format(rate=rate, steps=steps), encoding="utf-8")
    done = fleet("launch", "--preset", str(preset), "--name", name, *words, "--wait", timeout_s=240.0)
    assert done.returncode == 0, done.stderr
    run: str = fleet.view(name)["id"]
    return run


def verdict(fleet: Shell, *words: str) -> dict[str, Any]:
    """What a trial says once it is known."""
    document = fleet.json("try", *words, "--wait", timeout_s=500.0)
    said: dict[str, Any] = document["trial"]["verdict"]
    return said


def test_the_advice_for_a_rate_fifty_times_too_high_helps(shared_fleet: Shell) -> None:
    """With 0.05 it is in trouble before its first checkpoint, so the branches begin at the start, and train as long as
    it did: with the rate that the finding names they come far in that time.
    """
    # In 16 gradient steps an epoch all controls stay at 9, where the advised come to 190 to 255. In 4 some come
    # to 340 by themselves, and the answer may be that four pairs are too noisy.
    trained(shared_fleet, "sick", 0.05, 16_384, "--set", "ppo.batch_size=32")
    trial = shared_fleet.json("try", "sick", "--wait", timeout_s=500.0)["trial"]
    assert (trial["checkpoint"], trial["from_update"], trial["from_timesteps"]) == ("", 0, 0)
    assert trial["verdict"]["says"] == "helps", trial["verdict"]
    assert trial["verdict"]["low"] > 0


def test_a_healthy_run_is_hurt_by_half_and_left_alone_by_nothing(shared_fleet: Shell) -> None:
    """0.5 ruins what was learned; settings that it has already leave both branches of each pair the same to the bit."""
    run = trained(shared_fleet, "healthy", 0.001, 20_480)
    hurt = verdict(shared_fleet, run, "--set", "ppo.learning_rate=0.5", "--budget", "8u", "--seeds", "3")
    assert hurt["says"] == "hurts", hurt
    assert hurt["high"] < 0
    same = verdict(shared_fleet, run, "--set", "ppo.gae_lambda=0.95", "--budget", "4u", "--seeds", "3")
    assert (same["says"], same["identical"], same["low"], same["high"]) == ("no difference", True, 0.0, 0.0)
    document = shared_fleet.json("try", run, "--show")
    assert document["trial"]["number"] == 2
