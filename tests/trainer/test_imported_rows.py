"""What `EvalCallback` left, whatever its arrays hold: evaluations of ours, or a sentence on why there are none."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.fleet.specs.spec import EnvSpec, Part, Spec
from mission_tui.trainer.import_run import _frames_a_step, evaluations_of
from tests.fleet.recorded import update

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
