"""TensorBoard's own reader sees the attempts of a run as one curve."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.harness import new_run, run_attempt, spec_with
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("tensorboard") is None, reason="the tensorboard extra is not installed"
)


# What protobuf's own extension does is nobody's fault here.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_attempts_are_one_curve(tmp_path: Path) -> None:
    """Points that a resume from an earlier checkpoint took back are gone, and each step has one point, the newest."""
    from tensorboard.backend.event_processing import event_accumulator

    spec = spec_with(keep={"checkpoint": {"every_steps": 64, "last": 10}})
    run_dir = new_run(tmp_path / "run", spec)
    run_attempt(run_dir)
    # TensorBoard reads files in the order of their names, which begin with the second.
    (first,) = run_dir.path.glob("events.out.tfevents.*")
    until(lambda: time.time() >= int(first.name.split(".")[3]) + 1)
    again = run_attempt(run_dir, 2, "000000128")
    read: Any = event_accumulator.EventAccumulator(str(run_dir.path))
    read.Reload()
    points = read.Scalars("train/approx_kl")
    assert [point.step for point in points] == [64 * update for update in range(1, 7)]
    newest = {row.timesteps: float(row.metrics["train/approx_kl"]) for row in again.updates()}
    assert [point.value for point in points] == pytest.approx([newest[point.step] for point in points])
    assert len(list(run_dir.path.glob("events.out.tfevents.*"))) == 2
