"""Choosing batch sizes and scaling updates: true divisors for every buffer, and what the user wrote stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.fleet.specs.sizes import (
    choose_batch,
    divisors,
    nearby_divisors,
    plan_batch,
    scaling_of,
    update_pressure,
)
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Schedule, Spec

SIZES = st.one_of(st.integers(1, 5000), st.integers(1, 2**31 - 1), st.integers(1, 500).map(lambda n: 64 * n))


def spec(n_envs: int, n_steps: int, *, auto_scale: bool = False, **ppo: object) -> Spec:
    """A spec of which only the sizes matter."""
    return Spec(
        preset="sizes",
        env=EnvSpec(id="CartPole-v1", n_envs=n_envs),
        ppo=PpoSpec(n_steps=n_steps, **ppo),  # type: ignore[arg-type]  # the tests' keywords are PPO's
        run=RunSpec(total_timesteps=1, auto_scale=auto_scale),
    )


@settings(deadline=None)
@given(SIZES, st.integers(1, 2**31 - 1))
def test_every_buffer_has_a_true_divisor(buffer: int, target: int) -> None:
    """Whatever the buffer and the target, the choice divides and comes with a reason."""
    choice = choose_batch(buffer, target)
    assert buffer % choice.size == 0
    assert choice.reason
    assert choice.size >= min(buffer, 64)


@settings(deadline=None)
@given(st.integers(1, 20_000))
def test_divisors_are_all_divisors(number: int) -> None:
    """The list is complete and ascending."""
    assert list(divisors(number)) == [d for d in range(1, number + 1) if number % d == 0]


@pytest.mark.parametrize(
    ("buffer", "size"),
    [(2048, 512), (4096, 1024), (6144, 1536), (8192, 2048), (10240, 2560), (2064, 516), (6000, 1500), (50, 50)],
)
def test_a_quarter_of_the_buffer_is_found(buffer: int, size: int) -> None:
    """Source 000's table holds, and the buffers where its search fails (2,064, 6,000, 50) get true divisors."""
    assert choose_batch(buffer, buffer // 4).size == size


def test_aligned_divisors_are_preferred_only_when_near() -> None:
    """A multiple of 64 within a factor of two wins over a nearer odd one; a distant one does not."""
    assert choose_batch(4160, 1040).size == 832
    assert choose_batch(4288, 1072).size == 2144


@pytest.mark.parametrize(("buffer", "size"), [(8191, 8191), (10007, 10007), (20014, 10007), (1, 1), (2, 2), (97, 97)])
def test_poor_choices_are_called_poor(buffer: int, size: int) -> None:
    """Where divisors are few the whole or half the buffer is taken, never tiny minibatches, and it is said."""
    choice = choose_batch(buffer, buffer // 4)
    assert choice.size == size
    if buffer != 97:
        assert "only poor choices" in choice.reason


def test_nearby_divisors_frame_the_wish() -> None:
    """The nearest divisor at or below and the nearest above, as far as there are any."""
    assert nearby_divisors(8192, 2000) == (1024, 2048)
    assert nearby_divisors(8192, 8192) == (8192,)
    assert nearby_divisors(8192, 99999) == (8192,)


def test_unwritten_sizes_are_those_of_sb3() -> None:
    """Without auto-scaling an unwritten batch is 64 and unwritten epochs are 10."""
    plan = plan_batch(spec(8, 2048))
    assert (plan.batch_size, plan.n_epochs, plan.minibatches, plan.gradient_steps) == (64, 10, 256, 2560)


def test_an_unwritten_batch_divides_where_sb3s_default_does_not() -> None:
    """For a buffer of 100, 64 would truncate every epoch; 50 is taken and the reason says so."""
    plan = plan_batch(spec(1, 100))
    assert plan.batch_size == 50
    assert "SB3's default of 64 does not divide 100" in plan.reasons[0]


@settings(deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.booleans(), st.sampled_from([None, "auto"]))
def test_a_chosen_batch_always_divides(n_envs: int, n_steps: int, auto_scale: bool, batch: str | None) -> None:
    """Whoever leaves the batch to us gets a true divisor, scaled or not."""
    plan = plan_batch(spec(n_envs, n_steps, auto_scale=auto_scale, batch_size=batch))
    assert (n_envs * n_steps) % plan.batch_size == 0
    assert plan.minibatches * plan.batch_size == n_envs * n_steps
    assert plan.n_epochs >= 2


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(1, 300), st.integers(1, 40), st.integers(1, 4096))
def test_what_is_written_is_never_overridden(n_envs: int, n_steps: int, epochs: int, batch: int) -> None:
    """Auto-scaling leaves a written batch size and written epochs alone, even where they do not divide."""
    plan = plan_batch(spec(n_envs, n_steps, auto_scale=True, batch_size=batch, n_epochs=epochs))
    assert (plan.batch_size, plan.n_epochs) == (batch, epochs)
    assert plan.gradient_steps == -(-n_envs * n_steps // batch) * epochs


def test_a_written_batch_that_does_not_divide_says_what_would() -> None:
    """The reason names the truncated minibatch and the nearest divisors."""
    reason = plan_batch(spec(32, 256, batch_size=2000)).reasons[0]
    assert "last minibatch of 192" in reason
    assert "1,024 or 2,048" in reason


def test_the_reference_is_left_as_it_is() -> None:
    """256 x 128 scales to itself: 4 minibatches of 8,192, 4 epochs, nothing to propose."""
    plan = plan_batch(spec(256, 128, auto_scale=True, learning_rate=2.5e-4))
    assert (plan.batch_size, plan.minibatches, plan.n_epochs, plan.gradient_steps) == (8192, 4, 4, 16)
    assert plan.proposed_learning_rate is None


def test_the_swarm_scales_as_its_source_says() -> None:
    """2,048 x 128: 32 minibatches of 8,192, the floor of 2 epochs, 64 steps, a quarter of the learning rate."""
    plan = plan_batch(spec(2048, 128, auto_scale=True, learning_rate=2.5e-4))
    assert (plan.batch_size, plan.minibatches, plan.n_epochs, plan.gradient_steps) == (8192, 32, 2, 64)
    assert plan.proposed_learning_rate == pytest.approx(6.25e-5)
    tuned = spec(2048, 128, auto_scale=True, learning_rate=6.25e-5)
    assert plan_batch(tuned).proposed_learning_rate is None
    assert update_pressure(tuned) == pytest.approx(1.0)


def test_the_proposal_is_in_proportion_to_the_steps() -> None:
    """SB3's default rate with four times the reference's steps is proposed at a quarter; a schedule by its start."""
    assert plan_batch(spec(2048, 128, auto_scale=True)).proposed_learning_rate == pytest.approx(3e-4 / 4)
    falling = spec(2048, 128, auto_scale=True, learning_rate=Schedule(start=3e-4))
    assert plan_batch(falling).proposed_learning_rate == pytest.approx(3e-4 / 4)


def test_small_rollouts_are_not_scaled() -> None:
    """Below 32,768 transitions auto-scaling changes nothing and says so."""
    plan = plan_batch(spec(8, 128, auto_scale=True))
    assert (plan.batch_size, plan.n_epochs, plan.proposed_learning_rate) == (64, 10, None)
    assert any("nothing to scale" in reason for reason in plan.reasons)


@pytest.mark.parametrize(
    ("n_envs", "n_steps", "batch", "epochs", "pressure"), [(32, 256, 4096, 20, 3.0), (64, 512, 8192, 30, 9.0)]
)
def test_update_pressure_of_known_presets(n_envs: int, n_steps: int, batch: int, epochs: int, pressure: float) -> None:
    """`heavy` presses 3 times as hard as the reference, `beast` 9 times."""
    assert update_pressure(spec(n_envs, n_steps, batch_size=batch, n_epochs=epochs)) == pytest.approx(pressure)


def test_scaling_is_shown_before_and_after() -> None:
    """Source 004's example beside its reference, and beside what SB3's defaults would make of it."""
    scaling = scaling_of(spec(2048, 128, auto_scale=True, learning_rate=2.5e-4))
    assert scaling is not None
    assert {row.name: (row.reference, row.without, row.scaled) for row in scaling.rows} == {
        "rollout": (32_768, 262_144, 262_144),
        "ppo.batch_size": (8_192, 64, 8_192),
        "minibatches": (4, 4_096, 32),
        "ppo.n_epochs": (4, 10, 2),
        "gradient steps": (16, 40_960, 64),
        "ppo.learning_rate": (2.5e-4, 2.5e-4, 2.5e-4),
    }
    assert scaling.proposed_learning_rate == pytest.approx(6.25e-5)
    assert "--set ppo.learning_rate=6.25e-05" in scaling.sentence


def test_what_was_written_is_the_same_before_and_after() -> None:
    """A written default is written: neither column changes it; a learning rate that fits needs no proposal."""
    scaling = scaling_of(spec(2048, 128, auto_scale=True, n_epochs=10, batch_size=64, learning_rate=1e-9))
    assert scaling is not None
    assert all(row.without == row.scaled for row in scaling.rows)
    given = scaling_of(spec(2048, 128, auto_scale=True, learning_rate=6.25e-5))
    assert given is not None
    assert given.sentence == ""


def test_where_nothing_is_scaled_nothing_is_shown() -> None:
    """Off, or below the reference's rollout."""
    assert scaling_of(spec(2048, 128)) is None
    assert scaling_of(spec(8, 128, auto_scale=True)) is None
