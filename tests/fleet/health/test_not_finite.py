"""`nan`: numbers that are not finite, critical at once and by name."""

from __future__ import annotations

import msgspec
import pytest

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Episodes, TrainingEnded, UpdateDone
from mission_tui.fleet.health import judge_of
from tests.fleet.recorded import SPEC, update


def judged(*rows: UpdateDone) -> list[Finding]:
    """Every change that judging `rows` in order brings."""
    judge = judge_of(SPEC)
    return [finding for row in rows for finding in judge.update(row)]


@pytest.mark.parametrize(("value", "word"), [("nan", "nan"), ("inf", "inf"), ("-inf", "-inf")])
def test_one_bad_number_is_critical_at_once(value: str, word: str) -> None:
    """The very update that holds it opens the incident, which names metric, value and update."""
    [finding] = judged(update(1, value_loss=0.5), update(2, value_loss=value))
    assert (finding.rule, finding.severity, finding.first_update, finding.state) == ("nan", "critical", 2, "open")
    assert finding.sentence == f"train/value_loss is {word} at update 2"
    assert finding.advice_set == ("ppo.learning_rate=0.00015",)
    assert finding.evidence == ({"update": 2.0, "timesteps": 2048.0, "train/value_loss": word},)


def test_it_clears_after_a_window_of_finite_updates() -> None:
    """Seven finite updates do not prove much; the eighth clears the incident."""
    rows = [update(1, loss="nan"), *(update(number, loss=1.0) for number in range(2, 10))]
    assert [finding.state for finding in judged(*rows[:-1])] == ["open"]
    assert [finding.state for finding in judged(*rows)] == ["open", "cleared"]


def test_a_run_of_bad_numbers_is_one_incident() -> None:
    """Ten bad updates are one incident, not ten alerts."""
    assert len(judged(*(update(number, loss="nan") for number in range(1, 11)))) == 1


def test_constant_returns_are_not_a_nan() -> None:
    """SB3's explained variance is NaN when returns do not vary; that is its definition."""
    assert judged(update(1, explained_variance="nan")) == []


def test_the_mean_of_no_episode_is_not_a_nan() -> None:
    """Loggers write NaN until the first episode has ended; after that, and for an infinity, it is what it says."""
    early = [update(number, tags={"rollout/ep_rew_mean": "nan", "rollout/ep_len_mean": "nan"}) for number in (1, 2)]
    assert judged(*early) == []
    [late] = judged(*early, update(3, ret=1.0), update(4, ret="nan"))
    assert late.sentence == "rollout/ep_rew_mean is nan at update 4"
    assert [finding.first_update for finding in judged(*early, update(3, ret="-inf"))] == [3]


def test_blank_is_not_nan() -> None:
    """A metric that is absent says nothing."""
    assert judged(update(1), update(2)) == []


def test_a_bad_return_points_at_the_environment() -> None:
    """When only an episode's return is not finite the cause is the environment's reward, not PPO's settings."""
    row = msgspec.structs.replace(update(1), episodes=Episodes(n=2, r=(1.0, "nan"), l=(3, 4)))
    [finding] = judged(row)
    assert finding.sentence == "an episode return is not finite at update 1"
    assert finding.cause == "CartPole-v1 gave a reward that is not finite"
    assert finding.advice_set == ()


def test_many_bad_numbers_are_not_all_named() -> None:
    """The sentence stays one line."""
    [finding] = judged(update(1, a="nan", b="nan", c="nan", d="nan", e="inf"))
    assert finding.sentence == "train/a is nan, train/b is nan, train/c is nan and 2 more at update 1"


def test_a_trainer_that_stopped_in_time_is_an_incident_too() -> None:
    """The trainer checks before it writes a row, so its last word may be all there is."""
    judge = judge_of(SPEC)
    judge.update(update(1))
    end = TrainingEnded(
        seq=3, attempt=1, update=1, timesteps=1024, t=1.0, how="failed", failure="nan", cause="the policy loss is nan"
    )
    [finding] = judge.ended(end)
    assert (finding.id, finding.severity, finding.sentence) == ("nan-1-1", "critical", "the policy loss is nan")
    assert judge.ended(end) == []
    assert judge.findings == (finding,)


def test_a_number_of_the_environment_is_not_blamed_on_the_learning_rate() -> None:
    """Where the trainer says that the environment gave it, no setting of PPO is offered as a remedy."""
    judge = judge_of(SPEC)
    judge.update(update(1))
    told = "the observation of environment 3 became nan or infinite"
    end = TrainingEnded(3, 1, 1, 1024, 1.0, "failed", failure="nan", cause=told, from_env=True)
    [finding] = judge.ended(end)
    assert (finding.sentence, finding.cause) == (told, "CartPole-v1 gave a number that is not finite")
    assert finding.advice == "look at how the environment computes it: a resume would meet it again"
    assert finding.advice_set == ()


def test_an_ordinary_end_is_no_incident() -> None:
    """A run that finished, or failed of something else, has no such finding."""
    judge = judge_of(SPEC)
    end = TrainingEnded(seq=3, attempt=1, update=1, timesteps=1024, t=1.0, how="failed", failure="oom")
    assert judge.ended(end) == []
