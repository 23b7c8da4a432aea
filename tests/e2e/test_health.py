"""The health rules on real trainings, through the command line."""

from __future__ import annotations

import json

import pytest

from tests.shell import Shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SEALED = """
description = "a wall without a gate, and shaping that pays for going back and forth"
[env]
id = "MissionGym-v0"
config = "demo"
n_envs = 32
vec = "native"
[env.kwargs]
shaping = "one_way"
[env.kwargs.overrides]
units = { attackers = ["ground", "ground"] }
rewards = { step_cost = 0.0 }
[env.kwargs.overrides.rules]
physics_hz = 4
time_limit_s = 30
capture_s = 4
early_hold_s = 2
stall_s = 0
[env.kwargs.overrides.world]
width_m = 120
height_m = 120
zone = { centre_m = [80, 60], radius_m = 15, jitter_m = 3 }
spawn = { low_m = [10, 50], high_m = [25, 70] }
obstacles = [{ low_m = [40, 0], high_m = [45, 120] }]
patrols = [{ waypoints_m = [[110, 10], [110, 20]] }]
[ppo]
n_steps = 32
batch_size = 256
n_epochs = 4
learning_rate = 7e-4
net_arch = [32, 32]
[run]
total_timesteps = 100_000
"""


def test_a_run_without_a_way_forward_is_called_a_stall(shared_fleet: Shell) -> None:
    """PPO under `one_way` before a wall learns to go back and forth: critical, with the shaping that ends it."""
    (shared_fleet.cwd / "presets" / "sealed.toml").write_text(SEALED)
    done = shared_fleet("launch", "sealed", "--seed", "3", "--wait", timeout_s=240)
    assert done.returncode == 0, done.stderr
    found = {it["rule"]: it for it in shared_fleet.json("findings", "@last")["findings"]}
    assert (found["stall"]["severity"], found["stall"]["state"]) == ("critical", "open")
    assert found["stall"]["advice_set"] == ['env.kwargs.shaping="best_so_far"']
    assert "outcomes" in found


def test_judging_again_from_the_files_gives_the_same_incidents(shared_fleet: Shell) -> None:
    """A sick run's findings as they came, as `--replay` finds them, and as `judge` does on the folder."""
    sick = ("--set", "ppo.learning_rate=0.03", "--set", "ppo.n_epochs=20", "--set", "run.total_timesteps=20_000")
    done = shared_fleet("launch", "tiny", "--seed", "1", *sick, "--wait", timeout_s=120)
    assert done.returncode == 0, done.stderr
    live = shared_fleet.json("findings", "@last")["findings"]
    assert "kl-persistent" in {it["rule"] for it in live}
    replayed = shared_fleet.json("findings", "@last", "--replay")["findings"]
    run = shared_fleet.root / shared_fleet.view("@last")["id"]
    judged = json.loads(shared_fleet.typed("judge", "--json", str(run)).stdout)["findings"]
    known = [
        [(it["id"], it["severity"], it["state"], it["last_update"], it["sentence"]) for it in each]
        for each in (live, replayed, judged)
    ]
    assert sorted(known[0]) == sorted(known[1]) == sorted(known[2])
