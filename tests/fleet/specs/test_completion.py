"""Completing a setting while it is typed: keys by their beginnings and letters, values by their types."""

from __future__ import annotations

import pytest
from msgspec import structs

from mission_tui.errors import UsageError
from mission_tui.fleet.specs.assignment import complete, doubtful_env, factors
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Spec

SPEC = Spec(preset="p", env=EnvSpec(id="CartPole-v1"), ppo=PpoSpec(n_steps=512), run=RunSpec(total_timesteps=1000))


def texts(typed: str, **known: tuple[str, ...]) -> list[str]:
    return [offer.text for offer in complete(typed, SPEC, {name.replace("_", "."): it for name, it in known.items()})]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("ppo.n_st", "ppo.n_steps="),
        ("n_st", "ppo.n_steps="),
        ("nsteps", "ppo.n_steps="),
        ("ppo.n_stps", "ppo.n_steps="),
        ("PPO.GAM", "ppo.gamma="),
        ("timesteps", "run.total_timesteps="),
        ("keep.checkpoint.every_s", "keep.checkpoint.every_s="),
        ("keep.health.kl-p", "keep.health.kl-persistent.act="),
        ("ppo.learning_rate.e", "ppo.learning_rate.end="),
    ],
)
def test_keys_complete_by_beginnings_parts_and_letters(typed: str, first: str) -> None:
    """The table may be left out, letters too; a key that is whole still lacks its `=`."""
    assert texts(typed)[0] == first


def test_a_command_is_offered_one_thread() -> None:
    """Which it would not have by itself; our own trainings have it anyway."""
    command = Spec(preset="p", run=RunSpec(command=("python", "train.py")))
    (offer,) = complete("run.threads=", command)
    assert (offer.text, offer.detail) == ("1", "else torch and NumPy start one for every core")
    assert texts("run.threads=") == []


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("run.device=c", ["cpu", "cuda", "cuda:0"]),
        ("run.compile=", ["true", "false"]),
        ("keep.on_reboot=", ["leave", "resume"]),
        ("ppo.batch_size=", ["auto"]),
        ("env.normalize=t", ["true"]),
        ("env.id=cartp", ["CartPole-v1"]),
        ("run.precision=fp32,b", ["bf16"]),
        ("ppo.n_steps=", ["512"]),
        ("ppo.n_steps=5", []),
        ("run.device=cpu", []),
        ("run.launcher=", ["local", "slurm", "ray"]),
        ("ppo.nothing=", []),
        ("", []),
    ],
)
def test_values_complete_where_they_are_known(typed: str, offered: list[str]) -> None:
    """Enums, truths, devices and environments; a number as it is now; the last of several values."""
    assert texts(typed) == offered


def test_an_offer_says_what_it_replaces_and_what_it_is() -> None:
    """From where on it replaces what was typed, the type, and the present value."""
    (key,) = complete("ppo.n_st", SPEC)
    assert (key.start, key.detail) == (0, "now 512: a whole number")
    (value,) = complete("env.id=CartPole-v1, Acro", SPEC)
    assert "env.id=CartPole-v1, Acro"[: value.start] + value.text == "env.id=CartPole-v1, Acrobot-v1"


def test_the_learning_rate_is_found_by_what_everybody_calls_it() -> None:
    """`lr` begins no key and is too short to lie anywhere in one."""
    assert texts("lr") == texts("ppo.lr") == ["ppo.learning_rate="]


def test_the_machines_own_values_come_first() -> None:
    """GPUs and environments that are known here are offered with those that everybody knows."""
    assert texts("run.device=cuda:", run_device=("cuda:1",)) == ["cuda:1", "cuda:0"]
    assert texts("env.id=my", env_id=("mine:Maze-v0", "Mystery-v1")) == ["Mystery-v1"]


def test_an_environment_that_is_nearly_known_is_doubted() -> None:
    """A slip of the finger is named while one types; what may be registered elsewhere is left to the preflight."""
    wrong = structs.replace(SPEC, env=EnvSpec(id="CartPol-v1"))
    assert doubtful_env(wrong) == "env.id = 'CartPol-v1' is not known here; did you mean 'CartPole-v1'?"
    for env in (
        SPEC.env,
        EnvSpec(id="CartPol-v1", imports=("mine",)),
        EnvSpec(id="mine:CartPol-v1"),
        EnvSpec(id="Zyx"),
    ):
        assert doubtful_env(structs.replace(SPEC, env=env)) == ""


def test_the_factors_of_a_sweep_are_its_keys_with_several_values() -> None:
    """Commas in brackets part nothing; a word that is none is refused."""
    assert factors(("ppo.gamma=0.9,0.99", "run.seed=1", "ppo.net_arch=[64,64],[8]")) == {
        "ppo.gamma": 2,
        "ppo.net_arch": 2,
    }
    with pytest.raises(UsageError, match="is not KEY=VALUE"):
        factors(("ppo.gamma",))
