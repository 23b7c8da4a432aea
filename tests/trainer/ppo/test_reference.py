"""Our PPO against Stable-Baselines3's own: the same numbers, and signals that agree with what it logs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import gymnasium
import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

import tests.trainer.probe_envs  # noqa: F401 - registers the probes
from mission_tui.trainer.failures import NonFiniteError
from mission_tui.trainer.native import library as native
from mission_tui.trainer.ppo import PPO, FastPPO
from mission_tui.trainer.state.boundary import copy_moments
from mission_tui.trainer.vec_env import InlineVecEnv
from tests.trainer.harness import equal

LANES = 4
UPDATES = 3
"""The same for every engine, so that what they are held against is trained once."""
CASES: dict[str, dict[str, Any]] = {
    "discrete": {"env": "CartPole-v1"},
    "continuous": {"env": "Pendulum-v1", "ent_coef": 0.01},
    "gSDE": {"env": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4},
    "squashed gSDE": {
        "env": "Pendulum-v1",
        "ent_coef": 0.01,
        "use_sde": True,
        "policy_kwargs": {"squash_output": True},
    },
    "target_kl": {"env": "CartPole-v1", "target_kl": 1e-4},
    "clip_range_vf": {"env": "CartPole-v1", "clip_range_vf": 0.1},
    "bonus for entropy": {"env": "CartPole-v1", "ent_coef": 0.01},
    "bonus for several heads": {"env": "MultiWalk-v0", "ent_coef": 0.01},
    "bonus for switches": {"env": "BinaryWalk-v0", "ent_coef": 0.01},
    "long minibatches": {"env": "CartPole-v1", "n_steps": 128, "batch_size": 512},
    "truncated minibatch": {"env": "CartPole-v1", "batch_size": 48},
    "smaller than a minibatch": {"env": "MountainCarContinuous-v0", "n_steps": 8, "batch_size": 256, "use_sde": True},
    "schedules": {"env": "CartPole-v1", "learning_rate": LinearSchedule(1e-3, 0.0, 1.0), "normalize_advantage": False},
    "several heads": {"env": "MultiWalk-v0"},
    "switches": {"env": "BinaryWalk-v0"},
    "dictionary": {"env": "DictWalk-v0", "policy": "MultiInputPolicy"},
    "images": {"env": "ImageWalk-v0", "policy": "CnnPolicy", "n_steps": 8, "batch_size": 8, "n_epochs": 1},
    "images, all lanes": {"env": "ImageWalk-v0", "policy": "CnnPolicy", "n_steps": 16, "batch_size": 32, "n_epochs": 2},
    "normalised": {"env": "Pendulum-v1", "normalize": True},
    "rectified, unshared": {
        "env": "CartPole-v1",
        "policy_kwargs": {"activation_fn": th.nn.ReLU, "share_features_extractor": False, "net_arch": [16]},
    },
    "time limits": {"env": "Pendulum-v1", "n_steps": 256, "batch_size": 256},
    "minibatch of all lanes": {"env": "CartPole-v1", "n_steps": 8, "batch_size": LANES, "n_epochs": 1},
    "another optimizer": {"env": "CartPole-v1", "policy_kwargs": {"optimizer_class": th.optim.RMSprop}},
}
ROUNDED = ("bonus for entropy", "bonus for several heads", "bonus for switches")
"""The fast engine multiplies by exp, not softmax."""
Exact = partial(FastPPO, rounding="sb3")


def build(cls: Callable[..., Any], vec_class: type[DummyVecEnv], case: dict[str, Any]) -> Any:
    """A seeded model of `cls` on the environment of `case`."""
    arguments = {
        "policy": "MlpPolicy",
        "n_steps": 32,
        "batch_size": 32,
        "n_epochs": 3,
        "seed": 3,
        "device": "cpu",
    } | case
    env_id, normalize = arguments.pop("env"), arguments.pop("normalize", False)
    vec: VecEnv = vec_class([lambda: Monitor(gymnasium.make(str(env_id)))] * LANES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = cls(arguments.pop("policy"), VecNormalize(vec) if normalize else vec, **arguments)
    model.set_logger(Logger(None, []))
    return model


def learned(cls: Callable[..., Any], vec_class: type[DummyVecEnv], case: dict[str, Any], updates: int) -> Any:
    """A model after `updates` updates; both sides draw from the same global generators, so one is done first."""
    model = build(cls, vec_class, case)
    return model.learn(updates * model.n_steps * LANES)


@cache
def stock_ppo(name: str, updates: int) -> Any:
    """What stock PPO learned of a case, trained once for all engines that are held against it."""
    return learned(stable_baselines3.PPO, DummyVecEnv, CASES[name], updates)


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for name in CASES for engine in (PPO, Exact) if engine is PPO or name not in ROUNDED],
    ids=lambda value: value if isinstance(value, str) else "stock" if value is PPO else "fast",
)
def test_parameters_equal_those_of_stock_ppo(engine: Callable[..., Any], name: str) -> None:
    """After three updates with the same seed every parameter and every Adam moment is the same, bit for bit."""
    ours, stock = learned(engine, InlineVecEnv, CASES[name], UPDATES), stock_ppo(name, UPDATES)
    assert equal(ours.policy.state_dict(), stock.policy.state_dict())
    for mine, theirs in zip(ours.policy.optimizer.state.values(), stock.policy.optimizer.state.values(), strict=True):
        assert equal(mine, theirs)
    assert ours._n_updates == stock._n_updates


@pytest.mark.parametrize("by", ["kernels", "torch"])
@pytest.mark.parametrize("name", CASES)
def test_the_fast_engine_learns_the_parameters_of_stock_ppo_within_rounding(
    name: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After three updates as runs compute them, with the kernels and without, no parameter is further than 6e-6 off."""
    if by == "torch":
        monkeypatch.setattr(native, "kernels", lambda: None)
    ours, stock = learned(FastPPO, InlineVecEnv, CASES[name], UPDATES), stock_ppo(name, UPDATES)
    theirs = stock.policy.state_dict()
    for parameter, mine in ours.policy.state_dict().items():
        th.testing.assert_close(mine, theirs[parameter], rtol=0.0, atol=2e-6 * UPDATES)


def one_update(case: dict[str, Any], engine: type[PPO] = FastPPO) -> tuple[Any, dict[str, float]]:
    """A model after its first update, and the signals of it."""
    model = build(engine, InlineVecEnv, case)
    model._setup_learn(LANES * 32)
    rollout = model.collect()
    update = model.update()
    return model, rollout.metrics | update.read(model)


@pytest.mark.parametrize("engine", [PPO, FastPPO])
@pytest.mark.parametrize("name", ["discrete", "continuous", "target_kl", "clip_range_vf", "several heads"])
def test_signals_agree_with_what_sb3_logs(name: str, engine: type[PPO]) -> None:
    """Every tag that SB3 logs for an update has the same value here."""
    _, metrics = one_update(CASES[name], engine)
    stock = stock_ppo(name, 1)
    logged = {tag: value for tag, value in stock.logger.name_to_value.items() if not tag.startswith("time/")}
    assert {tag: metrics[tag] for tag in logged} == pytest.approx(logged, rel=1e-5, abs=1e-7)
    returns = [episode["r"] for episode in stock.ep_info_buffer]
    assert metrics.get("rollout/ep_rew_mean") == (pytest.approx(np.mean(returns)) if returns else None)


def test_the_first_minibatch_has_a_ratio_of_one() -> None:
    """Nothing has changed yet when the first minibatch is looked at."""
    _, metrics = one_update(CASES["discrete"])
    assert metrics["train/ratio_first"] < 1e-4


def test_a_policy_that_changed_after_its_rollout_shows_in_the_first_ratio() -> None:
    """The rollout's log-probabilities are those of other parameters then."""
    model = build(FastPPO, InlineVecEnv, CASES["discrete"])
    model._setup_learn(LANES * 32)
    model.collect()
    with th.no_grad():
        model.policy.action_net.bias[0] += 0.5
    assert model.update().read(model)["train/ratio_first"] > 0.1


def test_the_largest_ratio_is_that_of_all_minibatches() -> None:
    """Small steps leave every ratio near 1; a learning rate of 0.1 makes some actions several times as likely."""
    _, small = one_update({**CASES["discrete"], "learning_rate": 1e-6})
    _, large = one_update({**CASES["discrete"], "learning_rate": 1e-1})
    assert 1.0 < small["train/ratio_max"] < 1.01
    assert large["train/ratio_max"] > 2.0
    assert large["train/ratio_first"] < 1e-4


@pytest.mark.parametrize("name", ["several heads", "switches"])
def test_heads_have_the_same_entropies_in_both_engines(name: str) -> None:
    """The fast engine computes them without distributions."""
    fast, stock = one_update(CASES[name], FastPPO)[1], one_update(CASES[name], PPO)[1]
    assert fast["policy/entropy_ratio"] == pytest.approx(stock["policy/entropy_ratio"], rel=1e-6)


def test_an_even_policy_has_an_entropy_ratio_near_one() -> None:
    """A fresh policy chooses almost evenly; heads without a choice are left out."""
    for name in ("discrete", "several heads", "switches"):
        _, metrics = one_update(CASES[name])
        assert 0.95 < metrics["policy/entropy_ratio"] <= 1.0 + 1e-6


def test_the_entropy_ratio_is_that_of_the_deadest_head() -> None:
    """One head that always chooses the same shows, however even the others are."""
    model = build(FastPPO, InlineVecEnv, CASES["several heads"])
    model._setup_learn(LANES * 32)
    with th.no_grad():
        model.policy.action_net.bias[2] = 50.0
    model.collect()
    assert model.update().read(model)["policy/entropy_ratio"] < 0.05


def test_gradient_norms_are_those_before_clipping() -> None:
    """With a limit that nothing reaches no gradient was clipped; with one below all, every one was."""
    _, loose = one_update({**CASES["discrete"], "max_grad_norm": 1e9})
    _, tight = one_update({**CASES["discrete"], "max_grad_norm": 1e-3})
    assert loose["train/grad_clipped_share"] == 0.0
    assert tight["train/grad_clipped_share"] == 1.0
    assert tight["train/grad_norm_max"] >= tight["train/grad_norm"] > 1e-3


def test_epochs_done_counts_what_target_kl_left() -> None:
    """Without an early stop all epochs are done; with one, fewer."""
    _, whole = one_update(CASES["discrete"])
    _, short = one_update({**CASES["discrete"], "target_kl": 1e-7, "learning_rate": 1e-2})
    assert whole["train/n_epochs_done"] == 3.0
    assert short["train/n_epochs_done"] < 3.0


def test_actions_at_bound_is_a_share_for_continuous_actions_only() -> None:
    """A unit Gaussian leaves Pendulum's [-2, 2] about one time in twenty."""
    _, metrics = one_update(CASES["continuous"])
    assert 0.005 < metrics["policy/actions_at_bound"] < 0.2
    assert "policy/actions_at_bound" not in one_update(CASES["discrete"])[1]


def test_the_spread_of_actions_is_compared_with_its_start() -> None:
    """Right after one small update the standard deviation is where it began; discrete policies have none."""
    _, metrics = one_update({**CASES["continuous"], "policy_kwargs": {"log_std_init": -1.0}})
    assert metrics["policy/std"] == pytest.approx(np.exp(-1.0), rel=0.05)
    assert metrics["policy/std_min_ratio"] == pytest.approx(1.0, rel=0.05)
    assert metrics["policy/std_max_ratio"] == pytest.approx(1.0, rel=0.05)
    assert not any("std" in tag for tag in one_update(CASES["discrete"])[1])


def test_constant_returns_have_no_explained_variance() -> None:
    """Where there is nothing to explain the signal is absent, not nan and not zero."""
    model = build(FastPPO, InlineVecEnv, {**CASES["discrete"], "gamma": 0.0, "gae_lambda": 1.0})
    model._setup_learn(LANES * 32)
    with th.no_grad():
        model.policy.value_net.weight.zero_()
    assert "train/explained_variance" not in model.collect().metrics


@pytest.mark.parametrize("engine", [PPO, FastPPO])
@pytest.mark.parametrize("looks", [1, 2, 5])
def test_an_update_is_given_up_at_the_next_minibatch(looks: int, engine: type[PPO]) -> None:
    """A stop asked before minibatch k leaves k - 1 optimizer steps done and no signals."""
    model = build(engine, InlineVecEnv, CASES["discrete"])
    model._setup_learn(LANES * 32)
    model.collect()
    asked = iter([False] * (looks - 1) + [True])
    model.stop_asked = lambda: next(asked)
    assert model.update() is None
    steps = [int(state["step"]) for state in model.policy.optimizer.state.values()]
    assert set(steps) == ({looks - 1} if looks > 1 else set())


@pytest.mark.parametrize("engine", [PPO, FastPPO])
def test_a_rollout_is_given_up_at_the_next_step(engine: type[PPO]) -> None:
    """A stop asked at the third step ends the rollout there."""
    model = build(engine, InlineVecEnv, CASES["discrete"])
    model._setup_learn(LANES * 32)
    asked = iter([False, False, True])
    model.stop_asked = lambda: next(asked)
    assert model.collect() is None
    assert model.num_timesteps == 3 * LANES


def test_a_parameter_that_became_nan_is_named() -> None:
    """A learning rate beyond all bounds spoils the parameters; the update says what broke first."""
    model = build(FastPPO, InlineVecEnv, {**CASES["discrete"], "learning_rate": 1e30})
    model._setup_learn(LANES * 32)
    model.collect()
    with pytest.raises(NonFiniteError, match=r"became (nan|inf|-inf)"):
        model.update()


def test_a_nan_in_the_middle_of_a_fast_rollout_is_named() -> None:
    """The fast engine looks at numbers after the rollout only, and still says where the first bad one came from."""
    model = build(FastPPO, InlineVecEnv, CASES["discrete"])
    model._setup_learn(LANES * 32)
    step = model.env.step_wait

    def spoilt() -> Any:
        observations, *rest = step()
        if model.num_timesteps == 5 * LANES:
            observations[2] = np.nan
        return observations, *rest

    model.env.step_wait = spoilt
    with pytest.raises(NonFiniteError, match="observation of environment 2"):
        model.collect()


def test_a_policy_that_says_nan_does_not_reach_continuous_environments() -> None:
    """The parameter is named, and no environment was stepped with nan."""
    model = build(FastPPO, InlineVecEnv, CASES["continuous"])
    model._setup_learn(LANES * 32)
    with th.no_grad():
        model.policy.action_net.bias[0] = np.nan
    with pytest.raises(NonFiniteError, match=r"action_net\.bias"):
        model.collect()
    assert model.num_timesteps == 0


def test_moments_that_were_loaded_are_those_that_go_on() -> None:
    """Adam's flat vectors take loaded moments over, so both models make the same next update."""
    first, second = build(FastPPO, InlineVecEnv, CASES["discrete"]), build(FastPPO, InlineVecEnv, CASES["discrete"])
    first.learn(2 * LANES * 32)
    second.policy.load_state_dict(first.policy.state_dict())
    second.policy.optimizer.load_state_dict(first.policy.optimizer.state_dict())
    for model in (first, second):
        for parameter in model.policy.parameters():
            parameter.grad.fill_(0.25)
        model.policy.optimizer.step()
    assert equal(first.policy.state_dict(), second.policy.state_dict())
    moments = [copy_moments(model) for model in (first, second)]
    assert equal(*moments)
