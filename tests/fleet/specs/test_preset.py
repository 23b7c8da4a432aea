"""Resolving presets: layers, what `--set` may say, and refusals that name source, key and what would be valid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from mission_tui.errors import MissionError, PresetError, UsageError
from mission_tui.fleet.specs.assignment import expand
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import PresetFile, change, read_preset, resolve
from mission_tui.fleet.specs.spec import Normalize, Schedule, Spec

TABLE: dict[str, Any] = {
    "env": {"id": "CartPole-v1", "n_envs": 32},
    "ppo": {"n_steps": 256, "batch_size": 2048},
    "run": {"total_timesteps": 1_000_000},
}


def preset(table: dict[str, Any] | None = None, name: str = "my") -> PresetFile:
    """A preset as read from `presets/<name>.toml`."""
    return read_preset(TABLE if table is None else table, Path(f"presets/{name}.toml"))


def no_base(name: str) -> PresetFile:
    """For presets that extend nothing."""
    raise AssertionError(f"nobody extends {name}")


def with_set(*words: str, table: dict[str, Any] | None = None) -> Spec:
    """The one run of a preset with `--set` words."""
    (assignments,) = expand(words)
    return resolve(preset(table), no_base, assignments)


def refusal(*words: str, table: dict[str, Any] | None = None) -> str:
    """The sentence with which a preset or its `--set` words are refused."""
    with pytest.raises(PresetError) as caught:
        with_set(*words, table=table)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_nobody_wrote_stays_unwritten() -> None:
    """`n_epochs` and `seed` are None in the spec, and SB3's other defaults are filled in."""
    spec = with_set()
    assert spec.preset == "my"
    assert spec.ppo.n_epochs is None
    assert spec.run.seed is None
    assert spec.ppo.batch_size == 2048
    assert spec.ppo.learning_rate == 3e-4


def test_extends_lays_a_preset_over_its_base() -> None:
    """Fields add up table by table, kwargs key by key, and values such as schedules are replaced as a whole."""
    base = {
        "description": "base",
        "env": {"id": "CartPole-v1", "n_envs": 8, "kwargs": {"a": 1, "b": {"x": 1, "y": 2}}},
        "ppo": {"n_steps": 128, "learning_rate": {"start": 1e-3, "end": 1e-4}},
        "run": {"total_timesteps": 1000},
        "keep": {"checkpoint": {"last": 7}},
    }
    mine = {
        "extends": "base",
        "env": {"n_envs": 16, "kwargs": {"b": {"y": 3}}},
        "ppo": {"learning_rate": {"start": 5e-4}},
        "keep": {"checkpoint": {"every_s": 60}},
    }
    spec = resolve(preset(mine), lambda name: preset(base, name))
    assert spec.env.n_envs == 16
    assert spec.env.kwargs == {"a": 1, "b": {"x": 1, "y": 3}}
    assert spec.ppo.n_steps == 128
    assert spec.ppo.learning_rate == Schedule(start=5e-4, end=0.0)
    assert (spec.keep.checkpoint.last, spec.keep.checkpoint.every_s) == (7, 60.0)
    assert spec.description == ""


def test_extends_goes_one_level_deep() -> None:
    """A base that extends another one, and a set as base, are refused with both names."""
    deeper = preset({"extends": "root"}, "base")
    with pytest.raises(PresetError, match=r"presets/my\.toml: .*'base'.*presets/base\.toml itself extends 'root'"):
        resolve(preset({"extends": "base"}), lambda name: deeper)
    trio = preset({"launch": ["a", "b"]}, "trio")
    with pytest.raises(PresetError, match="is a set of presets"):
        resolve(preset({"extends": "trio"}), lambda name: trio)


def test_a_set_has_no_spec_of_its_own() -> None:
    """Resolving a set names the presets to launch instead; a set takes no tables beside `launch`."""
    with pytest.raises(PresetError, match="launch its presets: fast, heavy"):
        resolve(preset({"launch": ["fast", "heavy"]}), no_base)
    with pytest.raises(PresetError, match="has no ppo"):
        preset({"launch": ["fast"], "ppo": {}})


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"ppo": {"n_stpes": 1}}, "presets/my.toml: unknown key ppo.n_stpes; did you mean 'n_steps'?"),
        ({"pppo": {}}, "presets/my.toml: unknown key pppo; did you mean 'ppo'?"),
        ({"n_steps": 5}, "presets/my.toml: unknown key n_steps; did you mean 'ppo.n_steps'?"),
        ({"lr": 1e-3}, "presets/my.toml: unknown key lr; did you mean 'ppo.learning_rate'?"),
        ({"ppo": {"lr": 1e-3}}, "presets/my.toml: unknown key ppo.lr; did you mean 'ppo.learning_rate'?"),
        ({"ppo": {"n_envs": 5}}, "presets/my.toml: unknown key ppo.n_envs; did you mean 'env.n_envs'?"),
        ({"lauch": ["fast"]}, "presets/my.toml: unknown key lauch; did you mean 'launch'?"),
        (
            {"keep": {"checkpoint": {"lst": 3}}},
            "presets/my.toml: unknown key keep.checkpoint.lst; did you mean 'last'?",
        ),
        (
            {"ppo": {"learning_rate": {"start": 1e-3, "xyz": 1}}},
            "presets/my.toml: unknown key ppo.learning_rate.xyz; valid here: start, end, kind",
        ),
        ({"ppo": 3}, "presets/my.toml: ppo = 3 must be a table of policy, n_steps"),
        ({"key": 3}, "presets/my.toml: key = 3 must be a digit in quotes"),
        ({"key": "P"}, "presets/my.toml: key = 'P' must be a digit in quotes"),
        ({"name": "../x"}, "presets/my.toml: name = '../x' must be 1 to 64 letters"),
        ({"launch": []}, "presets/my.toml: launch = [] names no preset; give some, such as"),
        ({"launch": ["a", 3]}, "presets/my.toml: launch[1] = 3 must be 1 to 64 letters"),
        ({"description": 3}, "presets/my.toml: description = 3 must be text in quotes"),
    ],
)
def test_a_file_is_refused_by_key_with_what_would_be_valid(table: dict[str, Any], sentence: str) -> None:
    """Unknown keys at every level, and misfits of the top level, name file, dotted key and the nearest valid name."""
    with pytest.raises(PresetError) as caught:
        preset(table)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("ppo.n_stpes=1", "unknown key ppo.n_stpes; did you mean 'n_steps'?"),
        ("seed=1", "unknown key seed; did you mean 'run.seed'?"),
        ("batch_sise=64", "unknown key batch_sise; did you mean 'ppo.batch_size'?"),
        ("ppo=3", "'ppo' is not the key of a setting, such as ppo.policy"),
        ("ppo.n_steps.x=3", "ppo.n_steps = a table must be a whole number, such as 2048"),
        ("ppo.batch_size=0", "ppo.batch_size = 0 must be at least 2; the nearest valid value is 2"),
        ("ppo.batch_size=atuo", "ppo.batch_size = 'atuo' must be a whole number or 'auto'"),
        ("ppo.n_steps=2.5", "ppo.n_steps = 2.5 must be a whole number; the nearest valid value is 2"),
        ("ppo.n_steps=true", "ppo.n_steps = true must be a whole number, such as 2048"),
        ("ppo.n_steps=99999999999", "ppo.n_steps = 99999999999 must be at most 2147483647"),
        ("ppo.learning_rate=0", "ppo.learning_rate = 0 must be above 0, such as 0.0003"),
        ("ppo.learning_rate=nan", "ppo.learning_rate = nan must be a finite number or a table of start, end, kind"),
        ("ppo.learning_rate=1e308", "ppo.learning_rate = 1e+308 must be at most 1; the nearest valid value is 1"),
        ("ppo.max_grad_norm=1e308", "ppo.max_grad_norm = 1e+308 must be at most 1000000000"),
        ("ppo.gamma=-0.1", "ppo.gamma = -0.1 must be at least 0; the nearest valid value is 0"),
        ("ppo.use_sde=yes", "ppo.use_sde = 'yes' must be true or false"),
        ("env.vec=natvie", "env.vec = 'natvie' must be one of 'auto', 'inline', 'native', 'split', 'workers'; did"),
        ("env.id=", "env.id = '' must be at least one character long"),
        ("slurm.mem=" + "9" * 201, f"slurm.mem = '{'9' * 56}... must be at most 200 characters long"),
        ("env.id=none", "env.id is missing; give a Gymnasium id, such as 'CartPole-v1'"),
        ("ppo.net_arch=64", "ppo.net_arch = 64 must be a list in brackets with a whole number each or a table"),
        ("ppo.net_arch=[64,0]", "ppo.net_arch[1] = 0 must be at least 1"),
        ("env.kwargs.when=1979-05-27", "env.kwargs.when = a date must be text, a finite number"),
        ("env.kwargs.x=inf", "env.kwargs.x = inf must be text, a finite number"),
        ("env.kwargs.x=[[[[[[[[[[1]]]]]]]]]]", "env.kwargs.x[0][0][0][0][0][0][0][0] is nested deeper than 8 levels"),
    ],
)
def test_a_set_word_is_refused_by_key_with_what_would_be_valid(word: str, sentence: str) -> None:
    """`--set` refusals start with the word itself and end with the nearest valid name or value."""
    said = refusal(word)
    assert said.startswith("--set ")
    assert said.split(": ", 1)[1].startswith(sentence)


@pytest.mark.parametrize(
    ("word", "key", "sentence"),
    [
        ("ppo.batch_size=9999", "ppo.batch_size", "larger than the rollout .*the nearest valid value is 8192"),
        ("ppo.batch_size=1", "ppo.batch_size", "must be at least 2; the nearest valid value is 2"),
        ("env.n_workers=5", "env.n_envs", "env.n_workers = 4 or env.n_workers = 8, or env.n_envs = 30"),
        ("run.total_timesteps=none", "run.total_timesteps", "is missing; give it"),
        ("ppo.learning_rate={start=0,end=0}", "ppo.learning_rate", "start must be above 0"),
        ("ppo.learning_rate={start=7}", "ppo.learning_rate.start", "at most 1; the nearest valid value is 1"),
        ("run.device=cudaa", "run.device", "did you mean 'cuda'"),
        ("ppo.policy=MlpPolcy", "ppo.policy", "did you mean 'MlpPolicy'"),
        ("ppo.net_arch={pi=[8], fv=[8]}", "ppo.net_arch.fv", "valid here: pi, vf"),
        ("env.n_envs=2147483647", "env.n_envs", "the nearest valid is ppo.n_steps = 1"),
    ],
)
def test_contradictions_are_refused_by_the_word_that_made_them(word: str, key: str, sentence: str) -> None:
    """Fields that do not go together are refused, naming the last layer that wrote one of them."""
    said = refusal(word)
    assert said.startswith(f"--set {word.partition('=')[0]}=")
    assert key in said
    with pytest.raises(PresetError, match=sentence):
        with_set(word)


def test_the_trainer_counts_where_it_steps_a_share() -> None:
    """Split with four workers, 32 environments are five shares; one environment has nobody to be shared with."""
    said = refusal("env.vec=split", "env.n_workers=4")
    assert "by env.n_workers = 4 and the trainer; nearest valid: env.n_workers = 3 or env.n_workers = 7, or " in said
    assert refusal("env.vec=split", "env.n_workers=1", "env.n_envs=1").endswith("nearest valid: env.n_envs = 2")


def test_the_reference_engine_computes_as_its_model_does() -> None:
    """In whichever order they were written, the engine `stock` is refused with bf16 and with the compiler."""
    for word, key, near in (
        ("run.precision=bf16", "run.precision = 'bf16'", "run.precision = 'fp32'"),
        ("run.compile=true", "run.compile = true", "run.compile = false"),
    ):
        for words in (("run.engine=stock", word), (word, "run.engine=stock")):
            said = refusal(*words)
            assert said.startswith(f"--set {words[1]}")
            assert f"{key} needs run.engine = 'fast'" in said
            assert said.endswith(f"the nearest valid value is {near}")


def test_exploration_noise_is_not_compiled() -> None:
    """The compiler and gSDE are refused together."""
    assert "run.compile = true and ppo.use_sde = true exclude each other" in refusal(
        "run.compile=true", "ppo.use_sde=true"
    )


def test_one_transition_is_no_rollout() -> None:
    """A product of `n_envs` and `n_steps` of one is refused with the nearest number of steps."""
    said = refusal("env.n_envs=1", "ppo.n_steps=1", "ppo.batch_size=none")
    assert "ppo.n_steps must be at least 2" in said


def test_a_contradiction_in_a_file_names_the_file() -> None:
    """Both budgets in one file are refused by file name; a base's mistake names the base."""
    both = TABLE | {"run": {"total_timesteps": 1, "duration_s": 1.0}}
    assert refusal(table=both).startswith("presets/my.toml: run.total_timesteps and run.duration_s exclude")
    base = preset(TABLE | {"ppo": {"n_steps": 8, "batch_size": 512}}, "base")
    with pytest.raises(PresetError, match=r"^presets/base\.toml: ppo\.batch_size = 512 is larger"):
        resolve(preset({"extends": "base"}), lambda name: base)


def test_a_budget_replaces_the_budget_of_the_layers_below() -> None:
    """A duration given by `--set` takes the place of the preset's steps; both in one command line are refused."""
    spec = with_set("run.duration_s=60")
    assert (spec.run.duration_s, spec.run.total_timesteps) == (60.0, None)
    assert "exclude each other" in refusal("run.duration_s=60", "run.total_timesteps=10")


@pytest.mark.parametrize(
    ("word", "read"),
    [
        ("run.total_timesteps=50M", ("run", "total_timesteps", 50_000_000)),
        ("run.total_timesteps=1e6", ("run", "total_timesteps", 1_000_000)),
        ("run.total_timesteps=10_000", ("run", "total_timesteps", 10_000)),
        ("run.total_timesteps='1.5M'", ("run", "total_timesteps", 1_500_000)),
        ("ppo.n_steps=2k", ("ppo", "n_steps", 2000)),
        ("ppo.learning_rate=.001", ("ppo", "learning_rate", 0.001)),
        ("ppo.learning_rate=1e-4", ("ppo", "learning_rate", 1e-4)),
        ("ppo.use_sde=TRUE", ("ppo", "use_sde", True)),
        ("ppo.normalize_advantage=False", ("ppo", "normalize_advantage", False)),
        ("ppo.batch_size=auto", ("ppo", "batch_size", "auto")),
        ("ppo.batch_size=none", ("ppo", "batch_size", None)),
        ("ppo.net_arch=[64,64]", ("ppo", "net_arch", (64, 64))),
        ("ppo.net_arch={pi=[8],vf=[16]}", ("ppo", "net_arch", {"pi": (8,), "vf": (16,)})),
        ("env.id=module:Env-v0", ("env", "id", "module:Env-v0")),
        ("env.id=1234", ("env", "id", "1234")),
        ("env.config=true", ("env", "config", "true")),
        ("env.normalize=true", ("env", "normalize", True)),
        ("env.normalize.reward=false", ("env", "normalize", Normalize(reward=False))),
        ("env.kwargs.flag=True", ("env", "kwargs", {"flag": True})),
        ("env.kwargs.mode=human", ("env", "kwargs", {"mode": "human"})),
        ("env.wrappers=['a:B']", ("env", "wrappers", ("a:B",))),
        ("run.device=cuda:1", ("run", "device", "cuda:1")),
    ],
)
def test_set_values_are_typed_by_their_field(word: str, read: tuple[str, str, object]) -> None:
    """Numbers with suffixes, truth values in any case, bare text: the field decides what a word means."""
    table, name, value = read
    assert getattr(getattr(with_set(word), table), name) == value


def test_files_may_write_numbers_as_text() -> None:
    """`total_timesteps = "50M"` in a file is fifty million."""
    spec = with_set(table=TABLE | {"run": {"total_timesteps": "50M"}})
    assert spec.run.total_timesteps == 50_000_000


def test_a_set_word_may_reach_into_a_schedule() -> None:
    """One end of a written schedule can be changed alone; of a plain number it cannot."""
    table = TABLE | {"ppo": {"learning_rate": {"start": 1e-3, "end": 1e-4}}}
    assert with_set("ppo.learning_rate.end=0", table=table).ppo.learning_rate == Schedule(start=1e-3, end=0.0)
    assert "ppo.learning_rate.start is missing" in refusal("ppo.learning_rate.end=0")


def test_a_batch_that_does_not_divide_is_a_caution_with_divisors() -> None:
    """2,000 in a rollout of 8,192 trains, with a sentence that names 1,024 and 2,048."""
    said = cautions(with_set("ppo.batch_size=2000"))
    assert len(said) == 1
    assert "does not divide the rollout of 8,192" in said[0]
    assert "1,024 or 2,048" in said[0]
    assert "the sources refuse such a size" in said[0]
    assert cautions(with_set()) == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run.total_timesteps=1000"], "whole rollouts end at 8,192"),
        (["env.n_workers=4", "env.vec=native"], "env.n_workers = 4 has no effect"),
        (["env.id=envpool:CartPole-v1", "env.vec=inline"], "env.vec = 'native' steps them all at once"),
        (["ppo.ent_coef=5"], "ppo.ent_coef = 5 outweighs"),
        (["ppo.learning_rate=0.1"], "--set ppo.learning_rate="),
        (["ppo.learning_rate=0.02", "ppo.n_epochs=5"], "at a learning rate of 0.02, and tuned settings have less"),
        (
            ["ppo.learning_rate=1e-3", "ppo.n_epochs=100", "ppo.batch_size=64"],
            "update pressure 3,200: tuned settings have up to 160; --set",
        ),
    ],
)
def test_what_runs_but_not_as_one_might_think_is_cautioned(words: list[str], said: str) -> None:
    """Budgets below a rollout, settings without effect and huge entropy bonuses are told, not refused."""
    (sentence,) = cautions(with_set(*words))
    assert said in sentence


def test_change_edits_a_frozen_spec() -> None:
    """A resume's words apply to the spec as it was; `none` unwrites; the rest stays."""
    spec = with_set("run.seed=3")
    changed = change(spec, ["env.n_envs=64", "run.seed=none"])
    assert (changed.env.n_envs, changed.run.seed, changed.preset) == (64, None, "my")
    assert msgspec.structs.replace(changed, env=spec.env, run=spec.run) == spec
    assert change(spec, []) == spec


def test_change_takes_one_value_per_key() -> None:
    """Alternatives make no sense for one run, and mistakes name the word."""
    with pytest.raises(UsageError, match="one value per --set key"):
        change(with_set(), ["ppo.gamma=0.9,0.99"])
    with pytest.raises(PresetError, match=r"^--set ppo\.n_stpes=1: unknown key ppo\.n_stpes; did you mean 'n_steps'"):
        change(with_set(), ["ppo.n_stpes=1"])


def test_foreign_text_stays_on_one_printable_line() -> None:
    """Control and escape characters in keys, values and descriptions never reach a message as they are."""
    evil = "\x1b[2Jx\n\u202ey"
    assert preset(TABLE | {"description": evil}).description.isprintable()
    for table in ({evil: 1}, {"env": {"id": 3, evil: 1}}, TABLE | {"run": {"device": evil}}):
        with pytest.raises(MissionError) as caught:
            resolve(preset(table), no_base)
        assert str(caught.value).isprintable()
    with pytest.raises(MissionError) as caught:
        with_set(f"{evil}={evil}")
    assert str(caught.value).isprintable()
