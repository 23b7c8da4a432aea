"""A run whose environment needs a secret, from its launch to evaluation and export, over supervisors that forget it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.shell import Shell

pytestmark = pytest.mark.slow


KEY = "KEYED_ENV_API_KEY"
MODULE = f"""
import os
import gymnasium

class Keyed(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.key = os.environ["{KEY}"]
        self.age = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.observation_space.sample() * 0, {{}}

    def step(self, action):
        self.age += 1
        return self.observation_space.sample() * 0, float(action), self.age >= 20, False, {{}}

    def get_state(self):
        return {{"age": 0}}

    def set_state(self, state):
        self.age = state["age"]

gymnasium.register("Keyed-v0", Keyed)
"""


@pytest.mark.timeout(300)
def test_a_key_of_an_env_file_is_read_again_or_taken_from_who_asks(fleet: Shell) -> None:
    """Evaluated with the file; without it refused by name, and with the key exported played; exported with neither.

    At the launch and at the resume it is said that its state is not restored by what it saves.
    """
    (fleet.cwd / "keyed.py").write_text(MODULE)
    file = fleet.cwd / "k.env"
    file.write_text(f"{KEY}=hunter2\n")
    words = ["env.id=Keyed-v0", "env.imports=['keyed']", "run.total_timesteps=256", "run.env_file=k.env"]
    settings = [word for setting in words for word in ("--set", setting)]
    launched = fleet("launch", "tiny", "--name", "keyed", *settings, timeout_s=90)
    assert launched.returncode == 0, launched.stderr
    assert "its get_state leaves out 'age', which changes within an episode" in launched.stderr + launched.stdout
    assert fleet.typed("wait", "keyed").returncode == 0
    fleet.typed("supervisor", "stop")
    resumed = fleet.typed("resume", "keyed", "--set", "run.total_timesteps=512")
    assert resumed.returncode == 0, resumed.stderr
    assert "environments: exact -> continued" in resumed.stdout + resumed.stderr
    assert fleet.typed("wait", "keyed").returncode == 0
    played = fleet("evaluate", "keyed", "--episodes", "2", timeout_s=90)
    assert played.returncode == 0, played.stderr
    file.unlink()
    fleet.typed("supervisor", "stop")
    # Nothing is launched any more.
    fleet.environ["MISSION_TUI_PRELOAD"] = "0"
    refused = fleet("evaluate", "keyed", "--episodes", "2", timeout_s=90)
    assert refused.returncode == 78
    assert "run.env_file: cannot read" in refused.stderr
    assert KEY in refused.stderr
    mine = replace(fleet, environ=fleet.environ | {KEY: "hunter3"})
    assert mine("evaluate", "keyed", "--episodes", "2", timeout_s=90).returncode == 0
    fleet.typed("supervisor", "stop")
    target = fleet.cwd / "keyed.zip"
    assert fleet.typed("export", "keyed", str(target)).returncode == 0
    assert target.is_file()
    found = [path for path in Path(fleet.root).rglob("*") if path.is_file() and b"hunter" in path.read_bytes()]
    assert found == []
