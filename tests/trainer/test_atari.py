"""The preset `atari`: trained for a few updates on the real emulator, judged against SB3's own, and its extra."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest
import torch as th

from mission_tui.envs.atari import AtariWrapper
from mission_tui.errors import install_words
from mission_tui.fleet.specs.preset import read_preset, resolve
from mission_tui.fleet.specs.spec import Spec
from tests.missing import search_path_without
from tests.trainer.checking.test_preflight import preflight
from tests.trainer.harness import new_run, run_attempt
from tests.trainer.sb3_run import sb3_learned, sb3_vec

PRESET = Path(__file__).parents[2] / "presets" / "atari.toml"
MISSING = [name for name in ("ale_py", "cv2") if find_spec(name) is None]
needs_extra = pytest.mark.skipif(bool(MISSING), reason=f"the `envs` extra is not installed: no {', '.join(MISSING)}")


def atari(**tables: dict[str, Any]) -> Spec:
    """The preset with some keys of its tables changed."""
    preset = read_preset(tomllib.loads(PRESET.read_text(encoding="utf-8")), PRESET)
    spec = msgspec.to_builtins(resolve(preset, lambda name: preset))
    return msgspec.convert({**spec, **{name: spec[name] | keys for name, keys in tables.items()}}, Spec)


@pytest.mark.slow
@needs_extra
@pytest.mark.timeout(120)
@pytest.mark.parametrize("vec", ["inline", "workers"])
def test_the_preset_trains_as_it_does_in_sb3(vec: str, tmp_path: Path) -> None:
    """Three small updates of the shipped settings on two lanes: SB3's parameters, but for rounding of convolutions."""
    from stable_baselines3.common.atari_wrappers import AtariWrapper as Sb3sWrapper
    from stable_baselines3.common.vec_env import VecFrameStack

    env = {"n_envs": 2, "vec": vec, "n_workers": 2 if vec == "workers" else None}
    run = {"total_timesteps": 96, "seed": 3, "device": "cpu"}
    spec = atari(env=env, ppo={"n_steps": 16, "batch_size": 16}, run=run)
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert (ran.exit_code, len(ran.updates())) == (0, 3)
    games = sb3_vec("PongNoFrameskip-v4", 2, Sb3sWrapper)
    stock = sb3_learned(spec, vec=VecFrameStack(games, 4)).policy.state_dict()
    for name, mine in ran.parameters().items():
        th.testing.assert_close(mine, stock[name], rtol=0.0, atol=1e-5)


@needs_extra
@pytest.mark.parametrize("game", ["Breakout", "Pong"])
def test_the_wrapper_is_sb3s_without_torch(game: str) -> None:
    """Step by step over lost lives and new games: the same pictures, rewards and ends."""
    import ale_py  # noqa: F401 - registers the games
    from stable_baselines3.common.atari_wrappers import AtariWrapper as Sb3sWrapper

    ours, theirs = (wrap(gymnasium.make(f"{game}NoFrameskip-v4")) for wrap in (AtariWrapper, Sb3sWrapper))
    assert ours.observation_space == theirs.observation_space
    np.testing.assert_array_equal(ours.reset(seed=5)[0], theirs.reset(seed=5)[0])
    actions, ended = np.random.default_rng(0).integers(0, 4, 400), 0
    for action in actions:
        mine, other = ours.step(action), theirs.step(action)
        np.testing.assert_array_equal(mine[0], other[0])
        assert mine[1:4] == other[1:4]
        if mine[2] or mine[3]:
            ended += 1
            np.testing.assert_array_equal(ours.reset()[0], theirs.reset()[0])
    assert ended >= 5 or game == "Pong"


@needs_extra
def test_a_preflight_names_what_the_policy_will_see() -> None:
    """Four grey frames of 84 x 84, six buttons."""
    here = os.pathsep.join(filter(None, sys.path))
    code, answer, _ = preflight(json.loads(msgspec.json.encode(atari())), here)
    assert (code, answer) == (0, {"ok": True, "obs": "Box(84, 84, 4)", "act": "Discrete(6)"})


@pytest.mark.parametrize("module", ["ale_py", "cv2"])
def test_without_the_extra_one_sentence_says_what_to_install(module: str, tmp_path: Path) -> None:
    """Before anything starts, with the key that asks for it."""
    spec = json.loads(msgspec.json.encode(atari(env={"imports": [module]})))
    code, answer, _ = preflight(spec, search_path_without((module,), tmp_path / "path"))
    assert code == 78
    said = f"env.imports: module '{module}' needs the `envs` extra; {install_words('envs')}"
    assert answer["error"] == said
