"""What two arms of branches say, and how often that is wrong."""

from __future__ import annotations

import random
import statistics

import pytest
from msgspec import structs

from mission_tui.fleet.events.trials import TrialPlan, TrialVerdict, mean_word, signed_word, trial_sentence
from mission_tui.fleet.trials import BranchEnd, BranchReading, judge_trial, word

RANGE = (0.0, 500.0)


def plan(pairs: int = 3, updates: int = 20) -> TrialPlan:
    return TrialPlan(
        number=1,
        checkpoint="000001000",
        from_update=10,
        from_timesteps=1000,
        until_timesteps=1000 + 100 * updates,
        updates=updates,
        seeds=tuple(range(1, pairs + 1)),
        group="cart-try1",
        assignments=("ppo.learning_rate=0.001",),
    )


def branch(mean: float | None, **more: object) -> BranchEnd:
    returns = () if mean is None else ((mean,),)
    return BranchEnd(f"run-{mean}", BranchReading(mean, len(returns), returns, complete=True), **more)  # type: ignore[arg-type]


def judged(pairs: list[tuple[float, float]], before: tuple[float, float] = RANGE) -> TrialVerdict:
    ends = [(branch(control), branch(advised)) for control, advised in pairs]
    return judge_trial(plan(len(pairs)), ends, before)


def test_a_difference_that_all_pairs_agree_on_helps() -> None:
    """The interval lies above zero."""
    said = judged([(20.0, 300.0), (25.0, 320.0), (22.0, 290.0)])
    assert said.says == "helps"
    assert float(said.low or 0) > 0
    assert said.best == "run-320.0"
    assert trial_sentence(plan(), said).startswith("helps: return 303.3 against 22.33 (+281, ")


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("env.kwargs.gravity=1", "; with another env.kwargs the same return may mean something else"),
        ("env.wrappers=[]", "; with another env.wrappers the same return may mean something else"),
        ("env.n_envs=4", "3 pairs of 20 updates)"),
    ],
)
def test_an_easier_task_is_not_passed_off_as_help(assignment: str, said: str) -> None:
    """Where rules of the environment differ between the arms, the answer says so."""
    other = structs.replace(plan(), assignments=("ppo.gamma=0.9", assignment))
    assert trial_sentence(other, judged([(20.0, 300.0), (25.0, 320.0), (22.0, 290.0)])).endswith(said)


def test_a_difference_below_zero_hurts() -> None:
    """The interval lies below zero."""
    assert judged([(480.0, 20.0), (490.0, 30.0), (470.0, 25.0)]).says == "hurts"


def test_branches_that_are_the_same_make_no_difference() -> None:
    """Settings that change nothing leave both branches of a pair the same to the last bit, whatever pairs scatter."""
    said = judged([(20.0, 20.0), (300.0, 300.0), (120.0, 120.0)])
    assert (said.says, said.identical, said.low, said.high) == ("no difference", True, 0.0, 0.0)
    assert "the same" in trial_sentence(plan(), said)


def test_a_certain_difference_that_nobody_would_act_on_is_none() -> None:
    """Three points of 500 are surely more than nothing, and surely less than a tenth of the range."""
    said = judged([(400.0, 403.0), (410.0, 413.1), (390.0, 392.9)])
    assert (said.says, said.identical, said.margin) == ("no difference", False, 50.0)


def test_pairs_that_disagree_are_too_noisy_and_say_what_would_tell() -> None:
    """More updates narrow an interval, and so do more seeds."""
    said = judged([(100.0, 180.0), (100.0, 150.0), (100.0, 250.0)])
    assert said.says == "too noisy"
    assert said.more_updates is not None
    assert said.more_seeds is not None
    assert f"about {said.more_updates} more updates in each branch" in trial_sentence(plan(), said)
    assert "about 1 more update in each branch" in trial_sentence(plan(), structs.replace(said, more_updates=1))


def test_hopeless_noise_promises_nothing() -> None:
    """Where twenty times the budget would not tell, no number of updates is named."""
    said = judged([(0.0, 400.0), (400.0, 0.0), (10.0, 12.0)], (0.0, 400.0))
    assert (said.says, said.more_updates) == ("too noisy", None)


def test_a_branch_that_diverged_counts_as_the_worst_that_was_seen() -> None:
    """Numbers that are no numbers are what its settings came to, whatever it scored before."""
    gone = BranchEnd("x", BranchReading(450.0, 3, (), complete=False), diverged=True)
    ends = [(branch(400.0), gone), (branch(410.0), gone), (branch(390.0), gone)]
    said = judge_trial(plan(), ends, (20.0, 500.0))
    assert (said.says, said.advised) == ("hurts", 20.0)


def test_branches_that_ended_for_other_reasons_do_not_count() -> None:
    """With fewer than three pairs left nothing is said, but why."""
    killed = BranchEnd("x", BranchReading(20.0, 1, (), complete=False), why="killed: on request")
    said = judge_trial(plan(), [(branch(1.0), killed), (branch(1.0), branch(2.0)), (branch(1.0), branch(2.0))], RANGE)
    assert said.says == "failed"
    assert "advised 1 killed: on request" in said.why


def test_a_branch_without_an_episode_says_nothing() -> None:
    """There is no return to compare; what all pairs lack is said once."""
    said = judge_trial(plan(), [(branch(None), branch(1.0))] * 3, RANGE)
    assert said.says == "failed"
    lacking = "no episode of control 1 ended in the second half of its budget: give a larger one"
    assert said.why == f"0 of 3 pairs count and 3 are needed: {lacking}"


def test_words_follow_the_interval() -> None:
    """Within the margin comes first: what is surely little is no help."""
    assert word(5.0, 2.0, 10.0) == "no difference"
    assert word(9.0, 2.0, 10.0) == "helps"
    assert word(-9.0, 2.0, 10.0) == "hurts"
    assert word(5.0, 8.0, 10.0) == "too noisy"


def _normal(draw: random.Random, pairs: int) -> list[tuple[float, float]]:
    return [(draw.gauss(250, 80), draw.gauss(250, 80)) for _ in range(pairs)]


def _skewed(draw: random.Random, pairs: int) -> list[tuple[float, float]]:
    return [(draw.lognormvariate(4, 1), draw.lognormvariate(4, 1)) for _ in range(pairs)]


def _learns_or_not(draw: random.Random, pairs: int) -> list[tuple[float, float]]:
    """The worst case: each branch learns or does not, and little scatters beside that."""
    return [tuple(draw.choice((20.0, 480.0)) + draw.gauss(0, 3) for _ in range(2)) for _ in range(pairs)]  # type: ignore[misc]


def _alike_within_pairs(draw: random.Random, pairs: int) -> list[tuple[float, float]]:
    luck = [draw.gauss(250, 100) for _ in range(pairs)]
    return [(each + draw.gauss(0, 40), each + draw.gauss(0, 40)) for each in luck]


def _autocorrelated(draw: random.Random, pairs: int) -> list[tuple[float, float]]:
    """Means of ten updates, each carrying over 80 % of the noise before it."""

    def mean() -> float:
        noise, values = draw.gauss(0, 60), []
        for _ in range(10):
            noise = 0.8 * noise + draw.gauss(0, 36)
            values.append(250.0 + noise)
        return statistics.fmean(values)

    return [(mean(), mean()) for _ in range(pairs)]


@pytest.mark.parametrize("pairs", [3, 5])
@pytest.mark.parametrize("noise", [_normal, _skewed, _learns_or_not, _alike_within_pairs, _autocorrelated])
def test_seed_noise_alone_is_called_an_effect_in_at_most_one_of_twenty(noise: object, pairs: int) -> None:
    """Arms that differ by nothing but seeds: helps and hurts together stay below 5 %, give or take the simulation's."""
    draw, trials = random.Random(7), 4000
    said = [judged(noise(draw, pairs)).says for _ in range(trials)]  # type: ignore[operator]
    wrong = sum(each in ("helps", "hurts") for each in said) / trials
    assert wrong <= 0.05 + 3 * (0.05 * 0.95 / trials) ** 0.5


def test_the_updates_that_it_names_would_tell() -> None:
    """With as many more, means scatter less by the square root, and most of such trials have a verdict."""
    draw, told, asked = random.Random(3), 0, 0
    while asked < 300:
        first = [(0.0, draw.gauss(60, 40)) for _ in range(3)]
        said = judged(first)
        if said.more_updates is None:
            continue
        asked += 1
        spread = 40 / ((20 + said.more_updates) / 20) ** 0.5
        told += judged([(0.0, draw.gauss(60, spread)) for _ in range(3)]).says != "too noisy"
    assert told / asked > 0.5


def test_returns_in_thousands_are_written_out() -> None:
    """As tasks like HalfCheetah have them: no powers of ten below a million, and no signed zero."""
    assert [mean_word(value) for value in (12_345.6, 3678.4, 2e6)] == ["12,346", "3,678", "2e+06"]
    words = [signed_word(value) for value in (1234.5, -999.6, 81.0, -0.0123, 0.0, -0.0, None)]
    assert words == ["+1,234", "-1,000", "+81", "-0.0123", "0", "0", "–"]
