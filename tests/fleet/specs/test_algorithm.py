"""The algorithms beyond PPO: what they may be asked, and which engine carries them."""

from __future__ import annotations

import pytest

from mission_tui.errors import PresetError
from mission_tui.fleet.capacity.demand import estimate_memory, policy_parameters
from mission_tui.fleet.specs.algorithm import engine_of, lstm_shape
from mission_tui.fleet.specs.consistency import cautions
from mission_tui.fleet.specs.preset import change
from mission_tui.fleet.specs.spec import Spec
from tests.fleet.resuming import WAS, named, verdict

RECURRENT = ("ppo.algo=recurrent_ppo", "ppo.policy=MlpLstmPolicy")
MASKABLE = ("ppo.algo=maskable_ppo",)


def with_words(*words: str) -> Spec:
    return change(WAS, words)


def test_the_fast_engine_trains_ppo_alone_and_that_is_said() -> None:
    """The others are trained by the reference whatever `run.engine` says; a caution says so once it matters."""
    assert engine_of(WAS) == "fast"
    for words in (RECURRENT, MASKABLE):
        spec = with_words(*words)
        assert engine_of(spec) == "stock"
        assert any("trained by run.engine = 'stock'" in said for said in cautions(spec))
        assert not any("run.engine" in said for said in cautions(with_words(*words, "run.engine=stock")))
    assert not any("run.engine" in said for said in cautions(WAS))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("ppo.algo=recurrent",),
            "must be one of 'maskable_ppo', 'ppo', 'recurrent_ppo'; did you mean 'recurrent_ppo'",
        ),
        (RECURRENT[:1], "with ppo.algo = 'recurrent_ppo'; did you mean 'MlpLstmPolicy'?"),
        (("ppo.policy=MlpLstmPolicy",), "MlpLstmPolicy is for ppo.algo = 'recurrent_ppo'"),
        ((*RECURRENT, "ppo.policy=MlpLstmPolcy"), "must be one of MlpLstmPolicy, CnnLstmPolicy, MultiInputLstmPolicy"),
        ((*RECURRENT, "run.precision=bf16"), "the nearest valid value is run.precision = 'fp32'"),
        ((*MASKABLE, "run.compile=true"), "the nearest valid value is run.compile = false"),
        ((*MASKABLE, "ppo.use_sde=true"), "the nearest valid value is ppo.use_sde = false"),
    ],
)
def test_what_an_algorithm_cannot_be_given_is_refused(words: tuple[str, ...], said: str) -> None:
    """By the key that contradicts it, with the nearest valid value."""
    with pytest.raises(PresetError) as refused:
        with_words(*words)
    assert said in str(refused.value)


def test_a_recurrent_policy_is_counted_with_its_states() -> None:
    """Two LSTMs of 256 units on four numbers, as sb3-contrib builds them; states are kept with every transition."""
    plain, recurrent = WAS, with_words(*RECURRENT)
    assert (lstm_shape(plain), lstm_shape(recurrent)) == (None, (256, 1))
    small = with_words(*RECURRENT, "ppo.policy_kwargs.lstm_hidden_size=16", "ppo.policy_kwargs.n_lstm_layers=2")
    assert lstm_shape(small) == (16, 2)
    # 2 x (4 x 16 x (4 + 16 + 2) + 4 x 16 x (16 + 16 + 2)), and two nets of 64-64 on 16 features with 2 and 1 outputs.
    nets = 2 * (17 * 64 + 65 * 64) + 65 * 2 + 65
    assert policy_parameters(with_words(*RECURRENT, "ppo.policy_kwargs.lstm_hidden_size=16"), 4, 2) == 2 * 1408 + nets
    assert policy_parameters(small, 4, 2) == 2 * (1408 + 2176) + nets
    needs = [estimate_memory(spec, 2).per_env_bytes for spec in (plain, recurrent)]
    assert needs[1] - needs[0] == 2 * 4 * 4 * 256 * plain.ppo.n_steps


def test_another_algorithm_is_a_branch_and_no_resume() -> None:
    """The verdict refuses it and offers a new run with the weights that fit, or to leave it."""
    judged = verdict(*MASKABLE)
    assert judged.grade == "refuse"
    assert [remedy.name for remedy in named(judged, "ppo.algo").remedies] == ["branch", "restore"]
