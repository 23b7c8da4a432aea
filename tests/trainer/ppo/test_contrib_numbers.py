"""MaskablePPO and RecurrentPPO against sb3-contrib's own: the same numbers, and signals that mean what they say."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv

from mission_tui.fleet.specs.spec import Algo
from mission_tui.trainer.vec_env import InlineVecEnv
from tests.trainer.contrib_cases import LANES, built, learned, needs_contrib, ours, theirs
from tests.trainer.harness import equal

pytestmark = needs_contrib

DOORS: dict[str, Any] = {"policy": "MlpPolicy", "env": "Doors-v0"}
LSTM: dict[str, Any] = {"policy": "MlpLstmPolicy", "env": "CartPole-v1", "policy_kwargs": {"lstm_hidden_size": 8}}
CASES: dict[str, tuple[Algo, dict[str, Any]]] = {
    "doors": ("maskable_ppo", DOORS),
    "doors, several heads": ("maskable_ppo", DOORS | {"env": "MultiDoors-v0", "ent_coef": 0.01}),
    "doors, switches": ("maskable_ppo", DOORS | {"env": "Switches-v0"}),
    "doors, dictionary": ("maskable_ppo", DOORS | {"env": "DictDoors-v0", "policy": "MultiInputPolicy"}),
    "doors, normalised": ("maskable_ppo", DOORS | {"normalize": True, "clip_range_vf": 0.1}),
    "doors, target_kl": ("maskable_ppo", DOORS | {"target_kl": 1e-4}),
    "doors, truncated minibatch": ("maskable_ppo", DOORS | {"batch_size": 48}),
    "lstm": ("recurrent_ppo", LSTM),
    "lstm, continuous": ("recurrent_ppo", LSTM | {"env": "Pendulum-v1", "ent_coef": 0.01, "normalize": True}),
    "lstm, time limits": ("recurrent_ppo", LSTM | {"env": "ShortPendulum-v0", "n_steps": 48}),
    "lstm, gSDE": ("recurrent_ppo", LSTM | {"env": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4}),
    "lstm, several heads": ("recurrent_ppo", LSTM | {"env": "MultiWalk-v0"}),
    "lstm, dictionary": ("recurrent_ppo", LSTM | {"env": "DictWalk-v0", "policy": "MultiInputLstmPolicy"}),
    "lstm, shared": (
        "recurrent_ppo",
        LSTM | {"policy_kwargs": {"lstm_hidden_size": 8, "shared_lstm": True, "enable_critic_lstm": False}},
    ),
    "lstm of the actor alone, two layers": (
        "recurrent_ppo",
        LSTM | {"policy_kwargs": {"lstm_hidden_size": 8, "n_lstm_layers": 2, "enable_critic_lstm": False}},
    ),
    "lstm, odd coefficients": ("recurrent_ppo", LSTM | {"vf_coef": 0.3, "clip_range_vf": 0.1, "batch_size": 48}),
    "lstm, not normalised": ("recurrent_ppo", LSTM | {"normalize_advantage": False, "target_kl": 1e-4}),
}


def one_update(algo: Algo, case: dict[str, Any]) -> tuple[Any, dict[str, float]]:
    """A model after one rollout and one update, and all their metrics."""
    model = built(ours(algo), case)
    model._setup_learn(LANES * 32)
    rollout = model.collect()
    return model, rollout.metrics | model.update().read(model)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", CASES)
def test_parameters_equal_those_of_sb3_contrib(name: str) -> None:
    """After three updates with the same seed every parameter and every Adam moment is the same, bit for bit."""
    algo, case = CASES[name]
    mine = learned(ours(algo), case, InlineVecEnv)
    stock = learned(theirs(algo), case, DummyVecEnv)
    assert equal(mine.policy.state_dict(), stock.policy.state_dict())
    assert mine.policy.optimizer.state
    for own, other in zip(mine.policy.optimizer.state.values(), stock.policy.optimizer.state.values(), strict=True):
        assert equal(own, other)


@pytest.mark.parametrize(("algo", "case"), [("maskable_ppo", DOORS), ("recurrent_ppo", LSTM)])
def test_they_have_every_signal_of_an_update(algo: Algo, case: dict[str, Any]) -> None:
    """What health reads of PPO is there for both, and nothing has moved in the first minibatch."""
    _, metrics = one_update(algo, case)
    assert metrics.keys() >= {
        "train/approx_kl",
        "train/clip_fraction",
        "train/entropy_loss",
        "train/explained_variance",
        "train/value_loss",
        "train/grad_norm",
        "train/learning_rate",
        "train/clip_range",
        "policy/entropy_ratio",
    }
    assert metrics["train/ratio_first"] < 1e-4
    assert metrics["train/n_epochs_done"] == 3.0


@pytest.mark.parametrize(("env", "actions"), [("Doors-v0", 5), ("MultiDoors-v0", 8), ("Switches-v0", 4)])
def test_entropy_is_compared_with_what_the_masks_leave(env: str, actions: int) -> None:
    """A policy that has learned nothing has nearly all the entropy there is, though most doors are shut."""
    _, metrics = one_update("maskable_ppo", DOORS | {"env": env})
    assert 0.99 < metrics["policy/entropy_ratio"] <= 1.0 + 1e-6
    assert -metrics["train/entropy_loss"] < 0.75 * np.log(actions)


def test_a_policy_that_has_decided_has_no_entropy_left() -> None:
    """Logits far apart choose one allowed door each time."""
    model = built(ours("maskable_ppo"), DOORS)
    with th.no_grad():
        model.policy.action_net.bias.copy_(th.tensor([4.0, 3.0, 2.0, 1.0, 0.0]) * 100)
    model._setup_learn(LANES * 32)
    model.collect()
    assert model.update().read(model)["policy/entropy_ratio"] < 0.01


def test_a_recurrent_policy_learns_switches_too() -> None:
    """sb3-contrib 2.9.2 fails in their update; here they have an entropy for each switch."""
    _, metrics = one_update("recurrent_ppo", LSTM | {"env": "BinaryWalk-v0"})
    assert metrics["policy/entropy_ratio"] == pytest.approx(1.0, abs=0.01)


def test_padding_is_in_no_signal_of_a_recurrent_policy() -> None:
    """Heads, ratios and losses are of real transitions: padded and whole sequences report the same first minibatch."""
    case = LSTM | {"env": "MultiWalk-v0", "batch_size": 32 * LANES, "n_epochs": 1}
    model, metrics = one_update("recurrent_ppo", case)
    buffer = model.rollout_buffer
    assert -metrics["train/entropy_loss"] == pytest.approx(np.log(2) + np.log(5), rel=0.01)
    assert metrics["train/value_loss"] == pytest.approx(float(np.mean((buffer.returns - buffer.values) ** 2)), rel=1e-4)


def test_every_algorithm_that_a_preset_may_name_is_here() -> None:
    """The literal of the spec and the classes agree."""
    assert {algo for algo, _ in CASES.values()} | {"ppo"} == set(get_args(Algo))
    assert all(ours(algo).algo == algo for algo, _ in CASES.values())


@pytest.mark.parametrize(("algo", "case"), [("maskable_ppo", DOORS), ("recurrent_ppo", LSTM)])
def test_a_stop_ends_rollout_and_update_at_once(algo: Algo, case: dict[str, Any]) -> None:
    """A stop asked at the third step ends the rollout there; one asked before a minibatch ends the update."""
    model = built(ours(algo), case)
    model._setup_learn(LANES * 32)
    asked = iter([False, False, True])
    model.stop_asked = lambda: next(asked)
    assert model.collect() is None
    assert model.num_timesteps == 3 * LANES
    model.stop_asked = lambda: False
    model.collect()
    model.stop_asked = lambda: True
    assert model.update() is None
