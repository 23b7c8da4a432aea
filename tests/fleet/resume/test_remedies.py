"""Remedies: what is offered can be carried out, helps, and leaves nothing graver than it was."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.errors import MissionError, UsageError
from mission_tui.fleet.resume.judge import apply_choices, judge_resume
from mission_tui.fleet.resume.remedies import ResumeTarget, apply_remedy, chosen_remedies, overriding
from mission_tui.fleet.resume.sides import ResumeFacts, Sides
from mission_tui.fleet.resume.verdict import Change, Grade, Remedy, ResumeVerdict, Terms
from mission_tui.fleet.specs.preset import change, draft_change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from tests.fleet.resuming import FINISHED, HALFWAY, SCHEDULED, WAS, named, verdict

GRADES = get_args(Grade)
LARGE = change(WAS, ["env.n_envs=64", "ppo.batch_size=2048"])
MIDDLE = change(LARGE, ["ppo.batch_size=512"])


def offered(of: Change) -> dict[str, Remedy]:
    """The remedies of a change by name."""
    return {remedy.name: remedy for remedy in of.remedies}


def taken(was: Spec, words: list[str], *names: str, facts: ResumeFacts = HALFWAY) -> ResumeTarget:
    """What comes of resuming `was` with `words` and the remedies `names`."""
    return apply_choices(was, draft_change(was, words), facts, names, ())


@pytest.mark.parametrize(
    ("words", "field", "names"),
    [
        (["env.n_envs=64"], "env.n_envs", ["hold-steps", "target-kl", "restore"]),
        (["env.n_envs=64", "ppo.batch_size=512"], "ppo.batch_size", ["keep-minibatch", "reset-adam", "restore"]),
        (["ppo.batch_size=32"], "ppo.batch_size", ["scale-lr", "reset-adam", "target-kl", "restore"]),
        (["ppo.learning_rate=1e-2"], "ppo.learning_rate", ["warm-up", "target-kl", "restore"]),
        (["ppo.n_epochs=20"], "ppo.n_epochs", ["warm-up", "target-kl", "restore"]),
        (["ppo.gamma=0.9"], "ppo.gamma", ["restore"]),
        (["env.normalize=true"], "env.normalize", ["restore"]),
        (["ppo.net_arch=[64,8]"], "ppo.net_arch", ["branch", "restore"]),
        (["ppo.net_arch=[8]"], "ppo.net_arch", ["restore"]),
        (["ppo.batch_size=1000"], "ppo.batch_size", ["nearest", "restore"]),
        (["env.n_workers=3"], "env.n_workers", ["nearest", "restore"]),
        (["run.total_timesteps=1000"], "run.total_timesteps", ["nearest", "restore"]),
        (["run.seed=5"], "run.seed", []),
    ],
)
def test_each_grave_change_offers_what_helps(words: list[str], field: str, names: list[str]) -> None:
    """The table of the guide, by name; what is only a note needs no remedy."""
    judged = judge_resume(WAS, draft_change(WAS, words), HALFWAY)
    assert list(offered(named(judged, field))) == names


def test_scaling_the_learning_rate_is_by_the_root_of_the_minibatches() -> None:
    """2,048 to 512: half the rate for 1,000 gradient steps; that answers the change, and a target KL helps besides."""
    target = taken(LARGE, ["ppo.batch_size=512"], "scale-lr")
    assert target.terms == Terms(lr_scale=0.5, lr_scale_steps=1000)
    answered = named(judge_resume(LARGE, target.spec, HALFWAY, target.terms), "ppo.batch_size")
    assert answered.grade == "note"
    assert answered.why.startswith("answered by scale-lr")
    assert list(offered(answered)) == ["target-kl"]


def test_a_pinned_schedule_no_longer_jumps() -> None:
    """With the pin a larger total is a note; the rate goes on where it stood."""
    target = taken(SCHEDULED, ["run.total_timesteps=2M"], "pin-schedule")
    judged = judge_resume(SCHEDULED, target.spec, HALFWAY)
    assert named(judged, "run.total_timesteps").grade == "note"
    assert "0.0005 -> 0.0005" in named(judged, "ppo.learning_rate").why


def test_a_schedule_that_has_decayed_to_nothing_is_pinned_to_a_rate_that_trains() -> None:
    """A finished run with lr 0 and clip 0 goes on with a hundredth of what it started with, never with 0."""
    target = taken(SCHEDULED, ["run.total_timesteps=2M"], "pin-schedule", facts=ResumeFacts(1_000_000, finished=True))
    assert (target.spec.ppo.learning_rate, target.spec.ppo.clip_range) == (1e-5, 0.002)


WARNED = [
    *((WAS, [f"env.n_envs={count}"]) for count in (16, 32, 4, 2, 128)),
    *((WAS, [f"ppo.n_steps={count}"]) for count in (64, 128, 16)),
    *((MIDDLE, [f"ppo.batch_size={size}"]) for size in (1024, 2048, 256, 128)),
    *((WAS, [f"ppo.n_epochs={count}"]) for count in (20, 40)),
    *((WAS, [f"ppo.learning_rate={rate}"]) for rate in (1.2e-3, 3e-2)),
    *((LARGE, [f"env.n_envs={64 * by // 2}", f"ppo.batch_size={1024 * by}"]) for by in (4, 8, 1)),
    *((LARGE, [f"env.n_envs={64 * by // 2}", "ppo.batch_size=1024"]) for by in (4, 8, 1)),
    *((SCHEDULED, [f"run.total_timesteps={total}", "env.n_envs=32"]) for total in ("2M", "4M", "600k")),
    (WAS, ["env.n_envs=9"]),
    (change(WAS, ["ppo.n_epochs=3"]), ["env.n_envs=32"]),
    *((change(WAS, ["ppo.n_epochs=2"]), [f"env.n_envs={count}"]) for count in (16, 64)),
    (change(WAS, ["ppo.target_kl=0.01"]), ["env.n_envs=32"]),
    (change(WAS, ["ppo.batch_size=auto", "ppo.n_epochs=none"]), ["env.n_envs=32"]),
    (SCHEDULED, ["run.duration_s=60", "ppo.n_epochs=20"]),
    (SCHEDULED, ["env.n_envs=256", "run.total_timesteps=2M"]),
]


def warned(judged: ResumeVerdict) -> set[str]:
    """The fields that are warned of or refused."""
    return {of.name for of in judged.changes if of.grade in ("warn", "refuse")}


def pressure(spec: Spec, was: Spec) -> float:
    """Gradient steps per update times the learning rate where the run stands."""
    sides = Sides.of(was, spec, HALFWAY)
    return sides.plan_now.gradient_steps * sides.learning_rate_now


@pytest.mark.parametrize(("was", "words"), WARNED)
def test_a_remedy_that_was_taken_answers_its_warning_alone_and_beside_any_other(was: Spec, words: list[str]) -> None:
    """The field is a note, nothing else is warned of that was not before, and what was held is not held again."""
    now = change(was, words)
    judged = judge_resume(was, now, HALFWAY)
    answers = {(of.name, remedy.name) for of in judged.changes for remedy in of.remedies if remedy.name != "restore"}
    assert answers
    for field, name in answers:
        target = apply_choices(was, now, HALFWAY, [f"{name}:{field}"], ())
        alone = judge_resume(was, target.spec, HALFWAY, target.terms)
        assert warned(alone) <= warned(judged) - {field}
        assert (field, name) not in {(of.name, it.name) for of in alone.changes for it in of.remedies}
        # A rate that jumps with the budget is answered by its own remedy.
        if name in ("hold-steps", "keep-minibatch") and not words[0].startswith("run.total_timesteps"):
            assert pressure(target.spec, was) <= 1.001 * pressure(was, was)
        for of in alone.changes:
            for further in offered(of):
                pair = apply_choices(was, now, HALFWAY, [f"{name}:{field}", f"{further}:{of.name}"], ())
                both = judge_resume(was, pair.spec, HALFWAY, pair.terms)
                assert warned(both) <= warned(alone) - {of.name}
    for (field, name), (other, further) in product(answers, answers):
        eased = {name, further} <= {"reset-adam", "warm-up", "scale-lr"}
        if field == other and name != further and not eased and "keep-minibatch" not in (name, further):
            assert apply_choices(was, now, HALFWAY, [name, further], ())


@pytest.mark.parametrize(("count", "epochs", "rate"), [(16, 5, 3e-4), (32, 2, 3e-4), (64, 2, 1.875e-4)])
def test_what_holds_the_gradient_steps_is_worked_out_from_the_run_as_it_was(
    count: int, epochs: int, rate: float
) -> None:
    """Asked for again on top of its own settings, the remedy changes nothing, and no rate falls twice."""
    target = taken(WAS, [f"env.n_envs={count}"], "hold-steps")
    assert (target.spec.ppo.n_epochs, target.spec.ppo.learning_rate) == (epochs, rate)
    again = named(judge_resume(WAS, target.spec, HALFWAY), "env.n_envs")
    assert (again.grade, "hold-steps" in offered(again)) == ("note", False)


@pytest.mark.parametrize(("count", "rate"), [(16, 1.5e-4), (64, 3.75e-5)])
def test_where_epochs_cannot_be_fewer_the_rate_alone_holds_the_gradient_steps(count: int, rate: float) -> None:
    """It is on offer, answers the warning, and is not taken twice."""
    was = change(WAS, ["ppo.n_epochs=2"])
    target = taken(was, [f"env.n_envs={count}"], "hold-steps")
    assert (target.spec.ppo.n_epochs, target.spec.ppo.learning_rate) == (2, rate)
    again = named(judge_resume(was, target.spec, HALFWAY), "env.n_envs")
    assert (again.grade, again.answered_by) == ("note", "hold-steps")
    assert again.why.startswith("answered by hold-steps")
    assert again.answered_by == "hold-steps"


def test_a_target_kl_that_is_lower_already_is_not_raised() -> None:
    """The run ends its updates earlier than the remedy would, so there is nothing to offer."""
    was = change(WAS, ["ppo.target_kl=0.01"])
    assert "target-kl" not in offered(named(verdict("env.n_envs=32", was=was), "env.n_envs"))


def test_a_target_kl_is_none_of_a_clip_range_that_had_run_out() -> None:
    """Updates that end at a KL of nothing freeze the policy: it goes on with a clip range of 0.1."""
    words, facts = ["run.total_timesteps=2M", "env.n_envs=64"], ResumeFacts(1_000_000, finished=True)
    assert taken(SCHEDULED, words, "target-kl", facts=facts).spec.ppo.target_kl == 0.0075


def test_a_finished_run_with_pinned_schedules_goes_on_without_a_warning() -> None:
    """Rate and clip range had decayed to 0 and go on with a hundredth of their start."""
    facts = ResumeFacts(1_000_000, finished=True)
    target = taken(SCHEDULED, ["run.total_timesteps=2M"], "pin-schedule", facts=facts)
    assert judge_resume(SCHEDULED, target.spec, facts).grade == "note"


def test_a_contradiction_has_a_valid_value_next_to_it() -> None:
    """Three workers for eight environments become two, and the refusal is gone."""
    target = taken(WAS, ["env.n_workers=3"], "nearest")
    assert target.spec.env.n_workers == 2
    assert judge_resume(WAS, target.spec, HALFWAY).grade == "safe"


def test_a_remedy_may_be_named_for_one_field_only() -> None:
    """`restore` goes for every change that offers it, `restore:FIELD` for that one."""
    words = ["ppo.gamma=0.9", "ppo.gae_lambda=0.5"]
    assert taken(WAS, words, "restore").spec == WAS
    assert taken(WAS, words, "restore:ppo.gamma").spec == change(WAS, ["ppo.gae_lambda=0.5"])


def test_choices_follow_one_another() -> None:
    """A finished run's nearest total makes its schedule jump, and only then is there something to pin."""
    target = taken(SCHEDULED, [], "nearest", "pin-schedule", facts=FINISHED)
    assert target.spec.run.total_timesteps == 1_000_448
    assert target.spec.ppo.learning_rate == 1e-5
    with pytest.raises(UsageError, match="no remedy 'pin-schedule' is offered"):
        taken(SCHEDULED, [], "pin-schedule", "nearest", facts=FINISHED)


def test_a_remedy_that_is_not_offered_is_named_with_the_nearest() -> None:
    """A slip of the finger is not silently nothing."""
    judged = verdict("ppo.gamma=0.9")
    with pytest.raises(UsageError, match=r"no remedy 'restor' is offered here.*restore"):
        chosen_remedies(judged, ["restor"])


def test_only_refusals_that_can_be_carried_out_are_overridden() -> None:
    """A missing normalizer may be, shapes may not, and what is not refused needs none."""
    was = change(WAS, ["env.normalize=true"])
    words = ["env.normalize=false", "ppo.net_arch=[8]", "ppo.gamma=0.9"]
    now = change(was, words)
    judged = judge_resume(was, now, HALFWAY)
    terms = overriding(judged, ["env.normalize"])
    assert terms == Terms(overridden=("env.normalize",), fresh_normalizer=True)
    again = named(judge_resume(was, now, HALFWAY, terms), "env.normalize")
    assert (again.grade, again.override) == ("warn", False)
    assert again.why.startswith("overridden: ")
    for field, said in (("ppo.net_arch", "this refusal stands"), ("ppo.gamma", "it is not refused")):
        with pytest.raises(UsageError, match=said):
            overriding(judged, [field])


def test_a_policy_that_has_collapsed_is_refused_until_overridden() -> None:
    """The finding's sentence is the reason; nothing else need have changed."""
    facts = ResumeFacts(500_000, collapsed="KL below 1e-5 for 10 updates")
    judged = judge_resume(WAS, WAS, facts)
    assert (judged.grade, named(judged, "policy").override) == ("refuse", True)
    assert "KL below 1e-5" in named(judged, "policy").why
    assert judge_resume(WAS, WAS, facts, overriding(judged, ["policy"])).grade == "warn"


def test_terms_say_what_the_learning_rate_is_multiplied_by() -> None:
    """Ten updates up in equal parts; a scale for a number of steps; both at once multiply."""
    warm = Terms(warm_up_updates=10)
    assert [warm.learning_rate_factor(update, 0) for update in (0, 4, 9, 10)] == [0.1, 0.5, 1.0, 1.0]
    both = warm.joined(Terms(lr_scale=0.5, lr_scale_steps=1000))
    assert both.learning_rate_factor(0, 999) == 0.05
    assert both.learning_rate_factor(20, 1000) == 1.0
    assert both.covers(warm)
    assert not warm.covers(both)
    assert [both.over(*at) for at in ((10, 999), (9, 1000), (10, 1000))] == [False, False, True]


FIELDS = st.one_of(
    st.tuples(st.sampled_from(["env.n_envs", "ppo.n_steps", "ppo.batch_size", "ppo.n_epochs"]), st.integers(2, 300)),
    st.tuples(st.just("env.n_workers"), st.integers(1, 16)),
    st.tuples(st.just("ppo.batch_size"), st.sampled_from(["auto", "none"])),
    st.tuples(
        st.sampled_from(["ppo.learning_rate", "ppo.clip_range", "ppo.clip_range_vf"]),
        st.sampled_from(["{start=0.1,end=0.01}", "{start=0.001,end=0}", 1e-5, 1e-3]),
    ),
    st.tuples(st.sampled_from(["ppo.gamma", "ppo.gae_lambda"]), st.sampled_from([0.5, 0.99, 1.0])),
    st.tuples(st.just("run.total_timesteps"), st.integers(1, 10**7)),
    st.tuples(st.just("run.duration_s"), st.integers(1, 1000)),
    st.tuples(st.sampled_from(["run.auto_scale", "env.normalize", "ppo.use_sde"]), st.booleans()),
    st.tuples(st.just("env.normalize"), st.just("{obs=true,reward=false}")),
    st.tuples(st.just("ppo.net_arch"), st.sampled_from(["[8]", "[16]", "{pi=[8],vf=[16]}"])),
    st.tuples(st.just("env.id"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("ppo.policy_kwargs.optimizer_kwargs.eps"), st.just(1e-8)),
    st.tuples(st.just("env.wrappers"), st.just("['m:W']")),
    st.tuples(st.just("run.device"), st.sampled_from(["cpu", "cuda", "tpu"])),
)
PLAIN = Spec(preset="x", env=EnvSpec(id="a"), ppo=PpoSpec(n_steps=64), run=RunSpec(total_timesteps=10**6))


def drafted(words: list[tuple[str, object]]) -> Spec | None:
    """The spec made of `words`, contradictions and all, if each word alone is possible."""
    try:
        return draft_change(PLAIN, [f"{key}={value}" for key, value in words])
    except MissionError:
        return None


FACTS = st.builds(
    ResumeFacts,
    timesteps=st.integers(0, 10**7),
    finished=st.booleans(),
    obs_space_was=st.sampled_from([None, "Box(4,)"]),
    obs_space_now=st.sampled_from([None, "Box(4,)", "Box(5,)"]),
    grad_clipped_share=st.sampled_from([None, 0.1, 0.95]),
    collapsed=st.sampled_from([None, "entropy is gone"]),
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(FIELDS, max_size=5), st.lists(FIELDS, max_size=5), FACTS)
def test_every_remedy_of_any_two_specs_can_be_carried_out(
    was_words: list[tuple[str, object]], now_words: list[tuple[str, object]], facts: ResumeFacts
) -> None:
    """C4: one change per difference, a verdict always, and each remedy leaves it no graver than it was."""
    was, now = drafted(was_words), drafted(now_words)
    if was is None or now is None:
        return
    judged = judge_resume(was, now, facts)
    names = [change.name for change in judged.changes]
    assert len(names) == len(set(names))
    for of in judged.changes:
        assert of.why
        assert not of.remedies or of.grade in ("warn", "refuse")
        for remedy in of.remedies:
            better = apply_remedy(was, ResumeTarget(now), of.name, remedy)
            after = judge_resume(was, better.spec, facts, better.terms)
            assert GRADES.index(after.grade) <= GRADES.index(judged.grade)
            own = next((it.grade for it in after.changes if it.name == of.name), "safe")
            assert remedy.name == "branch" or (own != "refuse" and GRADES.index(own) <= GRADES.index(of.grade))


@settings(max_examples=100, deadline=None)
@given(st.lists(FIELDS, max_size=4), st.lists(FIELDS, max_size=4))
def test_every_difference_of_two_specs_is_told(
    was_words: list[tuple[str, object]], now_words: list[tuple[str, object]]
) -> None:
    """A field that was written differently and takes another effect is among the changes."""
    was, now = drafted(was_words), drafted(now_words)
    if was is None or now is None:
        return
    told = {change.name for change in judge_resume(was, now, ResumeFacts(0)).changes}
    for table in ("env", "ppo", "run"):
        for name in getattr(was, table).__struct_fields__:
            # What is chosen for a person is compared by what it comes to.
            if name not in ("batch_size", "n_epochs", "normalize"):
                differs = getattr(getattr(was, table), name) != getattr(getattr(now, table), name)
                assert not differs or f"{table}.{name}" in told
