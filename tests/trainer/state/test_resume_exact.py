"""A resume on the CPU is the run that never stopped: all that is learned, drawn, counted and recorded, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import Ran, equal, new_run, run_attempt, spec_with, stop_in

pytestmark = pytest.mark.slow


NORMALIZED = {"normalize": True}
SCHEDULED = {"learning_rate": {"start": 1e-3, "end": 1e-5}, "clip_range": {"start": 0.2, "end": 0.1}}
TASKS: dict[str, dict[str, Any]] = {
    "mission": {"id": "MissionGym-v0", "config": "demo", **NORMALIZED},
    "cartpole": {"id": "CartPole-v1", **NORMALIZED},
    "acrobot": {"id": "Acrobot-v1", **NORMALIZED},
    "mountain-car": {"id": "MountainCar-v0", **NORMALIZED},
    "pendulum": {"id": "Pendulum-v1", **NORMALIZED},
}
LIVED_IN = [
    *((task, vec, "fast") for task in TASKS for vec in ("inline", "workers")),
    ("mission", "native", "fast"),
    ("cartpole", "inline", "stock"),
]


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a state with its path, without what a clock said."""
    match tree:
        case dict():
            for key, part in tree.items():
                if f"{path}/{key}" != "/trained_s":
                    yield from leaves(part, f"{path}/{key}")
        case list():
            # An episode is its return, its length and when it ended.
            parts = tree[:2] if path.startswith("/episodes/info/") else tree
            for index, part in enumerate(parts):
                yield from leaves(part, f"{path}/{index}")
        case _:
            yield path, tree


def curves(ran: Ran) -> list[tuple[Any, ...]]:
    """What charts are drawn from, update by update: metrics as recorded and every episode."""
    return [(row.update, row.timesteps, row.metrics, row.episodes) for row in ran.updates()]


@pytest.mark.parametrize(("task", "vec", "engine"), LIVED_IN, ids=["-".join(case) for case in LIVED_IN])
def test_everything_is_equal(task: str, vec: str, engine: str, tmp_path: Path) -> None:
    """Parameters, Adam's moments and steps, normaliser, generators, environments, schedules, counters and curves."""
    workers = {"n_workers": 2} if vec == "workers" else {}
    spec = spec_with(env=TASKS[task] | {"vec": vec} | workers, ppo=SCHEDULED, run={"engine": engine})
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "resumed", spec)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    resumed = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert resumed.started().exact
    one, other = (
        load_checkpoint(ran.run_dir.checkpoints / str(ran.ended().checkpoint)).boundary for ran in (whole, resumed)
    )
    assert (one.update, one.timesteps) == (other.update, other.timesteps) == (6, 384)
    assert equal(one.parameters, other.parameters)
    assert one.moments
    assert equal(one.moments, other.moments)
    left, right = dict(leaves(one.state)), dict(leaves(other.state))
    assert left.keys() == right.keys()
    assert {path.split("/")[1] for path in left} >= {"random", "normalizer", "envs", "last_obs", "n_updates"}
    differing = [path for path in left if not np.array_equal(left[path], right[path])]
    assert differing == []
    assert curves(whole) == curves(resumed)
