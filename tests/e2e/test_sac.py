"""SAC on Pendulum with the real trainer: started by a key, stopped, resumed, exported, judged."""

from __future__ import annotations

import json
import sys

import pytest

from tests.e2e.terminal import Terminal
from tests.shell import Shell
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

PRESET = """
description = "SAC, small enough for a test"
key = "7"
algo = "sac"
[env]
id = "Pendulum-v1"
[sac]
net_arch = [16, 16]
buffer_size = 5000
train_freq = 25
batch_size = 32
[run]
total_timesteps = 2000
seed = 1
device = "cpu"
"""


def test_sac_is_started_by_a_key_stopped_resumed_exported_and_judged(fleet: Shell) -> None:
    """Its replay buffer comes along, so the resume is exact; stock SB3 opens the export; SAC's rules judge the rows."""
    (fleet.cwd / ".config" / "mission-tui" / "presets" / "small-sac.toml").write_text(PRESET)
    terminal = Terminal([sys.executable, "-m", "mission_tui"], cwd=fleet.cwd, environ=fleet.environ, columns=120)
    try:
        terminal.shows("No runs yet", 40)
        terminal.press("7")
        terminal.shows("small-sac-", 40)
        (run,) = until(lambda: [it["id"] for it in fleet.views() if it["update"]], 200, "SAC does an update")
        terminal.press("s")
        terminal.shows("stopped", 100)
    finally:
        terminal.end()
    assert fleet.view(run)["outcome"] == "stopped"
    assert list((fleet.root / run / "checkpoints").glob("0*/replay.npz"))
    assert fleet.typed("resume", run).returncode == 0
    until(lambda: fleet.view(run)["outcome"] == "finished", 200, "it goes on to its end")
    started = [row for row in fleet.rows(run) if row["kind"] == "start"]
    assert [row.get("exact", False) for row in started] == [False, True]
    updates = [row for row in fleet.rows(run) if row["kind"] == "update"]
    assert {"train/critic_loss", "train/ent_coef", "rollout/ep_rew_mean"} <= updates[-1]["metrics"].keys()
    exported = fleet("export", run, str(fleet.cwd / "sac.zip"), timeout_s=60)
    assert exported.returncode == 0, exported.stderr
    from stable_baselines3 import SAC

    model = SAC.load(fleet.cwd / "sac.zip", device="cpu")
    assert model.num_timesteps == 2000
    judged = fleet.typed("judge", str(fleet.root / run / "metrics.jsonl"), "--json")
    assert json.loads(judged.stdout)["algorithm"] == "SAC"
