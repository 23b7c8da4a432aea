"""What `EvalCallback` left, whatever its arrays hold: evaluations of ours, or a sentence on why there are none."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded
from mission_tui.fleet.specs.preset import from_tables
from mission_tui.fleet.specs.spec import EnvSpec, Part, Spec
from mission_tui.records.jsonl import read_all
from mission_tui.trainer.import_run import _frames_a_step, evaluations_of, main
from tests.fleet.recorded import update
from tests.trainer.forked import forked

ODD: dict[str, dict[str, Any]] = {
    "steps that are one number": {"timesteps": 5, "results": [[1.0]]},
    "returns without a list": {"timesteps": [5], "results": [1.0]},
    "no return": {"timesteps": [5], "results": np.zeros((1, 0))},
    "words": {"timesteps": ["soon"], "results": [[1.0]]},
    "objects": {"timesteps": [5], "results": np.array([[1.0], [1.0, 2.0]], dtype=object)},
    "no steps": {"results": [[1.0]]},
}


@pytest.mark.parametrize("arrays", ODD.values(), ids=ODD.keys())
def test_a_file_of_other_arrays_is_left_out(arrays: dict[str, Any], tmp_path: Path) -> None:
    """None is an error of the import: its name is in the notes."""
    path = tmp_path / "evaluations.npz"
    notes: list[str] = []
    np.savez(path, **arrays)
    assert evaluations_of(path, (update(1),), notes) == []
    assert [note.startswith("evaluations.npz was left out: ") for note in notes] == [True]


def test_an_array_that_boasts_is_left_out(tmp_path: Path) -> None:
    """Its header says terabytes, behind which there is nothing: the import goes on without it."""
    path, notes, header = tmp_path / "evaluations.npz", list[str](), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("timesteps.npy", header.getvalue() + bytes(80))
    assert evaluations_of(path, (update(1),), notes) == []
    assert [note.startswith("evaluations.npz was left out: ") for note in notes] == [True]


def test_steps_that_are_none_are_passed_over(tmp_path: Path) -> None:
    """Negative ones and NaN have no place among the updates, and are counted; NaN returns stay what they are."""
    path, notes = tmp_path / "evaluations.npz", list[str]()
    np.savez(path, timesteps=[-5.0, np.nan, 1e300, 4096.0], results=[[1.0]] * 3 + [[np.nan]])
    assert [(it.timesteps, it.mean) for it in evaluations_of(path, (update(1),), notes)] == [(4096, "nan")]
    assert notes == ["evaluations.npz: 3 of its evaluations stand at no number of steps, and were left out"]


@pytest.mark.parametrize(
    ("wrapper", "frames"),
    [
        ("mission_tui.envs.atari:AtariWrapper", 4),
        (Part(cls="stable_baselines3.common.atari_wrappers:AtariWrapper", kwargs={"frame_skip": 2}), 2),
        (Part(cls="mission_tui.envs.atari:AtariWrapper", kwargs={"frame_skip": "many"}), 1),
        ("my_envs:Wrapper", 1),
    ],
)
def test_the_wrapper_says_how_many_frames_a_step_has(wrapper: str | Part, frames: int) -> None:
    """Of Atari's own default, or what the settings say; one everywhere else."""
    spec = Spec(preset="x", env=EnvSpec(id="PongNoFrameskip-v4", wrappers=(wrapper,)))
    assert _frames_a_step(spec) == frames


def test_neither_lost_rows_nor_a_later_copy_are_a_silence(tmp_path: Path) -> None:
    """Steps show that the training went on where a third of the rows is gone; a file that was copied a year later
    does not show that it went on until then; and who goes on from an earlier model the next day did not train that
    night. The same time with one row's steps is a silence.
    """
    spec = from_tables({"preset": "x", "env": {"id": "CartPole-v1"}, "run": {"total_timesteps": 300_000}}, "x")
    head = "time/total_timesteps,rollout/ep_rew_mean,train/approx_kl,wall_time\n"
    rows = [f"{k * 2048},{k},0.01,{1e9 + k * 9}\n" for k in range(1, 99)]
    stood = [f"{k * 2048},{k},0.01,{1e9 + k * 9 + 270 * (k > 30)}\n" for k in range(1, 69)]
    again = rows[:60] + [f"{k * 2048},{k},0.01,{1e9 + k * 9 + 40_000}\n" for k in range(51, 99)]
    found = {}
    for name, table in (("gap", rows[:30] + rows[60:]), ("stood", stood), ("again", again)):
        folder, work = tmp_path / name, tmp_path / f"{name}-work"
        folder.mkdir()
        work.mkdir()
        (folder / "progress.csv").write_text(head + "".join(table))
        os.utime(folder / "progress.csv", (1e9 + 3e7, 1e9 + 3e7))
        _, answered, _ = forked(main, [str(folder), str(work), "--run", "new"], msgspec.json.encode(spec))
        found[name] = [it["rule"] for it in json.loads(answered.splitlines()[-1])["result"]["findings"]]
        end = read_all(work / "metrics.jsonl", MetricRecord)[0][-1]
        assert isinstance(end, TrainingEnded)
        assert end.t == float(table[-1].split(",")[-1])
    assert found == {"gap": [], "stood": ["hang"], "again": []}
