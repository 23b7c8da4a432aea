"""The loop: what is recorded, how budgets are kept, how orders are obeyed, how failures end it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stable_baselines3.common.utils import LinearSchedule

from mission_tui.fleet.events.metrics import MetricRecord, TrainingStarted, UpdateDone, number
from mission_tui.fleet.timed_runs import Side
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, RowsWritten, TelemetryMessage
from mission_tui.records.jsonl import AppendLog
from mission_tui.records.runs.attempt import read_spec
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.record import write_timed_metrics
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import PROBES, new_run, order_in, phases, run_attempt, spec_with, stop_in


def test_every_update_is_a_row(tmp_path: Path) -> None:
    """Six updates, six rows, with rising counters, both phases' seconds and steps per second of the update itself."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with()))
    assert ran.exit_code == 0
    assert [(row.update, row.timesteps) for row in ran.updates()] == [(n, 64 * n) for n in range(1, 7)]
    phases_s = 0.0
    for row in ran.updates():
        assert row.steps_per_s == pytest.approx(64 / (row.rollout_s + row.update_s))
        phases_s += row.rollout_s + row.update_s
        assert row.trained_s is not None
        assert phases_s < row.trained_s < phases_s + 60.0
        assert row.env_s is not None
        assert 0.0 < row.env_s < row.rollout_s
        assert {
            "train/approx_kl",
            "train/grad_norm",
            "policy/entropy_ratio",
            "train/explained_variance",
        } <= row.metrics.keys()
        assert number(row.metrics["train/learning_rate"]) == 3e-4
    assert ran.ended().how == "finished"
    assert (ran.started().vec, ran.started().device) == ("inline", "cpu")


def test_episodes_are_counted_with_raw_returns_and_outcomes(tmp_path: Path) -> None:
    """Normalised rewards do not change what is shown; ten-step episodes of reward 1 return 10."""
    spec = spec_with(env={"id": "Walk-v0", "normalize": True, **PROBES})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    episodes = [row.episodes for row in ran.updates()]
    assert sum(part.n for part in episodes) == 2 * (6 * 32 // 10)
    assert {r for part in episodes for r in part.r} == {10.0}
    assert {length for part in episodes for length in part.l} == {10}
    assert sum((Counter(part.outcomes) for part in episodes), Counter())["arrived"] == sum(part.n for part in episodes)
    assert ran.updates()[-1].metrics["rollout/success_rate"] == 1.0


def test_updates_without_an_episode_have_no_return(tmp_path: Path) -> None:
    """Pendulum's episodes last 200 steps: until one has ended, the mean return is absent."""
    spec = spec_with(env={"id": "Pendulum-v1"}, run={"total_timesteps": 128})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert all("rollout/ep_rew_mean" not in row.metrics for row in ran.updates())
    assert all(row.episodes.n == 0 for row in ran.updates())


def test_phases_and_rows_are_said_as_they_happen(tmp_path: Path) -> None:
    """Each update says rollout and update; each row of the file is followed by a word about it."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(run={"total_timesteps": 128})))
    assert phases(ran.said) == ["starting", "rollout", "update", "rollout", "update", "ending", "saving"]
    assert [message.seq for message in ran.said if isinstance(message, RowsWritten)] == [
        row.seq for row in ran.records()
    ]


def test_schedules_follow_progress(tmp_path: Path) -> None:
    """The learning rate of each update is the schedule's at the steps done, as SB3 computes it."""
    schedule = {"start": 1e-3, "end": 1e-4}
    ran = run_attempt(new_run(tmp_path / "run", spec_with(ppo={"learning_rate": schedule})))
    expected = [LinearSchedule(1e-3, 1e-4, 1.0)(1 - row.timesteps / 384) for row in ran.updates()]
    assert [row.metrics["train/learning_rate"] for row in ran.updates()] == pytest.approx(expected)


def test_a_timed_run_ends_within_one_update(tmp_path: Path) -> None:
    """A budget of seconds ends the run at the first boundary after it, by the trained time and not by the clock."""
    budget_s, schedule = 0.5, {"start": 1e-3, "end": 0.0}
    spec = spec_with(run={"total_timesteps": None, "duration_s": budget_s}, ppo={"learning_rate": schedule})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    # A row's learning rate says how much of the budget was trained when its update began.
    rates = [(row, number(row.metrics["train/learning_rate"])) for row in ran.updates()]
    trained_s = [budget_s * (1.0 - rate / 1e-3) + row.update_s for row, rate in rates if rate is not None]
    assert len(trained_s) == len(ran.updates())
    assert all(seconds < budget_s for seconds in trained_s[:-1])
    saved = load_checkpoint(ran.run_dir.checkpoints / (ran.ended().checkpoint or ""))
    assert saved.boundary.trained_s >= budget_s
    assert saved.boundary.update == len(trained_s)
    assert ran.ended().how == "finished"


def test_seconds_count_over_attempts(tmp_path: Path) -> None:
    """What attempt 1 trained is not trained again by attempt 2."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": None, "duration_s": 0.2}))
    first = run_attempt(run_dir)
    second = run_attempt(run_dir, 2, first.ended().checkpoint)
    assert second.ended().how == "finished"
    assert second.updates()[-1].attempt == 1


def test_a_timed_run_leaves_the_metrics_of_its_time(tmp_path: Path) -> None:
    """In the words of `bench`, so that `bench --vs` takes it; a continued one has its own stretch, or why not."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": None, "duration_s": 1.5}))
    first = run_attempt(run_dir)
    assert first.ended().how == "finished"
    document = json.loads(run_dir.timed.read_bytes())
    assert (document["schema"], document["seconds"]) == (1, 1.5)
    (side,) = msgspec.convert(document["sides"], tuple[Side, ...])
    (repeat,) = side.repeats
    assert repeat.timing.timesteps == first.updates()[-1].timesteps
    assert document["steps_per_s"]["median"] == repeat.timing.steps_per_s > 0
    assert (repeat.load.peak_rss_bytes or 0) > 10_000_000
    run_attempt(run_dir, 2, first.ended().checkpoint)
    document = json.loads(run_dir.timed.read_bytes())
    assert (document["sides"], document["steps_per_s"]) == ([], None)
    assert document["notes"] == [
        "only attempt 2: what the run trained before is not in these numbers",
        "no speed: attempt 2 did 0 updates, too few to take one from",
    ]


def test_a_timed_run_that_was_stopped_has_the_metrics_of_its_newest_stretch(tmp_path: Path) -> None:
    """Steps and seconds are those of the second attempt alone; the notes say so, and that it was stopped."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"total_timesteps": None, "duration_s": 600.0}))
    log = AppendLog(run_dir.metrics)
    makes: list[Callable[[int], MetricRecord]] = [lambda seq: TrainingStarted(seq, 1, 1000.0)]
    makes += [partial(_row, 1, it, 1000.0 + it) for it in range(1, 101)]
    makes.append(lambda seq: TrainingStarted(seq, 2, 5000.0, from_update=100, from_timesteps=6400))
    makes += [partial(_row, 2, it, 5000.0 + 2 * (it - 100)) for it in range(101, 181)]
    for make in makes:
        log.append(make)
    log.close()
    write_timed_metrics(run_dir, 2, read_spec(run_dir.spec), finished=False)
    document = json.loads(run_dir.timed.read_bytes())
    assert document["notes"] == [
        "only attempt 2: what the run trained before is not in these numbers",
        "stopped before its 600 s were over",
    ]
    ((repeat,),) = (side.repeats for side in msgspec.convert(document["sides"], tuple[Side, ...]))
    timing = repeat.timing
    assert (timing.duration_s, timing.timesteps, timing.updates, timing.steps_per_s) == (160.0, 5120, 80, 32.0)


def _row(attempt: int, update: int, t: float, seq: int) -> UpdateDone:
    return UpdateDone(seq, attempt, update, 64 * update, t, 0.5, 0.5, 64.0)


def test_a_total_that_no_rollout_divides_is_passed_by_less_than_one(tmp_path: Path) -> None:
    """100 steps take two rollouts of 64."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(run={"total_timesteps": 100})))
    assert ran.updates()[-1].timesteps == 128


def test_a_paused_run_waits_at_a_boundary_and_saves_there_when_asked(tmp_path: Path) -> None:
    """Paused during update 3, it waits after it, takes the checkpoint that is asked for, and goes on when told."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and message.update == 2 and message.phase == "update":
            orders.obey(Order("pause"))
        if isinstance(message, PhaseEntered) and message.phase == "paused":
            orders.obey(Order("checkpoint"))
        if isinstance(message, PhaseEntered) and message.phase == "saving" and orders.paused:
            orders.obey(Order("unpause"))

    ran = run_attempt(new_run(tmp_path / "run", spec_with()), hook=hook)
    assert [(row.reason, row.update) for row in ran.saves()] == [("asked", 3), ("end", 6)]
    assert phases(ran.said).count("paused") == 1
    assert ran.ended().how == "finished"


def test_a_paused_run_can_be_stopped(tmp_path: Path) -> None:
    """A stop ends the waiting."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        order_in("update", 1, "pause")(message, orders)
        order_in("paused", 2, "stop")(message, orders)

    ran = run_attempt(new_run(tmp_path / "run", spec_with()), hook=hook)
    assert (ran.ended().how, ran.ended().checkpoint) == ("stopped", "000000128")


def test_a_stop_before_the_first_update_saves_the_start(tmp_path: Path) -> None:
    """Asked while everything is being built, it still leaves something to resume."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with()), hook=stop_in("starting", 0))
    assert (ran.ended().how, ran.ended().checkpoint) == ("stopped", "000000000")
    resumed = run_attempt(ran.run_dir, 2, "000000000")
    assert resumed.started().exact
    assert resumed.ended().how == "finished"


@pytest.mark.parametrize(
    ("kwargs", "failure", "sentence"),
    [
        ({"what": "reward"}, "nan", "the reward of environment 0 became nan"),
        ({"what": "reward", "value": "inf"}, "nan", "the reward of environment 0 became inf"),
        ({"what": "observation"}, "nan", "the observation of environment 0 became nan or infinite"),
        ({"what": "raise"}, "env", "ValueError: the bridge is out (probe_envs.py:"),
        ({"what": "exit"}, "env", "SystemExit: 3 (probe_envs.py:"),
    ],
    ids=["nan reward", "infinite reward", "nan observation", "exception", "sys.exit"],
)
def test_an_environment_that_goes_wrong_ends_the_run_with_its_cause(
    kwargs: dict[str, Any], failure: str, sentence: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kind and one sentence are recorded, the exit code is 1, and stderr has the words too."""
    spec = spec_with(env={"id": "Spoilt-v0", "kwargs": kwargs, **PROBES})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert ran.exit_code == 1
    assert (ran.ended().how, ran.ended().failure) == ("failed", failure)
    assert ran.ended().from_env == (failure == "nan")
    assert sentence in ran.ended().cause
    assert sentence in capfd.readouterr().err


def test_after_an_environment_failed_the_last_boundary_is_saved(tmp_path: Path) -> None:
    """The bridge breaks in update 2; the boundary after update 1 is there to resume from."""
    spec = spec_with(env={"id": "Spoilt-v0", "kwargs": {"what": "raise", "at": 50}, **PROBES})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert (ran.ended().update, ran.ended().checkpoint) == (1, "000000064")


def test_after_nan_nothing_new_is_saved(tmp_path: Path) -> None:
    """The last good checkpoint stays the newest; the spoilt model is never written."""
    keep = {"checkpoint": {"every_steps": 64}}
    spec = spec_with(env={"id": "Spoilt-v0", "kwargs": {"what": "reward", "at": 80}, **PROBES}, keep=keep)
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert ran.ended().failure == "nan"
    assert [row.update for row in ran.saves()] == [1, 2]
    assert ran.ended().checkpoint == "000000128"


def test_the_environment_that_gave_nan_is_named_under_normalization(tmp_path: Path) -> None:
    """Of two, only the second spoils its reward; the normalizer would have spread it to both."""
    kwargs = {"what": "reward", "at": 40, "sound_seed": 3}
    spec = spec_with(env={"id": "Spoilt-v0", "kwargs": kwargs, "n_envs": 2, "normalize": True, **PROBES})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert ran.ended().cause == "the reward of environment 1 became nan"


def test_a_loss_that_overflows_ends_the_run_as_nan(tmp_path: Path) -> None:
    """Rewards that are numbers, but too large for the value loss, are caught before anything is saved."""
    spec = spec_with(env={"id": "Spoilt-v0", "kwargs": {"value": "1e30", "at": 1}, **PROBES})
    ran = run_attempt(new_run(tmp_path / "run", spec))
    assert (ran.ended().failure, ran.ended().from_env) == ("nan", False)
    assert "value loss became inf" in ran.ended().cause
    assert ran.saves() == []
    assert ran.ended().checkpoint is None


def test_a_preset_that_cannot_be_built_exits_78(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One line on stderr, no traceback, and the end record says config."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(env={"id": "CartPol-v1"})))
    assert ran.exit_code == 78
    assert (ran.ended().how, ran.ended().failure) == ("failed", "config")
    err = capfd.readouterr().err
    assert "did you mean 'CartPole-v1'" in err
    assert "Traceback" not in err


def test_an_environment_that_cannot_be_made_exits_78(tmp_path: Path) -> None:
    """Whatever its constructor raises is said with the place it came from."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(env={"id": "Unmakeable-v0", **PROBES})))
    assert (ran.exit_code, ran.ended().failure) == (78, "config")
    assert "OSError: no licence (probe_envs.py:" in ran.ended().cause


def test_an_environment_that_cannot_be_closed_changes_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run has ended well before; what closing raised is in the log."""
    ran = run_attempt(new_run(tmp_path / "run", spec_with(env={"id": "Unclosable-v0", **PROBES})))
    assert (ran.exit_code, ran.ended().how) == (0, "finished")
    assert "still busy" in capfd.readouterr().err


def test_a_full_disk_costs_a_timed_checkpoint_and_not_the_training(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Where the checkpoint folder cannot be written, training goes on and says why nothing was saved."""
    run_dir = new_run(tmp_path / "run", spec_with(keep={"checkpoint": {"every_steps": 64}}))
    run_dir.checkpoints.write_text("in the way")

    def hook(message: TelemetryMessage, _orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and message.phase == "update" and message.update == 2:
            run_dir.checkpoints.unlink()

    ran = run_attempt(run_dir, hook=hook)
    assert ran.ended().how == "finished"
    assert [row.update for row in ran.saves()] == [3, 4, 5, 6]
    assert "no checkpoint now, training goes on" in capfd.readouterr().err
