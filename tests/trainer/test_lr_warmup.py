"""Terms of a resume: Adam and statistics that begin anew, a learning rate that is eased in, across further stops."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch as th

from mission_tui.fleet.resume.verdict import Terms
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.runs.attempt import write_spec, write_terms
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.state.checkpoint import load_checkpoint
from tests.trainer.harness import Hook, Ran, equal, new_run, run_attempt, spec_with, stop_in

LONG = {"total_timesteps": 20 * 64}
RATE = 3e-4
WARM = Terms(fresh_optimizer=True, warm_up_updates=10)


def begun(path: Path, spec: Spec, update: int = 3) -> tuple[RunDir, str]:
    """A run that was stopped after `update` updates, and its checkpoint."""
    run_dir = new_run(path, spec)
    checkpoint = run_attempt(run_dir, hook=stop_in("rollout", update)).ended().checkpoint
    assert checkpoint is not None
    return run_dir, checkpoint


def resumed_on(
    run_dir: RunDir, checkpoint: str, terms: Terms, now: Spec | None = None, hook: Hook | None = None
) -> Ran:
    """Attempt 2 on `terms`."""
    folder = run_dir.attempt(2)
    folder.path.mkdir(parents=True)
    write_terms(folder.terms, terms)
    if now is not None:
        write_spec(folder.spec, now)
    return run_attempt(run_dir, 2, checkpoint, hook=hook)


def rates(ran: Ran, attempts: tuple[int, ...]) -> list[float]:
    """The learning rates that the updates of `attempts` were recorded with."""
    return [float(row.metrics["train/learning_rate"]) for row in ran.updates() if row.attempt in attempts]


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fast", "stock"])
def test_the_learning_rate_warms_up_and_stays(engine: str, tmp_path: Path) -> None:
    """Ten equal parts, each recorded with its update, then what the spec says; it is never called exact."""
    ran = resumed_on(*begun(tmp_path / "run", spec_with(run=LONG | {"engine": engine})), WARM)
    assert not ran.started().exact
    expected = [RATE * part / 10 for part in range(1, 11)] + [RATE] * 7
    assert rates(ran, (2,)) == pytest.approx(expected)


@pytest.mark.slow
def test_a_stop_in_the_middle_of_a_warm_up_changes_nothing(tmp_path: Path) -> None:
    """Stopped in its fourth update and resumed, the warm-up ends where it would have, bit for bit."""
    spec = spec_with(run=LONG)
    whole = resumed_on(*begun(tmp_path / "whole", spec), WARM)
    run_dir, checkpoint = begun(tmp_path / "twice", spec)
    second = resumed_on(run_dir, checkpoint, WARM, hook=stop_in("update", 6))
    third = run_attempt(run_dir, 3, second.ended().checkpoint)
    assert third.started().exact
    assert rates(third, (2, 3)) == rates(whole, (2,))
    assert equal(third.parameters(), whole.parameters())


@pytest.mark.slow
def test_a_scaled_rate_ends_within_an_update(tmp_path: Path) -> None:
    """Six gradient steps of four an update: the second update's last steps have the whole rate again."""
    terms = Terms(lr_scale=0.5, lr_scale_steps=6)
    ran = resumed_on(*begun(tmp_path / "run", spec_with(run=LONG)), terms)
    assert rates(ran, (2,)) == pytest.approx([0.5 * RATE] + [RATE] * 16)
    run_dir, checkpoint = begun(tmp_path / "halved", spec_with(run=LONG))
    half = resumed_on(run_dir, checkpoint, Terms(lr_scale=0.5, lr_scale_steps=8))
    assert not equal(ran.parameters(), half.parameters())


@pytest.mark.slow
def test_adam_begins_anew(tmp_path: Path) -> None:
    """Its step count is that of the second attempt alone; the parameters were those of the checkpoint."""
    ran = resumed_on(*begun(tmp_path / "run", spec_with(run=LONG)), WARM)
    name = ran.ended().checkpoint
    assert name is not None
    moments = load_checkpoint(ran.run_dir.checkpoints / name).boundary.moments
    (steps,) = {float(tensor) for key, tensor in moments.items() if key.endswith("/step")}
    assert steps == 17 * 4


@pytest.mark.slow
def test_the_terms_are_on_record(tmp_path: Path) -> None:
    """`effective.toml` has the first learning rate and why; once it is over, a further attempt has neither."""
    ran = resumed_on(*begun(tmp_path / "run", spec_with(run=LONG)), WARM, hook=stop_in("rollout", 18))
    effective = tomllib.loads(ran.run_dir.attempt(2).effective.read_text())
    assert effective["ppo"]["learning_rate"] == pytest.approx(RATE / 10)
    assert "warms up over 10 updates" in effective["reasons"]["ppo.learning_rate"]
    run_attempt(ran.run_dir, 3, ran.ended().checkpoint)
    later = tomllib.loads(ran.run_dir.attempt(3).effective.read_text())
    assert later["ppo"]["learning_rate"] == pytest.approx(RATE)
    assert "warms up" not in str(later["reasons"])


@pytest.mark.parametrize("was", [True, False])
def test_statistics_begin_anew_where_that_was_agreed_to(was: bool, tmp_path: Path) -> None:
    """A normalizer that vanishes or appears ends the attempt, unless its refusal was overridden."""
    spec, now = spec_with(env={"normalize": was}), spec_with(env={"normalize": not was})
    refused = resumed_on(*begun(tmp_path / "refused", spec), Terms(), now)
    assert refused.ended().how == "failed"
    assert "env.normalize differs" in refused.ended().cause
    agreed = resumed_on(*begun(tmp_path / "agreed", spec), Terms(fresh_normalizer=True), now)
    assert agreed.ended().how == "finished"
    name = agreed.ended().checkpoint
    assert name is not None
    statistics = load_checkpoint(agreed.run_dir.checkpoints / name).boundary.state["normalizer"]
    assert (statistics is None) is was
    assert all(th.isfinite(tensor).all() for tensor in agreed.parameters().values())
