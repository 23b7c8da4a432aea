"""Stopping and going on: nothing is lost, and where environments can be saved nothing is even different."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.building import effective
from tests.trainer.harness import PROBES, Countdown, Ran, equal, new_run, run_attempt, spec_with, stop_in

SCHEDULED = {"learning_rate": {"start": 1e-3, "end": 1e-5}, "clip_range": {"start": 0.2, "end": 0.1}}

SAVABLE: dict[str, dict[str, Any]] = {
    "cartpole with schedules": {"ppo": SCHEDULED},
    "acrobot": {"env": {"id": "Acrobot-v1"}},
    "mountain car normalised": {"env": {"id": "MountainCar-v0", "normalize": True}},
    "pendulum with gSDE": {"env": {"id": "Pendulum-v1"}, "ppo": {"use_sde": True, "sde_sample_freq": 4}},
    "pendulum with target_kl": {"env": {"id": "Pendulum-v1", "normalize": {"obs": True}}, "ppo": {"target_kl": 1e-4}},
    "mission inline": {"env": {"id": "MissionGym-v0", "config": "demo"}},
    "mission native": {"env": {"id": "MissionGym-v0", "vec": "native", "normalize": True}},
}


def stopped_and_resumed(run_dir: RunDir, phase: str, update: int) -> Ran:
    """Attempt 1 stopped in `phase` after `update` updates, then attempt 2 to the end."""
    first = run_attempt(run_dir, hook=stop_in(phase, update))
    assert first.exit_code == 0
    assert first.ended().how == "stopped"
    return run_attempt(run_dir, 2, first.ended().checkpoint)


@pytest.mark.slow
@pytest.mark.parametrize("phase", ["rollout", "update"])
@pytest.mark.parametrize("tables", SAVABLE.values(), ids=SAVABLE.keys())
def test_a_stopped_and_resumed_run_equals_one_that_never_stopped(
    tables: dict[str, Any], phase: str, tmp_path: Path
) -> None:
    """Parameters and the last update's metrics are equal bit for bit, and the record says so."""
    spec = spec_with(**tables)
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    resumed = stopped_and_resumed(new_run(tmp_path / "resumed", spec), phase, 3)
    assert resumed.started().exact
    assert resumed.started().from_update == 3
    assert equal(resumed.parameters(), whole.parameters())
    assert resumed.updates()[-1].metrics == whole.updates()[-1].metrics
    assert [row.update for row in resumed.updates()] == [1, 2, 3, 4, 5, 6]
    assert resumed.updates()[-1].timesteps == whole.updates()[-1].timesteps


def test_a_stop_in_the_middle_of_an_update_drops_what_it_has_changed(tmp_path: Path) -> None:
    """After two of its four minibatches the update is given up; the checkpoint is of the boundary before, exactly."""
    spec = spec_with(ppo=SCHEDULED)
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "resumed", spec)
    countdown = Countdown(update=3, looks=3)
    first = run_attempt(run_dir, hook=countdown.watch, orders=countdown)
    assert (first.ended().how, first.ended().checkpoint) == ("stopped", "000000192")
    assert [row.update for row in first.updates()] == [1, 2, 3]
    second = run_attempt(run_dir, 2, "000000192")
    assert second.started().exact
    assert equal(second.parameters(), whole.parameters())


def test_two_resumes_are_as_exact_as_one(tmp_path: Path) -> None:
    """Nothing is worn off by stopping again."""
    spec = spec_with(ppo=SCHEDULED)
    whole = run_attempt(new_run(tmp_path / "whole", spec))
    run_dir = new_run(tmp_path / "resumed", spec)
    first = run_attempt(run_dir, hook=stop_in("update", 2))
    second = run_attempt(run_dir, 2, first.ended().checkpoint, hook=stop_in("rollout", 4))
    third = run_attempt(run_dir, 3, second.ended().checkpoint)
    assert third.started().exact
    assert equal(third.parameters(), whole.parameters())


def test_going_back_to_an_earlier_checkpoint_repeats_the_same_numbers(tmp_path: Path) -> None:
    """A resume from update 2 of a run that had reached 6 says from where it counts, and reaches the same end."""
    run_dir = new_run(tmp_path / "run", spec_with(keep={"checkpoint": {"every_steps": 64, "last": 9}}))
    first = run_attempt(run_dir)
    before = first.parameters()
    second = run_attempt(run_dir, 2, "000000128")
    assert (second.started().from_update, second.started().from_timesteps) == (2, 128)
    assert equal(second.parameters(), before)


def resumed_with(tmp_path: Path, was: Spec, now: Spec) -> Ran:
    """Attempt 1 of `was` stopped after 3 updates, attempt 2 with the spec `now`."""
    run_dir = new_run(tmp_path / "run", was)
    first = run_attempt(run_dir, hook=stop_in("rollout", 3))
    own = run_dir.attempt(2).spec
    own.parent.mkdir(parents=True)
    write_spec(own, now)
    return run_attempt(run_dir, 2, first.ended().checkpoint)


@pytest.mark.parametrize(
    "now",
    [
        {"env": {"n_envs": 4}},
        {"run": {"seed": 9}},
        {"ppo": {"learning_rate": 1e-4}},
        {"run": {"total_timesteps": 8 * 64}},
        {"env": {"kwargs": {"sutton_barto_reward": True}}},
        {"env": {"normalize": {"obs": False, "reward": True}}},
    ],
    ids=[
        "more environments",
        "another seed",
        "another learning rate",
        "a larger total",
        "another task's reward",
        "normalised rewards",
    ],
)
def test_a_changed_run_goes_on_and_is_not_called_exact(now: dict[str, Any], tmp_path: Path) -> None:
    """What was learned and counted goes on to the new end; the record says continued."""
    ran = resumed_with(tmp_path, spec_with(), spec_with(**now))
    assert ran.exit_code == 0
    assert not ran.started().exact
    assert ran.started().from_timesteps == 192
    assert ran.updates()[-1].timesteps >= now.get("run", {}).get("total_timesteps", 384)


def test_a_schedule_over_seconds_is_never_called_exact(tmp_path: Path) -> None:
    """It follows the clock; with constant rates a timed run is as exact as any."""
    timed = {"total_timesteps": None, "duration_s": 0.5}
    for ppo, exact in ((SCHEDULED, False), ({}, True)):
        run_dir = new_run(tmp_path / f"run {exact}", spec_with(ppo=ppo, run=timed))
        first = run_attempt(run_dir, hook=stop_in("rollout", 1))
        second = run_attempt(run_dir, 2, first.ended().checkpoint, hook=stop_in("rollout", 2))
        assert second.started().exact is exact


def test_a_resume_on_another_machine_says_what_is_no_longer_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another node with the same processor goes on exactly; another processor may differ in the last bit."""
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    monkeypatch.setattr(effective, "_processor", lambda: "Old CPU")
    run_dir = new_run(tmp_path / "run", spec_with())
    first = run_attempt(run_dir, hook=stop_in("rollout", 1))
    assert first.started().moved == ()
    monkeypatch.setenv("SLURMD_NODENAME", "n2")
    second = run_attempt(run_dir, 2, first.ended().checkpoint, hook=stop_in("rollout", 2))
    assert (second.started().exact, second.started().moved) == (True, ("machine n1 → n2",))
    monkeypatch.setattr(effective, "_processor", lambda: "New CPU")
    third = run_attempt(run_dir, 3, second.ended().checkpoint, hook=stop_in("rollout", 3))
    assert not third.started().exact
    assert third.started().moved == ("processor Old CPU → New CPU (numbers may differ in the last bit)",)


def test_environments_that_cannot_be_saved_start_anew(tmp_path: Path) -> None:
    """Without a state the run is continued: same weights, fresh episodes that do not replay the first ones."""
    spec = spec_with(env={"id": "Walk-v0", **PROBES})
    ran = stopped_and_resumed(new_run(tmp_path / "run", spec), "rollout", 3)
    assert not ran.started().exact
    assert ran.started().from_update == 3
    assert [row.update for row in ran.updates()] == [1, 2, 3, 4, 5, 6]


def test_another_network_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """A checkpoint of another policy ends the attempt with the parameter that does not fit, and stays loadable."""
    ran = resumed_with(tmp_path, spec_with(), spec_with(ppo={"net_arch": [16]}))
    assert ran.exit_code == 1
    assert "another policy" in ran.ended().cause
    assert ran.ended().checkpoint == "000000192"


def test_a_resume_with_nothing_left_ends_at_once(tmp_path: Path) -> None:
    """A finished run that is resumed unchanged finishes again, from the checkpoint it has."""
    run_dir = new_run(tmp_path / "run", spec_with())
    first = run_attempt(run_dir)
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.ended().how == "finished"
    assert second.ended().checkpoint == first.ended().checkpoint
    assert len(second.updates()) == 6
