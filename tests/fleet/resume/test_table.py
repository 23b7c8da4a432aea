"""The table of rulings as a whole: what is refused, what is only noted, and that no field falls through."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mission_tui.errors import MissionError
from mission_tui.fleet.resume.judge import RULES, judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.resume.verdict import Grade
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.schema import TABLES
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec
from tests.fleet.resuming import WAS, named, only, verdict

GRADES = get_args(Grade)


def test_nothing_changed_is_safe() -> None:
    """An unchanged spec of an unfinished run has no changes."""
    judged = verdict()
    assert (judged.grade, judged.changes) == ("safe", ())


def test_every_field_that_touches_learning_has_a_ruling() -> None:
    """Fields of `env`, `ppo` and `run` are all in the table, and the table names no field that is not there."""
    fields = {f"{table}.{field.name}" for table, struct in TABLES.items() for field in struct.fields}
    assert set(RULES) == {name for name in fields if not name.startswith("keep.")}


@pytest.mark.parametrize(
    ("word", "grade", "said"),
    [
        ("env.id=Acrobot-v1", "refuse", "another task"),
        ("env.normalize=true", "refuse", "normalizer is added"),
        ("env.normalize={obs=false,reward=true}", "warn", "learn their new scale"),
        ("ppo.use_sde=true", "refuse", "state-dependent exploration"),
        ("ppo.net_arch=[32]", "refuse", "do not fit"),
        ("ppo.policy=CnnPolicy", "refuse", "do not fit"),
        ("ppo.policy_kwargs.activation_fn=ReLU", "refuse", "shape or function"),
        ("ppo.policy_kwargs.optimizer_kwargs={eps=1e-8}", "warn", "Adam's moments"),
        ("ppo.policy_kwargs.log_std_init=-2.0", "note", "only when a network is made"),
        ("env.kwargs.x=1", "warn", "not comparable"),
        ("env.config=demo", "warn", "not comparable"),
        ("env.wrappers=['a:B']", "warn", "not comparable"),
        ("env.imports=['a']", "note", "imported"),
        ("env.vec=inline", "note", "continued, not exact"),
        ("env.n_workers=2", "safe", "whichever process steps it"),
        ("run.device=cuda", "note", "continued, not exact"),
        ("run.threads=2", "note", "continued, not exact"),
        ("run.tf32=false", "note", "continued, not exact"),
        ("run.precision=bf16", "note", "continued, not exact"),
        ("run.compile=true", "note", "continued, not exact"),
        ("keep.checkpoint.last=5", "safe", "not what is learned"),
    ],
)
def test_each_field_has_its_grade_and_reason(word: str, grade: str, said: str) -> None:
    """The rows about what a run is and where it runs."""
    ruling = only(word)
    assert ruling.grade == grade
    assert said in ruling.why


def test_tf32_changes_nothing_on_a_cpu() -> None:
    """Only where both attempts are held to the CPU; a device chosen by `auto` may be a GPU."""
    was = change(WAS, ["run.device=cpu"])
    assert only("run.tf32=false", was=was).grade == "safe"
    assert named(verdict("run.tf32=false", "run.device=auto", was=was), "run.tf32").grade == "note"


def test_the_normalizer_is_compared_by_what_it_does() -> None:
    """`true` and the default table are the same; losing it or its parts refuses; other limits warn."""
    was = change(WAS, ["env.normalize=true"])
    assert verdict("env.normalize={obs=true,reward=true}", was=was).changes == ()
    assert "missing" in only("env.normalize=false", was=was).why
    assert only("env.normalize={reward=false}", was=was).grade == "refuse"
    assert only("env.normalize={clip_obs=5}", was=was).grade == "warn"


def test_known_spaces_that_differ_refuse() -> None:
    """Spaces are compared only where both sides are known."""
    facts = ResumeFacts(1, obs_space_was="Box(4,)", obs_space_now="Box(5,)", act_space_was="Discrete(2)")
    judged = judge_resume(WAS, WAS, facts)
    assert judged.grade == "refuse"
    assert [(change.name, change.was, change.now) for change in judged.changes] == [
        ("observation space", "Box(4,)", "Box(5,)")
    ]


def test_the_verdict_is_as_grave_as_its_gravest_change() -> None:
    """A note, a warning and a refusal together refuse."""
    judged = verdict("run.seed=2", "ppo.gamma=0.9", "env.id=Acrobot-v1")
    assert [named(judged, name).grade for name in ("run.seed", "ppo.gamma", "env.id")] == ["note", "warn", "refuse"]
    assert judged.grade == "refuse"


def test_warnings_say_why_and_mostly_what_to_do() -> None:
    """Every change that is more than a note carries a reason of its own numbers and no line break."""
    judged = verdict("env.n_envs=64", "ppo.batch_size=32", "ppo.learning_rate=1e-2", "run.total_timesteps=3M")
    assert all(change.why and (change.why + change.remedy).isprintable() for change in judged.changes)


WORDS = st.one_of(
    st.tuples(st.sampled_from(["env.n_envs", "ppo.n_steps", "ppo.batch_size", "ppo.n_epochs"]), st.integers(1, 300)),
    st.tuples(st.just("ppo.batch_size"), st.just("auto")),
    st.tuples(
        st.sampled_from(["ppo.learning_rate", "ppo.clip_range"]), st.sampled_from(["{start=0.1,end=0.01}", 1e-5])
    ),
    st.tuples(st.sampled_from(["ppo.gamma", "ppo.gae_lambda"]), st.floats(0, 1)),
    st.tuples(st.just("run.total_timesteps"), st.integers(1, 10**9)),
    st.tuples(st.just("run.duration_s"), st.integers(1, 1000)),
    st.tuples(st.just("run.auto_scale"), st.booleans()),
    st.tuples(st.just("ppo.target_kl"), st.sampled_from([0.01, "none"])),
)


def spec_from(words: list[tuple[str, object]]) -> Spec | None:
    """A valid spec made from `words`, if they make one."""
    plain = Spec(preset="x", env=EnvSpec(id="a"), ppo=PpoSpec(n_steps=64), run=RunSpec(total_timesteps=10**6))
    try:
        return change(plain, [f"{key}={value}" for key, value in words])
    except MissionError:
        return None


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(st.lists(WORDS, max_size=5), st.lists(WORDS, max_size=5), st.integers(0, 10**7), st.booleans())
def test_any_two_specs_have_a_verdict(
    was_words: list[tuple[str, object]], now_words: list[tuple[str, object]], done: int, finished: bool
) -> None:
    """Every pair is judged: one change per field, each with a reason, and a grade that sums them up."""
    was, now = spec_from(was_words), spec_from(now_words)
    if was is None or now is None:
        return
    judged = judge_resume(was, now, ResumeFacts(done, finished))
    names = [change.name for change in judged.changes]
    assert len(names) == len(set(names))
    assert all(change.why for change in judged.changes)
    gravest = max((GRADES.index(change.grade) for change in judged.changes), default=0)
    assert judged.grade == GRADES[gravest]
    if was == now and not finished and done < (now.run.total_timesteps or done + 1):
        assert judged.grade == "safe"
