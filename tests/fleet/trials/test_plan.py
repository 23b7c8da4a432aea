"""Budgets, seeds and specs of branches; what a branch came to by its rows; when a trial is over."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.events.metrics import Episodes, Metric, MetricRecord, TrainingStarted, UpdateDone
from mission_tui.fleet.events.outcome import Failed, Finished, Killed, Stopped
from mission_tui.fleet.specs.spec import (
    EnvSpec,
    EvaluateSpec,
    KeepSpec,
    PpoSpec,
    RestartKeep,
    RunSpec,
    Spec,
    rollout_size,
)
from mission_tui.fleet.specs.thresholds import HealthKeep, KlPersistentLimits
from mission_tui.fleet.trials import (
    BranchState,
    TypicalUpdate,
    branch_spec,
    check_pairs,
    diverged,
    is_over,
    needed_total,
    own_seed,
    pair_seeds,
    range_before,
    read_branch,
    updates_of,
    usual_pairs,
    why_it_does_not_count,
)
from tests.fleet.trials.test_verdict import plan


def row(seq: int, timesteps: int, *returns: float, update: int | None = None) -> UpdateDone:
    episodes = Episodes(n=len(returns), r=returns)
    metrics: dict[str, Metric] = {"rollout/ep_rew_mean": returns[0]} if returns else {}
    return UpdateDone(seq, 1, seq if update is None else update, timesteps, 1.0, 0.1, 0.1, 1.0, metrics, episodes)


@pytest.mark.parametrize(
    ("budget", "pace", "updates"),
    [
        ("30u", TypicalUpdate(), 30),
        ("10m", TypicalUpdate(update_s=15.0), 40),
        ("90s", TypicalUpdate(update_s=3.0), 30),
        ("1h", TypicalUpdate(update_s=60.0), 60),
        (None, TypicalUpdate(), 20),
        (None, TypicalUpdate(episodes=50.0), 20),
        (None, TypicalUpdate(episodes=4.0), 50),
        (None, TypicalUpdate(episodes=0.1), 100),
        (None, TypicalUpdate(episodes=0.01), 400),
        (None, TypicalUpdate(episodes=0.0), 100),
        (None, TypicalUpdate(update_s=12.0, episodes=2.5), 50),
        (None, TypicalUpdate(update_s=120.0, episodes=2.5), 20),
    ],
)
def test_a_budget_is_a_number_of_updates(budget: str | None, pace: TypicalUpdate, updates: int) -> None:
    """Minutes are as many as the run did in them; without one enough episodes have to end in the second half, in ten
    minutes at most.
    """
    found, said = updates_of(budget, pace)
    assert found == updates
    assert f"each branch trains {updates} updates" in said


def test_branches_that_begin_at_the_start_get_as_far_as_the_run() -> None:
    """If that is not too long at its pace; a budget that is given stays what it is."""
    assert updates_of(None, TypicalUpdate(update_s=0.1), trained=391)[0] == 391
    assert updates_of(None, TypicalUpdate(update_s=6.0), trained=391)[0] == 100
    assert updates_of(None, TypicalUpdate(update_s=600.0), trained=391)[0] == 20
    assert updates_of("30u", TypicalUpdate(update_s=0.1), trained=391)[0] == 30
    few = updates_of("20u", TypicalUpdate(episodes=0.01))[1]
    assert few.endswith("updates; too few for an episode to end: --budget 400u is the least")
    assert "too few" not in updates_of("20u", TypicalUpdate(episodes=1.0))[1]


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ("0u", "--budget 0u"),
        ("1u", "must be 2 to"),
        ("-3u", "no budget: give updates such as 20u"),
        ("ten", "no budget"),
        ("1s", "--budget 1s is 0 updates at the run's pace of 15 s each, and must be 2 to"),
        ("999999u", "must be 2 to 100,000 updates"),
    ],
)
def test_what_is_no_budget_is_refused(budget: str, why: str) -> None:
    """With what would be one."""
    with pytest.raises(UsageError, match=why):
        updates_of(budget, TypicalUpdate(update_s=15.0))


def test_minutes_need_a_pace() -> None:
    """Of a run that reported no update nobody knows how many ten minutes are."""
    with pytest.raises(UsageError, match="give --budget in updates"):
        updates_of("10m", TypicalUpdate())


def test_pairs_have_seeds_of_their_own() -> None:
    """All differ, from each other, from the run's and from those of the trial before."""
    first, second = pair_seeds(7, 1, 5), pair_seeds(7, 2, 5)
    assert len({*first, *second, 7}) == 11
    assert pair_seeds(7, 1, 5) == first
    assert len(set(pair_seeds(None, 3, 16))) == 16
    with pytest.raises(UsageError, match="cannot be tried"):
        own_seed(("ppo.gamma=0.9", "run.seed=3"))


@pytest.mark.parametrize("seeds", [0, 1, 2, 17])
def test_too_few_pairs_are_refused(seeds: int) -> None:
    """Two that agree say too little, and many would only take long."""
    with pytest.raises(UsageError, match="must be 3 to 16"):
        check_pairs(seeds)


def test_quick_branches_are_five_pairs_unasked() -> None:
    """They cost seconds and tell half the difference; of those whose pace nobody knows there are three."""
    assert usual_pairs(391, TypicalUpdate(update_s=0.03)) == 5
    assert usual_pairs(20, TypicalUpdate(update_s=6.0)) == 3
    assert usual_pairs(20, TypicalUpdate()) == 3
    assert check_pairs(None) is None


def test_a_branch_tells_nobody_and_stands_last() -> None:
    """No rule acts, nothing is evaluated or restarted; what is trained stays as it is but for the seed."""
    keep = KeepSpec(
        health=HealthKeep(kl_persistent=KlPersistentLimits(act="stop", warning=3.0), on_event="mail"),
        restart=RestartKeep(most=3),
    )
    spec = Spec(preset="x", run=RunSpec(total_timesteps=100, seed=1), keep=keep, evaluate=EvaluateSpec(every=10))
    made = branch_spec(spec, 9)
    assert (made.run.seed, made.run.total_timesteps, made.ppo, made.env) == (9, 100, spec.ppo, spec.env)
    assert (made.keep.health.kl_persistent.act, made.keep.health.kl_persistent.warning) == ("notify", 3.0)
    assert (made.keep.health.on_event, made.keep.restart.most, made.evaluate.every) == (None, 0, None)
    assert made.keep.limits.priority == -1000


def test_a_run_at_its_end_gets_the_steps_of_a_trial() -> None:
    """One that has enough left keeps its total, and with it its schedules."""
    spec = Spec(preset="x", run=RunSpec(total_timesteps=100), env=EnvSpec(n_envs=1), ppo=PpoSpec(n_steps=8))
    assert needed_total(spec, 160) == ("run.total_timesteps=160",)
    assert needed_total(spec, 100) == ()
    # The rollout in which the total is reached is trained to its end.
    assert needed_total(spec, 99 + rollout_size(spec)) == ()
    assert needed_total(spec, 100 + rollout_size(spec)) != ()


def test_a_branch_counts_with_the_second_half_of_its_budget() -> None:
    """From half of it on, up to its end: what was trained before it or after it counts for nothing."""
    rows: list[MetricRecord] = [TrainingStarted(1, 1, 0.0, 10, 1000)]
    rows += [row(2, 1500, 1.0), row(3, 2000, 2.0), row(4, 2500, 10.0, 20.0), row(5, 3000, 30.0), row(6, 3500, 900.0)]
    found = read_branch(plan(updates=20), rows)
    assert (found.mean, found.episodes, found.complete) == (20.0, 3, True)
    assert found.returns == ((1.0,), (2.0,), (10.0, 20.0), (30.0,))


def test_a_branch_that_was_cut_off_is_not_complete() -> None:
    """Nor does one without an episode in the second half have a mean."""
    found = read_branch(plan(updates=20), [row(1, 1500, 5.0), row(2, 2500)])
    assert (found.mean, found.episodes, found.complete) == (None, 0, False)


def test_the_range_is_that_of_the_past() -> None:
    """What the run reported up to the checkpoint; what it learns beside the trial is not part of it."""
    rows = [row(1, 100, 20.0, update=1), row(2, 200, 400.0, update=9), row(3, 300, -5.0, update=11)]
    assert range_before(plan(), rows) == (20.0, 400.0)
    assert range_before(plan(), []) is None
    anew = structs.replace(plan(), checkpoint="", from_update=0)
    assert range_before(anew, rows) == (-5.0, 400.0)


def test_a_trial_is_over_when_every_branch_is() -> None:
    """One that a person parked is waited for, one that was removed is not there to be."""
    done = BranchState("a", "ended", Finished("1"))
    parked = BranchState("b", "parked", Stopped("1"))
    assert is_over({("control", 1): done, ("advised", 1): done})
    assert not is_over({("control", 1): done, ("advised", 1): structs.replace(done, state="queued")})
    assert not is_over({("control", 1): done, ("advised", 1): parked})


def test_why_a_branch_says_nothing() -> None:
    """Numbers that are no numbers are an answer; every other failure is not."""
    assert why_it_does_not_count(BranchState("a", "ended", Finished("1"))) == ""
    nan = BranchState("a", "ended", Failed("nan", "loss is nan"))
    assert (diverged(nan), why_it_does_not_count(nan)) == (True, "")
    assert why_it_does_not_count(BranchState("a", "ended", Failed("env", "it raised"))) == "failed (env): it raised"
    assert why_it_does_not_count(BranchState("a", "ended", Killed(None))) == "killed by you"
