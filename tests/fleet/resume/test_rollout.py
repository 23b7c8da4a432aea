"""Rulings on rollout and minibatches: the numbers are this run's own, for Adam's moments and for gradient steps."""

from __future__ import annotations

import pytest

from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.sizes import plan_batch
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, Spec
from tests.fleet.resuming import HALFWAY, WAS, named, only, verdict


def test_more_envs_with_the_same_batch_multiply_gradient_steps() -> None:
    """8 to 64 environments: 40 become 320 gradient steps; the remedy brings them back near 40."""
    ruling = only("env.n_envs=64")
    assert (ruling.name, ruling.was, ruling.now, ruling.grade) == ("env.n_envs", "8", "64", "warn")
    assert "8 x gradient steps per update (40 -> 320)" in ruling.why
    assert "KL" in ruling.why
    assert "Adam's moments" in ruling.why
    assert ruling.remedy.startswith("--set ppo.n_epochs=2 --set ppo.learning_rate=0.0001875 (64 gradient steps")


def test_the_remedy_for_more_envs_is_what_it_says() -> None:
    """Following the advice leaves steps x learning rate where it was."""
    followed = change(WAS, ["env.n_envs=64", "ppo.n_epochs=2", "ppo.learning_rate=0.0001875"])
    assert plan_batch(followed).gradient_steps == 64
    assert plan_batch(followed).gradient_steps * 0.0001875 == pytest.approx(40 * 3e-4)


def test_more_envs_with_a_larger_batch_leave_adams_moments_behind() -> None:
    """With the batch scaled along, gradient steps stay and both changes tell of minibatches of 64."""
    judged = verdict("env.n_envs=64", "ppo.batch_size=512")
    assert judged.grade == "warn"
    envs, batch = named(judged, "env.n_envs"), named(judged, "ppo.batch_size")
    assert "40 gradient steps per update as before" in envs.why
    assert "Adam's moments belong to minibatches of 64, not 512" in envs.why
    assert "about 1,000 gradient steps (25 updates)" in batch.why
    assert "2.83 x too small" in batch.why
    words = "--set ppo.batch_size=64 --set ppo.n_epochs=2 --set ppo.learning_rate=0.0001875"
    assert batch.remedy == f"keep the minibatch: {words}"


def test_an_automatic_batch_is_judged_by_its_numbers() -> None:
    """`auto` grows with the rollout: the field is unchanged and the change is told all the same."""
    was = change(WAS, ["env.n_envs=32", "ppo.n_steps=256", "ppo.batch_size=auto"])
    batch = named(verdict("env.n_envs=128", was=was), "ppo.batch_size")
    assert (batch.was, batch.now, batch.grade) == ("2048", "8192", "warn")


def test_writing_what_was_chosen_changes_nothing() -> None:
    """Epochs that were SB3's default and are now written as 10 are no change."""
    was = change(WAS, ["ppo.n_epochs=none"])
    assert verdict("ppo.n_epochs=10", was=was).changes == ()


def test_fewer_envs_are_a_low_risk() -> None:
    """64 to 8 environments: fewer gradient steps from more correlated data, epochs up as remedy."""
    was = change(WAS, ["env.n_envs=64"])
    ruling = only("env.n_envs=8", was=was)
    assert ruling.grade == "warn"
    assert ruling.why.startswith("low risk: fewer gradient steps per update (320 -> 40)")
    assert "from 2,048 to 256 transitions" in ruling.why
    assert ruling.remedy == "--set ppo.n_epochs=20"


def test_an_equal_product_is_a_low_risk() -> None:
    """Twice the environments and half the steps: shorter chunks, more bootstrapping, same updates."""
    judged = verdict("env.n_envs=16", "ppo.n_steps=16")
    assert judged.grade == "warn"
    assert "the rollout stays at 256 transitions" in named(judged, "env.n_envs").why
    assert "shorter chunks" in named(judged, "env.n_envs").why
    assert named(judged, "ppo.n_steps").grade == "note"


def test_longer_rollouts_are_judged_like_more_envs() -> None:
    """`n_steps` alone multiplies gradient steps in the same way."""
    ruling = only("ppo.n_steps=128")
    assert ruling.name == "ppo.n_steps"
    assert "4 x gradient steps per update (40 -> 160)" in ruling.why


@pytest.mark.parametrize(
    ("share", "risk"), [(0.05, "high risk"), (0.7, "some risk"), (0.95, "low risk"), (None, "risk unknown")]
)
def test_a_smaller_batch_is_judged_by_how_often_gradients_were_clipped(share: float | None, risk: str) -> None:
    """Adam overshoots only where the norm clip rarely acts; the run's own share decides."""
    was = change(WAS, ["env.n_envs=64", "ppo.batch_size=512"])
    ruling = only("ppo.batch_size=64", was=was, facts=ResumeFacts(500_000, grad_clipped_share=share))
    assert ruling.grade == "warn"
    assert ruling.why.startswith(risk)
    assert "up to 2.83 x too large" in ruling.why
    assert "(40 -> 320)" in ruling.why
    assert "the learning rate is 0.354 x as large for 1,000 gradient steps, then back" in ruling.remedy
    assert "--set ppo.target_kl=0.03" in ruling.remedy


def test_a_batch_that_does_not_divide_names_divisors() -> None:
    """100 in 256: the last minibatch holds 56; 64 and 128 would divide."""
    ruling = only("ppo.batch_size=100")
    assert ruling.grade == "warn"
    assert "the last minibatch of every epoch holds only 56" in ruling.why
    assert "ppo.batch_size = 64 or 128 would divide it" in ruling.remedy


def test_a_batch_that_divides_no_longer_is_told_though_unchanged() -> None:
    """9 environments leave the batch of 64 with a truncated minibatch of 32."""
    batch = named(verdict("env.n_envs=9"), "ppo.batch_size")
    assert (batch.was, batch.now, batch.grade) == ("64", "64", "warn")
    assert "holds only 32" in batch.why


def test_epochs_up_warn_and_down_are_noted() -> None:
    """More passes press harder; fewer are harmless."""
    assert only("ppo.n_epochs=20").grade == "warn"
    assert "2 x gradient steps per update (40 -> 80)" in only("ppo.n_epochs=20").why
    assert only("ppo.n_epochs=5").grade == "note"


def test_sizes_that_cannot_be_are_refused_with_the_nearest() -> None:
    """A batch larger than the rollout, workers that do not divide and a rollout of one are refusals, not errors."""
    lonely = PpoSpec(n_steps=1, batch_size=64)
    for env, ppo, name, near in (
        (EnvSpec(id="CartPole-v1", n_envs=1), WAS.ppo, "ppo.batch_size", "32"),
        (EnvSpec(id="CartPole-v1", n_envs=8, n_workers=3), WAS.ppo, "env.n_workers", "env.n_workers = 2"),
        (EnvSpec(id="CartPole-v1", n_envs=1), lonely, "ppo.n_steps", "at least 2"),
    ):
        now = Spec(preset="run", env=env, ppo=ppo, run=WAS.run)
        judged = judge_resume(WAS, now, HALFWAY)
        assert judged.grade == "refuse"
        assert near in named(judged, name).why
