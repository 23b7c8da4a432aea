"""A sweep of `bench`: what is timed and what is left out, and what the speeds say of it."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from mission_tui.fleet.timed_runs import Repeat, Side, Timing, ratios_of, work_of
from mission_tui.fleet.tuning.profile import profile_tables, read_profile, suits
from mission_tui.fleet.tuning.sweep import SweepPlan, SweepResult, plan_sweep, sweep_result

HOST = {"host": "here", "cores": "4"}


def spec_of(n_envs: int = 8, **env: object) -> Spec:
    """A preset with a rollout of 32 steps, timed for 60 seconds."""
    return Spec(
        preset="tiny",
        env=EnvSpec(id="CartPole-v1", n_envs=n_envs, **env),  # type: ignore[arg-type]
        ppo=PpoSpec(n_steps=32, batch_size=64),
        run=RunSpec(duration_s=60.0),
    )


def side_of(spec: Spec, rates: list[float]) -> Side:
    """A side of these speeds, one repeat each."""
    timings = [
        Timing(
            duration_s=60.0,
            overshoot_s=0.0,
            warmup_s=6.0,
            timesteps=1000,
            updates=10,
            steps_per_s=rate,
            final_steps_per_s=rate,
            rollout_share=0.5,
            update_share=0.4,
            other_share=0.1,
            episodes=0,
        )
        for rate in rates
    ]
    repeats = tuple(Repeat(run=str(at), seed=at, timing=timing) for at, timing in enumerate(timings, 1))
    return Side(preset=spec.preset, asked_s=60.0, repeats=repeats, work=work_of(spec), versions={"torch": "2.13.0"})


def measured(plan: SweepPlan, speeds: Mapping[str, float], dropped: Mapping[int, str] | None = None) -> SweepResult:
    """The result where each entrant has the speed of its label, 1,000 steps/s where it has none, in three rounds."""
    out = dropped or {}
    sides = [
        side_of(each.spec, [speeds.get(each.label, 1000.0) * noise for noise in (1.0, 1.02, 0.99)])
        for at, each in enumerate(plan.entrants)
        if at not in out
    ]
    return sweep_result(plan, sides, out, HOST, "2026-11-24T12:00:00Z")


def test_every_valid_combination_is_timed_and_the_others_are_said() -> None:
    """Three numbers of environments by two of workers: what cannot be shared evenly is left out with its reason, and
    sweeping workers uses them.
    """
    plan = plan_sweep(spec_of(vec="inline"), ["env.n_envs=4,6,9", "env.n_workers=1,2"])
    assert [each.label for each in plan.entrants] == [
        "as it is",
        "n_envs 4, 1 worker",
        "n_envs 4, 2 workers",
        "n_envs 6, 1 worker",
        "n_envs 6, 2 workers",
        "n_envs 9, 1 worker",
    ]
    assert all(each.spec.env.vec == "workers" for each in plan.entrants[1:])
    (refused,) = plan.refused
    assert "env.n_envs = 9 cannot be shared evenly by env.n_workers = 2" in refused.why
    assert refused.why.startswith("--sweep ")
    assert any("env.vec is 'workers' there" in note for note in plan.notes)


def test_what_the_user_says_of_vec_stands() -> None:
    """`--set env.vec=auto` beside swept workers is left as it is, and the preset's own settings are timed once."""
    plan = plan_sweep(spec_of(vec="auto"), ["env.n_workers=2,4"], ["env.vec=auto"])
    assert {each.spec.env.vec for each in plan.entrants} == {"auto"}
    again = plan_sweep(spec_of(), ["env.n_envs=8,16"])
    assert [each.label for each in again.entrants] == ["as it is", "n_envs 16"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["env.n_envs"], "is not KEY=VALUE,VALUE"),
        (["env.n_envs=4,,8"], "is not KEY=VALUE,VALUE"),
        (["run.seed=1,2"], "bench sets that itself"),
        (["env.n_envs=8"], "leaves nothing to compare: they are the preset's own settings"),
        (["env.n_workers=3,5"], "cannot be shared evenly"),
        (["env.n_envs=1,2,3,4,5,6,7", "run.threads=1,2,3,4,5"], "makes 30 combinations; name at most 25"),
        (["ppo.n_stepz=1,2"], "n_steps"),
    ],
)
def test_a_sweep_that_says_nothing_is_refused(words: list[str], complaint: str) -> None:
    """With the reason, before anything starts."""
    with pytest.raises(UsageError, match=complaint):
        plan_sweep(spec_of(), words)


def test_the_fastest_becomes_a_host_profile() -> None:
    """Certainly faster: its settings, the machine and the task it holds for, which `launch --profile auto` accepts."""
    own = spec_of(vec="inline")
    plan = plan_sweep(own, ["env.n_envs=8,16", "env.n_workers=1,2"])
    found = measured(plan, {"n_envs 16, 2 workers": 1800.0, "n_envs 8, 2 workers": 1300.0})
    assert (found.better, found.rows[found.best].label) == (True, "n_envs 16, 2 workers")
    assert found.sentence.startswith(
        "n_envs 16, 2 workers is the fastest, beside the preset's own settings faster: 1.8"
    )
    assert found.profile is not None
    assert found.profile.settings == {"env": {"vec": "workers", "n_workers": 2, "n_envs": 16}}
    again = read_profile(profile_tables(found.profile), "there.toml")
    assert not suits(again, own, HOST, {"torch": "2.13.0"}).elsewhere
    assert any("env.n_envs 16 against 8" in note for note in found.notes)


def test_nothing_certainly_faster_sets_nothing() -> None:
    """A few percent in three rounds are no reason to change a preset; a slower one is called slower."""
    plan = plan_sweep(spec_of(), ["env.n_envs=16,32"])
    found = measured(plan, {"n_envs 16": 1020.0, "n_envs 32": 400.0})
    assert (found.better, found.best, found.profile) == (False, 0, None)
    assert "nothing was certainly faster" in found.sentence
    assert [row.ratio.verdict for row in found.rows if row.ratio is not None] == ["same", "slower"]


def test_a_setting_that_is_no_machines_own_makes_no_profile() -> None:
    """Epochs change what is learned: the table says how fast each is, and no host profile sets them."""
    plan = plan_sweep(spec_of(), ["ppo.n_epochs=1,20"])
    assert any("no host profile comes of it, because ppo.n_epochs" in note for note in plan.notes)
    found = measured(plan, {"n_epochs 1": 4000.0})
    assert (found.better, found.profile) == (True, None)


def test_what_could_not_be_measured_is_a_row_with_its_reason() -> None:
    """A combination that failed on the way has no speed, and the others are judged without it."""
    plan = plan_sweep(spec_of(), ["env.n_envs=16,32"])
    found = measured(plan, {"n_envs 16": 2000.0}, {2: "failed: out of memory"})
    assert [(row.label, row.why) for row in found.rows if row.side is None] == [("n_envs 32", "failed: out of memory")]
    assert found.rows[found.best].label == "n_envs 16"
    alone = measured(plan, {}, {1: "failed", 2: "failed"})
    assert alone.sentence == "nothing but the preset's own settings could be timed"


@pytest.mark.parametrize("noise", [0.01, 0.05, 0.15])
def test_among_equals_hardly_ever_one_is_called_faster(noise: float) -> None:
    """Of six combinations that are as fast as the preset one is called faster in less than 5 % of the sweeps, whatever
    the noise, and also where whole rounds are slow.
    """
    draws, wrong = random.Random(f"{noise}"), 0
    for _ in range(300):
        rounds = [draws.lognormvariate(0.0, 0.2) for _ in range(3)]
        rates = [[1000.0 * each * draws.lognormvariate(0.0, noise) for each in rounds] for _ in range(7)]
        wrong += any(ratio.verdict == "faster" for ratio in ratios_of(rates))
    assert wrong <= 15


def test_one_round_has_no_verdict() -> None:
    """As for two presets: one repeat has no interval."""
    (ratio,) = ratios_of([[1000.0], [2000.0]])
    assert (ratio.verdict, ratio.lo) == (None, None)
