"""What is known of an environment's task before it is trained, and that the start of an attempt says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mission_tui.fleet.specs.spec import EnvSpec
from mission_tui.trainer.named_parts import Registration, registration_of
from tests.trainer.harness import PROBES, new_run, run_attempt, spec_with


@pytest.mark.parametrize(
    ("env", "threshold", "steps"),
    [
        ({"id": "CartPole-v1"}, 475.0, 500),
        ({"id": "CartPole-v1", "kwargs": {"max_episode_steps": 50}}, 475.0, 50),
        ({"id": "CartPole-v1", "kwargs": {"max_episode_steps": -1}}, 475.0, None),
        ({"id": "Pendulum-v1"}, None, 200),
        (
            {"id": "MissionGym-v0", "config": "demo", "kwargs": {"overrides": {"rules": {"time_limit_s": 30}}}},
            None,
            120,
        ),
        ({"id": "Walk-v0", **PROBES}, None, None),
    ],
)
def test_registration(env: dict[str, Any], threshold: float | None, steps: int | None) -> None:
    """Threshold and limit are the registration's, the preset's own arguments win, and MissionGym counts decisions."""
    assert registration_of(EnvSpec(**env), None) == Registration(threshold, steps)


def test_an_attempt_begins_by_saying_it(tmp_path: Path) -> None:
    """The start record carries both numbers, for a run that is resumed as for a new one."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": 64}))
    ran = run_attempt(run_dir)
    assert (ran.started().reward_threshold, ran.started().max_episode_steps) == (475.0, 500)
