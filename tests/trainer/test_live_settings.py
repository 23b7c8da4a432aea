"""Settings that are changed while a run trains: in effect from the next update, on record, and kept by a resume."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from mission_tui.fleet.events.metrics import SettingsChanged
from mission_tui.ipc.telemetry_messages import Order, PhaseEntered, TelemetryMessage
from mission_tui.records.runs.attempt import write_spec
from mission_tui.trainer.orders import Orders
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import Hook, Ran, equal, new_run, run_attempt, spec_with


def set_in(phase: str, update: int, *words: str, number: int = 4, stop_at: int | None = None) -> Hook:
    """A hook that sets `words` in `phase` after `update` updates, and stops in the rollout after `stop_at` updates."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        if not isinstance(message, PhaseEntered):
            return
        if (message.phase, message.update) == (phase, update):
            orders.obey(Order("set", number=number, assignments=words))
        if (message.phase, message.update) == ("rollout", stop_at):
            orders.obey(Order("stop"))

    return hook


def values(ran: Ran, tag: str) -> list[object]:
    """What each update says of `tag`."""
    return [row.metrics[tag] for row in ran.updates()]


def changes(ran: Ran) -> list[SettingsChanged]:
    """The changes on record."""
    return [record for record in ran.records() if isinstance(record, SettingsChanged)]


@pytest.mark.parametrize("engine", ["fast", "stock"])
def test_a_learning_rate_that_is_set_counts_from_the_next_update(tmp_path: Path, engine: str) -> None:
    """Set in the rollout of update 3: updates 1 to 3 learn as before, 4 and later with the new rate, on record once."""
    run_dir = new_run(tmp_path / "run", spec_with(run={"engine": engine}))
    ran = run_attempt(run_dir, hook=set_in("rollout", 2, "ppo.learning_rate=1e-4"))
    assert values(ran, "train/learning_rate") == [3e-4] * 3 + [1e-4] * 3
    (change,) = changes(ran)
    assert (change.number, change.update, change.timesteps) == (4, 3, 3 * 64)
    assert change.diff == ("ppo.learning_rate 0.0003 → 0.0001",)
    effective = tomllib.loads(run_dir.attempt(1).effective.read_text("utf-8"))
    assert effective["ppo"]["learning_rate"] == 1e-4
    assert effective["reasons"]["ppo.learning_rate"] == "set after 192 timesteps; it was 0.0003"


def test_everything_that_can_be_set_reaches_the_model(tmp_path: Path) -> None:
    """Clip range, coefficients, epochs, minibatches, norm, target, budget: read back, and seen in what updates do."""
    words = (
        "ppo.clip_range=0.1", "ppo.ent_coef=0.01", "ppo.vf_coef=0.7", "ppo.n_epochs=3", "ppo.batch_size=16",
        "ppo.max_grad_norm=0.2", "ppo.target_kl=5.0", "run.total_timesteps=512",
    )  # fmt: skip
    run_dir = new_run(tmp_path / "run", spec_with())
    ran = run_attempt(run_dir, hook=set_in("rollout", 1, *words))
    assert values(ran, "train/clip_range") == [0.2] * 2 + [0.1] * 6
    assert values(ran, "train/n_epochs_done") == [2.0] * 2 + [3.0] * 6
    effective = tomllib.loads(run_dir.attempt(1).effective.read_text("utf-8"))
    ppo = {name: effective["ppo"][name] for name in ("ent_coef", "vf_coef", "batch_size", "max_grad_norm", "target_kl")}
    assert ppo == {"ent_coef": 0.01, "vf_coef": 0.7, "batch_size": 16, "max_grad_norm": 0.2, "target_kl": 5.0}
    assert ran.updates()[-1].timesteps == 512


def test_a_resume_after_a_set_is_exact(tmp_path: Path) -> None:
    """Set, stopped two updates later and resumed with that spec: the parameters of the run that never stopped."""
    words = ("ppo.learning_rate=1e-3", "ppo.batch_size=16")
    whole = run_attempt(new_run(tmp_path / "whole", spec_with()), hook=set_in("rollout", 1, *words))
    run_dir = new_run(tmp_path / "cut", spec_with())
    first = run_attempt(run_dir, hook=set_in("rollout", 1, *words, stop_at=4))
    checkpoint = first.ended().checkpoint
    assert checkpoint is not None
    own = run_dir.attempt(2).spec
    own.parent.mkdir(parents=True)
    write_spec(own, spec_with(ppo={"learning_rate": 1e-3, "batch_size": 16}))
    second = run_attempt(run_dir, 2, checkpoint)
    assert second.started().exact
    assert equal(second.parameters(), whole.parameters())


def test_a_stop_right_after_a_set_saves_the_new_settings(tmp_path: Path) -> None:
    """The checkpoint of the boundary at which it was set, saved before, says the new spec when the run stops there."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 1):
            orders.obey(Order("checkpoint"))
            orders.obey(Order("pause"))
        if isinstance(message, PhaseEntered) and message.phase == "paused":
            orders.obey(Order("set", number=1, assignments=("ppo.ent_coef=0.5",)))
            orders.obey(Order("unpause"))
        if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 2):
            orders.obey(Order("stop"))

    ran = run_attempt(new_run(tmp_path / "run", spec_with()), hook=hook)
    loaded = load_checkpoint(ran.run_dir.checkpoints / (ran.ended().checkpoint or ""))
    assert loaded.boundary.state["facts"]["spec"]["ppo"]["ent_coef"] == 0.5
    assert loaded.manifest.extra["set"] == [["ppo.ent_coef=0.5"]]
    assert [change.update for change in changes(ran)] == [2]


def test_the_same_order_twice_is_done_once_and_a_bad_one_not_at_all(tmp_path: Path) -> None:
    """Said again after a lost link it is known by its number; what does not fit is complained of, nothing more."""

    def hook(message: TelemetryMessage, orders: Orders) -> None:
        if isinstance(message, PhaseEntered) and message.phase == "rollout" and message.update < 4:
            orders.obey(Order("set", number=7, assignments=("ppo.ent_coef=0.1",)))
        if isinstance(message, PhaseEntered) and (message.phase, message.update) == ("rollout", 4):
            orders.obey(Order("set", number=9, assignments=("ppo.gamma=0.5",)))

    ran = run_attempt(new_run(tmp_path / "run", spec_with()), hook=hook)
    assert [change.number for change in changes(ran)] == [7]
    assert ran.exit_code == 0
    assert len(ran.updates()) == 6
