"""A folder that stock SB3 left becomes rows, checkpoints and findings of ours, read by a short process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import msgspec
import numpy as np
import pytest
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from mission_tui.fleet.events.metrics import EvaluationDone, MetricRecord, TrainingEnded, UpdateDone
from mission_tui.fleet.specs.preset import read_preset, resolve
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.layout import RunDir
from mission_tui.records.sb3_run.folder import find_folder, find_settings, updates_in_table
from mission_tui.trainer.import_run import main
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.forked import forked
from tests.trainer.harness import equal
from tests.trainer.sb3_folder import write_sb3_folder

pytestmark = pytest.mark.slow


def spec_of(folder: Path) -> Spec:
    """The spec that the folder's own words give."""
    found = find_folder(folder)
    said = find_settings(found, updates_in_table(found)[0], zips=True)
    preset = read_preset({"name": "imported", **said.tables}, said.source)
    return resolve(preset, lambda _: preset)


def imported(folder: Path, into: Path, spec: Spec | None = None, *, anew: bool = False) -> dict[str, Any]:
    """The last line of the short process, a fork of the test or started anew; without `spec` the folder's own words
    count.
    """
    into.mkdir()
    words = [str(folder), str(into), "--run", "new", "--models"]
    asked = msgspec.json.encode(spec or spec_of(folder))
    if anew:
        argv = [sys.executable, "-m", "mission_tui.trainer.import_run", *words]
        answered = subprocess.run(argv, input=asked, capture_output=True, check=False).stdout
    else:
        _, answered, _ = forked(main, words, asked)
    said: dict[str, Any] = json.loads(answered.splitlines()[-1])
    return said


def test_models_come_with_the_statistics_of_their_step(tmp_path: Path) -> None:
    """Weights, Adam's moments and normaliser equal what stock SB3 loads, so that the same actions follow; rows say the
    rest. A zip that was cut short beside them is left out, and named.
    """
    folder = write_sb3_folder(tmp_path / "run")
    (folder / "cut.zip").write_bytes((folder / "model.zip").read_bytes()[:9000])
    said = imported(folder, tmp_path / "work", anew=True)
    assert "result" in said, said
    (left_out,) = [note for note in said["result"]["notes"] if note.startswith("left out: ")]
    assert "cut.zip is not a zip that Stable-Baselines3 writes" in left_out
    work = RunDir(tmp_path / "work")
    records, damage = read_all(work.metrics, MetricRecord)
    assert (damage, [row.seq for row in records]) == ([], list(range(1, len(records) + 1)))
    updates = [row for row in records if isinstance(row, UpdateDone)]
    assert [(row.update, row.timesteps) for row in updates] == [(2, 256), (3, 384), (4, 512)]
    assert [(row.update, row.mean) for row in records if isinstance(row, EvaluationDone)] == [(2, -1000), (4, -800)]
    assert isinstance(records[-1], TrainingEnded)
    assert (records[-1].how, records[-1].checkpoint) == ("finished", "000000512")
    for name, file, beside in (
        ("000000256", "rl_model_256_steps.zip", "rl_model_vecnormalize_256_steps.pkl"),
        ("000000512", "model.zip", "vecnormalize.pkl"),
    ):
        boundary = load_checkpoint(work.checkpoints / name).boundary
        stock = stable_baselines3.PPO.load(folder / file, device="cpu")
        assert equal(dict(stock.policy.named_parameters()), boundary.parameters)
        assert (boundary.update, boundary.timesteps) == (int(name) // 128, int(name))
        vec = DummyVecEnv([lambda: gymnasium.make("Pendulum-v1")])
        normalizer: Any = VecNormalize.load(str(folder / beside), vec)
        kept = boundary.state["normalizer"]
        np.testing.assert_array_equal(normalizer.obs_rms.mean, kept["obs"]["array"]["mean"])
        np.testing.assert_array_equal(normalizer.obs_rms.var, kept["obs"]["array"]["var"])
        np.testing.assert_array_equal(normalizer.ret_rms.var, kept["ret"]["var"])
        assert normalizer.obs_rms.count == kept["obs"]["array"]["count"]
