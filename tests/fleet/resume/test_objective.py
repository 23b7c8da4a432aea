"""Rulings on learning rate, budget, schedules and returns."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mission_tui.fleet.resume.judge import apply_choices, judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Schedule
from tests.fleet.resuming import FINISHED, HALFWAY, SCHEDULED, WAS, named, only, verdict


@pytest.mark.parametrize(("rate", "grade"), [("1e-3", "warn"), ("5e-4", "note"), ("1e-4", "note")])
def test_a_learning_rate_may_double_quietly(rate: str, grade: str) -> None:
    """More than twice the rate warns; up to that, and down, is a note."""
    assert only(f"ppo.learning_rate={rate}").grade == grade


def test_a_jump_of_the_learning_rate_says_what_adam_does() -> None:
    """The warning holds the ratio and the gradient steps per update."""
    why = only("ppo.learning_rate=1.2e-3").why
    assert "0.0003 -> 0.0012" in why
    assert "Adam" in why
    assert "40 gradient steps per update is 4 x larger" in why


def test_a_schedule_is_compared_where_the_run_stands() -> None:
    """Halfway down from 1e-3 the rate is 5e-4, so a constant 8e-4 is no doubling."""
    assert only("ppo.learning_rate=8e-4", was=SCHEDULED).grade == "note"
    assert only("ppo.learning_rate=2e-3", was=SCHEDULED).grade == "warn"


def test_a_decayed_rate_cannot_rise_quietly() -> None:
    """From 0 any rate is a jump."""
    ruling = named(
        verdict("ppo.learning_rate=1e-4", "run.total_timesteps=2M", was=SCHEDULED, facts=FINISHED), "ppo.learning_rate"
    )
    assert ruling.grade == "warn"
    assert "decayed to 0" in ruling.why


def test_more_steps_with_a_constant_rate_are_a_note() -> None:
    """What a resume is for needs no accepting."""
    ruling = only("run.total_timesteps=2M")
    assert (ruling.grade, ruling.why) == ("note", "1,500,000 steps remain")


def test_more_steps_with_schedules_show_the_jump_and_the_pin() -> None:
    """Progress is recomputed: both schedules jump, and the pinned starts keep today's values."""
    ruling = only("run.total_timesteps=2M", was=SCHEDULED)
    assert ruling.grade == "warn"
    assert "ppo.learning_rate 0.0005 -> 0.00075" in ruling.why
    assert "ppo.clip_range 0.1 -> 0.15" in ruling.why
    words = [word for word in ruling.remedy.split() if word.startswith("ppo.")]
    pinned = change(SCHEDULED, ["run.total_timesteps=2M", *words])
    assert isinstance(pinned.ppo.learning_rate, Schedule)
    assert 0.75 * pinned.ppo.learning_rate.start == pytest.approx(5e-4, rel=1e-3)


def test_a_finished_run_needs_a_larger_total() -> None:
    """Unchanged, a finished run is refused, from any checkpoint, with the nearest total; larger, it goes on."""
    refused = only(facts=FINISHED)
    assert (refused.name, refused.grade) == ("run.total_timesteps", "refuse")
    assert refused.remedy == "the nearest valid value is 1000448"
    assert verdict("run.total_timesteps=2M", facts=FINISHED).grade == "note"
    earlier = ResumeFacts(timesteps=500_000, finished=True)
    assert only(facts=earlier).grade == "refuse"
    assert verdict("run.total_timesteps=1_000_001", facts=earlier).grade == "note"


def test_a_total_below_what_is_done_is_refused() -> None:
    """Nothing would remain."""
    ruling = only("run.total_timesteps=400k")
    assert ruling.grade == "refuse"
    assert "500,000 steps are done already" in ruling.why


def test_a_finished_timed_run_needs_more_time() -> None:
    """The same for a budget in seconds."""
    was = change(WAS, ["run.duration_s=60"])
    refused = only(was=was, facts=FINISHED)
    assert (refused.name, refused.grade) == ("run.duration_s", "refuse")
    assert only("run.duration_s=120", was=was, facts=FINISHED).grade == "note"
    assert verdict(was=was, facts=HALFWAY).changes == ()


def test_another_kind_of_budget_tells_the_jump_once() -> None:
    """From steps to seconds is a note, unless schedules restart."""
    assert verdict("run.duration_s=60").grade == "note"
    judged = verdict("run.duration_s=60", was=SCHEDULED)
    assert [change.grade for change in judged.changes] == ["note", "warn"]


@pytest.mark.parametrize(
    ("word", "grade", "said"),
    [
        ("ppo.clip_range=0.1", "warn", "KL of 0.02 was one unit of trust region, now 0.005"),
        ("ppo.gamma=0.999", "warn", "from 100 to 1,000 steps"),
        ("ppo.gamma=1", "warn", "from 100 to unlimited steps"),
        ("ppo.gae_lambda=0.99", "warn", "more noise and less bias"),
        ("ppo.ent_coef=0.01", "note", "not comparable"),
        ("ppo.vf_coef=0.6", "note", "not comparable"),
        ("ppo.max_grad_norm=1", "note", "clipped at another norm"),
        ("ppo.target_kl=0.02", "note", "end sooner, at a KL of 0.03"),
        ("ppo.normalize_advantage=false", "warn", "Adam's moments"),
        ("run.seed=2", "note", "replay the first attempt's starts"),
    ],
)
def test_each_objective_has_its_grade_and_reason(word: str, grade: str, said: str) -> None:
    """The rows of the table, one by one."""
    ruling = only(word)
    assert (ruling.name, ruling.grade) == (word.partition("=")[0], grade)
    assert said in ruling.why


def test_a_timed_schedule_is_judged_from_its_start() -> None:
    """Without a total, progress is not known, and the start of the schedule is taken."""
    was = change(SCHEDULED, ["run.duration_s=60"])
    ruling = only("ppo.learning_rate=1e-3", was=was, facts=ResumeFacts(timesteps=10))
    assert "0.001 -> 0.001" in ruling.why


def test_a_finished_run_can_train_as_long_again() -> None:
    """The new total and what it takes at the last speed are said; taken, the run goes on. The same by time."""
    facts = replace(FINISHED, steps_per_s=1000.0)
    again = only(facts=facts).remedies[0]
    assert (again.name, again.assignments) == ("as-long-again", ("run.total_timesteps=2000192",))
    assert again.what == "2,000,192 steps in all: 1,000,000 more, about 17 minutes at its last speed"
    target = apply_choices(WAS, WAS, facts, ("as-long-again",), ())
    assert judge_resume(WAS, target.spec, facts, target.terms).grade == "note"
    timed = only(was=change(WAS, ["run.duration_s=60"]), facts=FINISHED)
    assert timed.remedies[0].what == "120 s in all: 60 s more"
