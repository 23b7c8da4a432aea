"""`gpu-idle`: a GPU that a run holds and hardly uses, said only where the driver tells and rollouts are the reason."""

from __future__ import annotations

import pytest

from mission_tui.fleet.health.gpu_idle import GpuIdle, GpuShareSample
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.fleet.specs.thresholds import GpuIdleLimits

SPEC = Spec(
    preset="p",
    env=EnvSpec(id="CartPole-v1", n_envs=8, vec="inline"),
    ppo=PpoSpec(n_steps=256),
    run=RunSpec(device="cuda"),
)
LIMITS = GpuIdleLimits(looks=10)
IDLE = GpuShareSample(3.0, 4.0, 0.3)


def after(*looks: GpuShareSample | None) -> GpuIdle:
    rule = GpuIdle(LIMITS)
    for look in looks:
        rule.update(look)
    return rule


def test_an_idle_gpu_of_a_run_that_waits_for_its_environments_is_a_finding() -> None:
    """How busy it was and what an update is made of; without a better setting, another run beside it."""
    rule = after(*[IDLE] * 10)
    assert rule.on
    words = rule.explain(SPEC)
    assert words.sentence == (
        "the GPU that it holds was 3% busy with it in the last 0.83 min: 93% of an update is its rollout, which is "
        "mostly work of the CPU"
    )
    assert words.cause == "a rollout takes 4 s and the update after it 0.3 s"
    assert "another run beside it" in words.advice
    assert words.advice_set == ()


def test_slow_environments_are_stepped_at_the_same_time() -> None:
    """Where most of the time goes into stepping environments one after another, the setting is that of workers."""
    words = after(*[in_the_environments(env_s=3.8)] * 10).explain(SPEC)
    assert words.advice_set == ("env.vec=split",)
    assert "stepping 8 environments one after another takes 15 ms a step" in words.cause


def in_the_environments(env_s: float) -> GpuShareSample:
    return GpuShareSample(IDLE.percent, IDLE.rollout_s, IDLE.update_s, env_s)


def test_a_net_that_was_measured_faster_on_the_cpu_belongs_there() -> None:
    """The measured comparison comes before everything else."""
    words = after(*[in_the_environments(env_s=3.8)] * 10).explain(SPEC, "this net is faster on the CPU: 3.0 x")
    assert (words.cause, words.advice_set) == ("this net is faster on the CPU: 3.0 x", ("run.device=cpu",))


@pytest.mark.parametrize(
    "looks",
    [
        [GpuShareSample(percent, 4.0, 0.3) for percent in (10, 25, 15, 12, 20, 18, 22, 11, 10, 14)],
        [GpuShareSample(60.0 if i % 4 == 0 else 0.0, 4.0, 0.3) for i in range(10)],
        [GpuShareSample(3.0, 0.4, 0.6)] * 10,
        [None] * 20,
        [IDLE] * 9,
    ],
    ids=["one small net", "bursts of updates", "updates dominate", "the driver does not tell", "not for long"],
)
def test_what_is_normal_is_not_complained_about(looks: list[GpuShareSample | None]) -> None:
    """10 to 25 % of a GPU are what a small network takes; a rule that does not know says nothing."""
    assert not after(*looks).on


def test_it_is_over_when_the_gpu_is_used_again() -> None:
    """The mean of a whole window has to be above the level for leaving."""
    rule = after(*[IDLE] * 10, *[GpuShareSample(20.0, 4.0, 0.3)] * 4)
    assert rule.on
    for _ in range(6):
        rule.update(GpuShareSample(20.0, 4.0, 0.3))
    assert rule.off
