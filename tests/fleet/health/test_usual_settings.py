"""A setting that no published training has is changed first, whatever rule speaks."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mission_tui.fleet.health.phrases import for_strangers
from mission_tui.fleet.health.rule import Explanation
from mission_tui.fleet.health.settings import Settings
from mission_tui.fleet.health.usual_settings import LossParts, evidence_key, usual_first
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import EnvSpec, PpoSpec, RunSpec, Schedule, Spec
from tests.fleet.health.rounds import row

WORDS = Explanation("it fell", "large steps", "halve the learning rate", ("ppo.learning_rate=0.00015",))
USUAL = Settings(
    ours=True, learning_rate=3e-4, gradient_steps=40, n_epochs=10, gamma=0.99, vf_coef=0.5, ent_coef=0.0, batch_size=64
)


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        ({"gamma": 0.0}, "ppo.gamma=0.99"),
        ({"vf_coef": 0.0}, "ppo.vf_coef=0.5"),
        ({"ent_coef": 1.0}, "ppo.ent_coef=0.01"),
        ({"max_grad_norm": 1e-9}, "ppo.max_grad_norm=0.5"),
        ({"learning_rate": 0.3}, "ppo.learning_rate=0.0004"),
        ({"learning_rate": 1e-10}, "ppo.learning_rate=0.0001"),
        ({"learning_rate": 0.3, "gamma": 0.0}, "ppo.learning_rate=0.0004"),
    ],
)
def test_one_far_from_usual_comes_first(settings: dict[str, float], advice: str) -> None:
    """Whatever the rule itself would say; a resume takes the assignment, and the cause names the setting."""
    known = Settings(**{name: getattr(USUAL, name) for name in USUAL.__struct_fields__} | settings)
    said = usual_first("drawdown", WORDS, known, LossParts(known), row(1, {}))
    assert (said.sentence, said.advice_set) == ("it fell", (advice,))
    assert evidence_key("drawdown", said.advice, advice) == ("any", advice.partition("=")[0])
    assert said.cause != WORDS.cause
    spec = Spec(preset="p", env=EnvSpec(id="X"), ppo=PpoSpec(), run=RunSpec(total_timesteps=100_000))
    change(spec, said.advice_set)
    assert usual_first("throughput", WORDS, known, LossParts(known), row(1, {})) == WORDS
    of_code = replace(WORDS, advice="look at how the environment computes its reward", advice_set=())
    assert usual_first("nan", of_code, known, LossParts(known), row(1, {})) == of_code


def test_a_rate_beyond_all_published_ones_needs_no_batch_size() -> None:
    """A stranger's log says its learning rate and not how many gradient steps there are."""
    unknown = replace(USUAL, gradient_steps=None, batch_size=None, learning_rate=None)
    said = usual_first("drawdown", WORDS, unknown, LossParts(unknown), row(1, {"learning_rate": 0.05}))
    assert said.advice_set == ("ppo.learning_rate=0.00025",)
    assert said.cause.endswith("no published setting of PPO has 0.01 or more")
    assert usual_first("drawdown", WORDS, unknown, LossParts(unknown), row(1, {"learning_rate": 0.005})) == WORDS


def test_a_rollout_of_a_few_steps_is_to_be_longer() -> None:
    """Four transitions are chance, in a log too, whose steps between rows tell; A2C's few are its way to learn."""
    few, ppo = replace(USUAL, rollout=4, n_envs=2), row(1, {"approx_kl": 0.01})
    said = usual_first("kl-spike", WORDS, few, LossParts(few), ppo)
    assert (said.cause[:40], said.advice_set) == ("an update learns from 4 transitions, too", ("ppo.n_steps=1024",))
    log = Settings(rollout=4, learning_rate=3e-4, command=("python", "train.py", "--num-steps", "4"))
    words = usual_first("kl-spike", WORDS, log, LossParts(log), ppo)
    assert for_strangers(words.advice, words.advice_set, log).endswith("(run it with --num-steps 2048)")
    assert usual_first("drawdown", WORDS, few, LossParts(few), row(1, {})) == WORDS
    for size in (8, 256):  # the RL zoo's MountainCarContinuous has 8
        usual = replace(few, rollout=size)
        assert usual_first("kl-spike", WORDS, usual, LossParts(usual), ppo) == WORDS


@pytest.mark.parametrize(
    ("rate", "advice"), [(0.0, "set a learning rate"), (1e-8, "raise the learning rate to a usual one")]
)
def test_a_constant_rate_of_nothing_needs_no_batch_size(rate: float, advice: str) -> None:
    """Whatever else a stranger's log shows of a training that cannot learn comes of that."""
    unknown = replace(USUAL, gradient_steps=None, batch_size=None, learning_rate=rate)
    said = usual_first("explained-variance", WORDS, unknown, LossParts(unknown), row(1, {"learning_rate": rate}))
    assert (said.advice, said.advice_set) == (advice, ("ppo.learning_rate=0.00025",))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"gamma": 0.9, "vf_coef": 0.19, "ent_coef": 0.01},
        {"learning_rate": 2e-5},
        {"learning_rate": Schedule(start=3e-4, end=0.0)},
        {"learning_rate": None, "gamma": None, "vf_coef": None, "ent_coef": None, "gradient_steps": None},
    ],
)
def test_what_published_trainings_have_is_left_alone(settings: dict[str, object]) -> None:
    """A rate that a schedule brought to nothing is the schedule's; what is not known is not guessed."""
    known = Settings(**{name: getattr(USUAL, name) for name in USUAL.__struct_fields__} | settings)
    odd = row(1, {"learning_rate": 1e-9} if settings else {})
    assert usual_first("drawdown", WORDS, known, LossParts(known), odd) == WORDS
