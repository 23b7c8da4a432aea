"""Run folders as the RL zoo publishes them, made here by stock SB3: taken over whole, and trained on as SB3 does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stable_baselines3
import torch as th
from msgspec.structs import replace
from stable_baselines3.common.vec_env import VecNormalize

from mission_tui.records.runs.layout import RunDir
from mission_tui.records.sb3_run.folder import find_folder, find_settings
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import equal, new_run, run_attempt
from tests.trainer.sb3_run import sb3_learned, sb3_vec
from tests.trainer.test_import_run import imported, spec_of
from tests.trainer.zoo_folder import MOUNTAIN_CAR, write_zoo_folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mountain_car(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The settings of the zoo's agent for MountainCarContinuous-v0, after 1,000 steps: an episode is 999."""
    logs = tmp_path_factory.mktemp("ppo")
    return write_zoo_folder(logs, "MountainCarContinuous-v0", MOUNTAIN_CAR, steps=1000, normalize=True, episodes=1)[0]


def test_a_rollout_smaller_than_the_minibatch_is_imported(mountain_car: Path, tmp_path: Path) -> None:
    """Rollouts of 8 with minibatches of 256: a note and no refusal; weights, gSDE and statistics are SB3's."""
    found = find_settings(find_folder(mountain_car), (), zips=True)
    (note,) = [it for it in found.notes if "batch_size" in it]
    assert note.startswith("batch_size = 256 is larger than the rollout of 8, which SB3 then takes as one minibatch")
    spec = spec_of(mountain_car)
    assert (spec.ppo.n_steps, spec.ppo.batch_size, spec.ppo.use_sde) == (8, 8, True)
    assert (spec.run.seed, spec.run.total_timesteps) == (3, 1000)
    said = imported(mountain_car, tmp_path / "work")
    assert "result" in said, said
    boundary = load_checkpoint(RunDir(tmp_path / "work").checkpoints / "000001000").boundary
    stock = stable_baselines3.PPO.load(mountain_car / "MountainCarContinuous-v0.zip", device="cpu")
    assert equal(dict(stock.policy.named_parameters()), boundary.parameters)
    ended = [float(line.split(",")[0]) for line in (mountain_car / "0.monitor.csv").read_text().splitlines()[2:]]
    assert ended
    assert [it[0] for it in boundary.state["episodes"]["info"]] == ended[-100:]
    inner = mountain_car / "MountainCarContinuous-v0" / "vecnormalize.pkl"
    normalizer: Any = VecNormalize.load(str(inner), sb3_vec("MountainCarContinuous-v0", 1))
    np.testing.assert_array_equal(normalizer.obs_rms.mean, boundary.state["normalizer"]["obs"]["array"]["mean"])


@pytest.mark.parametrize("engine", ["fast", "stock"])
def test_a_rollout_smaller_than_the_minibatch_is_trained_on_as_in_sb3(
    engine: str, mountain_car: Path, tmp_path: Path
) -> None:
    """Twenty updates of one truncated minibatch each: SB3's parameters with its 256, ours with what was taken over."""
    spec = spec_of(mountain_car)
    run = replace(spec.run, total_timesteps=160, device="cpu", engine=engine)
    spec = replace(spec, run=run, env=replace(spec.env, vec="inline"))
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert (ran.exit_code, len(ran.updates())) == (0, 20)
    vec = VecNormalize(sb3_vec(spec.env.id, 1), gamma=spec.ppo.gamma)
    stock = sb3_learned(replace(spec, ppo=replace(spec.ppo, batch_size=256)), vec=vec).policy.state_dict()
    for name, mine in ran.parameters().items():
        th.testing.assert_close(mine, stock[name], rtol=0.0, atol=1e-5 if engine == "fast" else 0.0)


def test_a_folder_of_another_task_is_refused_with_both_shapes(mountain_car: Path, tmp_path: Path) -> None:
    """As the zoo's Ant-v3, whose successor observes less: the file is named, what it fits, and what is here."""
    spec = spec_of(mountain_car)
    said = imported(mountain_car, tmp_path / "work", replace(spec, env=replace(spec.env, id="Pendulum-v1")))
    assert said["error"].endswith(
        "vecnormalize.pkl: the statistics are of observations of shape [2], and env.id with its env.wrappers has [3]: "
        "they belong to another task"
    )
