"""Algorithms beside PPO: their tables, what contradicts them, what a resume, a price and a screen say of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from mission_tui.errors import PresetError, UsageError
from mission_tui.fleet.comparison_sides import changed_settings
from mission_tui.fleet.events.metrics import RETURN, Metric, UpdateDone
from mission_tui.fleet.health.judge import judge_of
from mission_tui.fleet.resume.judge import judge_resume
from mission_tui.fleet.resume.sides import ResumeFacts
from mission_tui.fleet.specs.assignment import complete, expand
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import (
    PresetFile,
    as_tables,
    change,
    check_live,
    draft_change,
    from_tables,
    read_preset,
    resolve,
)
from mission_tui.fleet.specs.sizes import plan_batch, replay_size
from mission_tui.fleet.specs.spec import Spec, rollout_size
from tests.fleet.resuming import WAS

SAC = 'algo = "sac"\n[env]\nid = "Pendulum-v1"\n[run]\ntotal_timesteps = 20_000\n'


def no_base(name: str) -> PresetFile:
    raise UsageError(f"no preset is called {name}")


def spec_of(*words: str, text: str = SAC) -> Spec:
    preset = read_preset(tomllib.loads(text), Path("mine.toml"))
    return resolve(preset, no_base, expand(words)[0] if words else ())


def test_a_spec_has_the_table_of_its_algorithm_and_no_other() -> None:
    """It is written and read back whole; of PPO, and of every other algorithm, nothing is in it."""
    spec = spec_of("sac.tau=0.01")
    tables = as_tables(spec)
    assert tables["run"]["algo"] == "sac"
    assert tables["sac"]["tau"] == 0.01
    assert not {"ppo", "td3", "dqn"} & tables.keys()
    assert from_tables(tables, "spec.toml") == spec
    assert (spec.env.n_envs, rollout_size(spec), plan_batch(spec).gradient_steps) == (1, 500, 500)


def test_a_spec_of_ppo_is_written_as_before() -> None:
    """No key of another algorithm comes into it."""
    tables = as_tables(WAS)
    assert "algo" not in tables["run"]
    assert "replay_buffer" not in tables["keep"]["checkpoint"]
    assert not {"sac", "td3", "ddpg", "dqn", "a2c", "tqc", "trpo", "qrdqn", "crossq", "ars"} & tables.keys()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run.algo=sax",), "did you mean 'sac'?"),
        (("ppo.algo=sac",), "is named by run.algo = 'sac'"),
        (("sac.learning_rat=1",), "unknown key sac.learning_rat; did you mean 'learning_rate'?"),
        (("sac.learning_rate=fast",), "sac.learning_rate = 'fast' must be a finite number"),
        (("sac.batch_size=0",), "the nearest valid value is 1"),
        (("sac.ent_coef=outo",), "the nearest valid value is 'auto'"),
        (("sac.policy=MlpPolic",), "did you mean 'MlpPolicy'?"),
        (("sac.net_arch.vf=[8]",), "unknown key sac.net_arch.'vf'; valid here: pi, qf"),
        (("td3.tau=0.1",), "[td3] has no effect with run.algo = 'sac'"),
        (("ppo.n_steps=64",), "ppo.n_steps has no effect with run.algo = 'sac'; the nearest valid key is sac.n_steps"),
        (("run.precision=bf16",), "run.precision is for PPO alone"),
        (("sac.train_freq=episode", "env.n_envs=2"), "the nearest valid is env.n_envs = 1"),
        (("run.algo=a2c", "keep.checkpoint.replay_buffer=false"), "has no effect with a2c"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_is_near(words: tuple[str, ...], said: str) -> None:
    """By key and value, before anything starts."""
    with pytest.raises(PresetError) as refused:
        spec_of(*words)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("env.n_envs=4",),
            "plays one episode after the other, and env.n_envs = 4; the nearest valid value is env.n_en",
        ),
        (("ars.n_top=9",), "more than there are perturbations (ars.n_delta = 8); the nearest valid value is 8"),
        (("ars.net_arch=[8]",), "ars.net_arch has no effect with LinearPolicy"),
        (("ars.delta_std.start=0", "ars.delta_std.end=0"), "ars.delta_std is 0 from start to end"),
        (("ars.learning_rate.start=2",), "ars.learning_rate.start must be at most 1"),
        (("ars.gamma=0.9",), "unknown key ars.gamma"),
    ],
)
def test_what_contradicts_a_random_search_is_refused(words: tuple[str, ...], said: str) -> None:
    """ARS has one environment, as many best perturbations as there are, and no discount."""
    assert spec_of("run.algo=ars").env.n_envs == 1
    with pytest.raises(PresetError) as refused:
        spec_of("run.algo=ars", *words)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("words", "grade", "said"),
    [
        (("ars.learning_rate=0.2",), "warn", "0.02 -> 0.2 at this point: the weights move so much further"),
        (("ars.learning_rate=0.01",), "note", "takes effect at the next iteration"),
        (("ars.delta_std=0.1",), "note", "takes effect at the next iteration"),
        (("ars.n_delta=16",), "note", "takes effect at the next iteration"),
        (("ars.policy=MlpPolicy",), "refuse", "do not fit"),
        (("ars.alive_bonus_offset=-1",), "warn", "ranked by other returns"),
        (("ars.zero_policy=false",), "note", "changes nothing here"),
    ],
)
def test_a_resumed_search_is_judged_by_what_an_iteration_is(words: tuple[str, ...], grade: str, said: str) -> None:
    """No word of moments, gradients or a critic, which it has not."""
    was = spec_of("run.algo=ars")
    (change,) = judge_resume(was, draft_change(was, words), ResumeFacts(5000)).changes
    assert change.grade == grade
    assert said in change.why


def test_the_schedules_of_a_search_can_be_set_while_it_trains() -> None:
    """Step size and exploration, each as a number or a schedule."""
    check_live(spec_of("run.algo=ars"), ("ars.learning_rate=0.01", "ars.delta_std.end=0.01"))
    with pytest.raises(UsageError, match=r"ars\.learning_rate, ars\.delta_std"):
        check_live(spec_of("run.algo=ars"), ("ars.n_delta=4",))
    with pytest.raises(UsageError):
        check_live(spec_of(), ("sac.delta_std=0.1",))


def test_an_update_of_whole_episodes_is_known_by_its_least() -> None:
    """An iteration is two episodes for each perturbation, of one step each at least."""
    assert rollout_size(spec_of("run.algo=ars")) == 512
    assert rollout_size(spec_of("run.algo=ars", "ars.n_delta=300")) == 600


def test_another_algorithm_takes_nothing_over_from_the_one_below() -> None:
    """`--set run.algo=td3` over a preset of SAC leaves SAC's settings behind, and PPO's just so."""
    spec = spec_of("run.algo=td3", text=SAC + "[sac]\ntau = 0.1\n")
    assert spec.td3 is not None
    assert spec.sac is None
    assert change(spec, ("run.algo=ppo", "env.n_envs=8")).td3 is None
    assert change(WAS, ("run.algo=a2c",)).a2c is not None


@pytest.mark.parametrize(
    ("words", "name", "grade", "said"),
    [
        (("run.algo=td3",), "run.algo", "refuse", "another algorithm"),
        (("sac.learning_rate=0.003",), "sac.learning_rate", "warn", "10 x larger"),
        (("sac.learning_rate=0.0001",), "sac.learning_rate", "note", "smaller steps"),
        (("sac.gamma=0.9",), "sac.gamma", "warn", "from 100 to 10 steps"),
        (("sac.buffer_size=1000",), "sac.buffer_size", "warn", "the newest 1,000 transitions stay"),
        (("env.n_envs=4",), "env.n_envs", "warn", "a gradient step for every 1 transitions was, for every 4 is"),
        (("sac.ent_coef=0.1",), "sac.ent_coef", "refuse", "part of the checkpoint"),
        (("sac.net_arch=[64]",), "sac.net_arch", "refuse", "do not fit"),
        (("keep.checkpoint.replay_buffer=false",), "keep.checkpoint", "safe", "what is kept"),
        (("ppo.learning_rate=0.003",), "ppo.learning_rate", "refuse", "the nearest valid key is sac.learning_rate"),
        (("td3.tau=0.1",), "td3", "refuse", "has no effect with run.algo = 'sac'"),
    ],
)
def test_a_resume_with_other_settings_is_judged(words: tuple[str, ...], name: str, grade: str, said: str) -> None:
    """As for PPO where it means the same, and by what a replay buffer does where it does not."""
    was = spec_of()
    changes = {it.name: it for it in judge_resume(was, draft_change(was, words), ResumeFacts(5000)).changes}
    assert list(changes) == [name]
    assert changes[name].grade == grade
    assert said in changes[name].why


def test_a_resume_without_its_replay_buffer_says_what_is_no_longer_exact() -> None:
    """The verdict of a checkpoint that has none; one that has it is safe."""
    was = spec_of()
    (empty,) = judge_resume(was, was, ResumeFacts(5000, replay_kept=False)).changes
    assert "continued, not exact" in empty.why
    assert judge_resume(was, was, ResumeFacts(5000, replay_kept=True)).grade == "safe"


def test_while_it_trains_its_learning_rate_can_be_set() -> None:
    """Nothing else of it, and nothing of PPO."""
    check_live(spec_of(), ("sac.learning_rate=1e-4", "run.total_timesteps=30000"))
    with pytest.raises(UsageError, match=r"sac\.learning_rate"):
        check_live(spec_of(), ("sac.tau=0.1",))
    with pytest.raises(UsageError, match=r"such as sac\.learning_rate=1e-4"):
        check_live(spec_of(), ())
    with pytest.raises(UsageError, match=r"ppo\.learning_rate has no effect .* the nearest valid key is sac\.lear"):
        check_live(spec_of(), ("ppo.learning_rate=1e-4",))


def test_what_is_typed_is_completed_by_the_keys_of_its_algorithm() -> None:
    """Keys of other tables would be refused, so they are not offered."""
    offered = [it.text for it in complete("learning_", spec_of())]
    assert offered == ["sac.learning_rate=", "sac.learning_starts="]
    assert [it.text for it in complete("learning_", WAS)] == ["ppo.learning_rate="]
    assert "sac" in [it.text for it in complete("run.algo=s", WAS)]


@pytest.mark.parametrize(
    ("words", "full", "kept"),
    [
        # 3 numbers twice, an action, reward, end and timeout: 40 bytes.
        ((), 40_000_000, 800_000),
        (("sac.buffer_size=1000",), 40_000, 40_000),
        (("keep.checkpoint.replay_buffer=false",), 40_000_000, 0),
    ],
)
def test_a_replay_buffer_is_sized_by_its_observations(words: tuple[str, ...], full: int, kept: int) -> None:
    """In memory whole, in a checkpoint as far as the run fills it."""
    size = replay_size(spec_of(*words))
    assert size is not None
    assert (size.full_bytes, size.checkpoint_bytes, size.assumed) == (full, kept, False)
    assert replay_size(WAS) is None


def test_a_run_that_would_never_learn_is_cautioned_about() -> None:
    """Its budget is over before it begins to learn."""
    assert any("it would learn nothing" in said for said in cautions(spec_of("sac.learning_starts=20000")))


def test_rules_of_a_ppo_update_do_not_judge_it() -> None:
    """From the first row on, also before an algorithm has logged what tells it."""
    rules: Any = judge_of(spec_of())._rules
    assert {"drawdown", "stall", "value-loss", "ent-coef"} <= {rule.id for rule in rules}
    assert not {"kl-spike", "clip-fraction", "explained-variance"} & {rule.id for rule in rules}


@pytest.mark.parametrize(
    ("words", "tags", "rate"),
    [
        (("run.algo=dqn", "env.id=CartPole-v1"), {"rollout/exploration_rate": 0.05}, 5e-05),
        (("sac.ent_coef=0.2", "sac.learning_rate=0.003"), {"train/ent_coef": 0.2, "train/critic_loss": 1.0}, 0.0015),
    ],
)
def test_its_findings_name_its_own_settings_and_measure_by_nothing_of_ppo(
    words: tuple[str, ...], tags: dict[str, float], rate: float
) -> None:
    """A return that is lost: no key of PPO, no multiple of PPO's gradient steps, no entropy bonus of SAC."""
    spec = spec_of(*words)
    judge = judge_of(spec)
    for n in range(1, 340):
        level = 20.0 + n if n < 100 else 10.0
        metrics: dict[str, Metric] = {RETURN: level + n * 7919 % 11 / 5.0, "rollout/ep_len_mean": 200.0, **tags}
        judge.update(UpdateDone(n, 1, n, 500 * n, float(n), 0.5, 0.5, 500.0, metrics))
    (found,) = [it for it in judge.findings if it.rule == "drawdown"]
    name = spec.run.algo
    assert found.advice_set == (f"{name}.learning_rate={rate:.3g}",)
    said = f"{found.sentence} {found.cause} {found.proposal}"
    assert "a learning rate of" in said
    assert not any(word in said for word in ("ppo", "PPO", "reference", "ent_coef", "gradient steps"))
    assert draft_change(spec, found.advice_set) != spec


def test_a_comparison_lists_the_settings_of_the_algorithm_that_trains() -> None:
    """Those of PPO, which did not train, are no difference."""
    named = {row.name for row in changed_settings(spec_of(), spec_of("run.algo=td3"))}
    assert {"run.algo", "td3.policy_delay", "sac.ent_coef"} <= named
    assert not any(name.startswith("ppo.") for name in named)
