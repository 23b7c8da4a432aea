"""Tiny trainings of every algorithm that `run.algo` names, with short periods."""

from __future__ import annotations

import importlib.util
from typing import Any

import msgspec
import pytest

from mission_tui.fleet.specs import sb3_algorithms
from mission_tui.fleet.specs.sb3_algorithms import OTHERS
from mission_tui.fleet.specs.spec import Spec
from mission_tui.trainer import sb3_algorithms as periods

PERIOD = 60
_REPLAYED: dict[str, Any] = {"buffer_size": 100, "learning_starts": 20, "batch_size": 16, "net_arch": [8]}
_ACTS: dict[str, Any] = {**_REPLAYED, "train_freq": 2, "gradient_steps": 2}
_CHOOSES: dict[str, Any] = {**_REPLAYED, "target_update_interval": 30}
SETTINGS: dict[str, dict[str, Any]] = {
    "sac": {**_ACTS},
    "td3": {**_ACTS, "action_noise": {"kind": "ornstein-uhlenbeck", "std": 0.3}},
    "ddpg": {**_ACTS, "action_noise": {"std": 0.3}},
    "dqn": {**_CHOOSES},
    "a2c": {"net_arch": [8]},
    "tqc": {**_ACTS},
    "trpo": {"n_steps": 32, "batch_size": 32, "net_arch": [8]},
    "qrdqn": {**_CHOOSES},
    "crossq": {**_ACTS},
    "ars": {"n_delta": 2, "policy": "MlpPolicy", "net_arch": [8], "zero_policy": False},
}
assert SETTINGS.keys() == OTHERS.keys()
_HAVE_CONTRIB = importlib.util.find_spec("sb3_contrib") is not None
ALGORITHMS = [
    pytest.param(name, marks=pytest.mark.skipif(it.borrowed and not _HAVE_CONTRIB, reason="needs the `contrib` extra"))
    for name, it in OTHERS.items()
]

KINDS = [it for it in ALGORITHMS if it.values[0] in ("sac", "td3", "dqn", "crossq", "a2c", "ars")]
"""One of each way to learn: the others differ from one of these in a loss."""


def other_spec(algo: str, **tables: dict[str, Any]) -> Spec:
    """A run of four periods; what `tables` say goes over it."""
    # ARS plays whole episodes, so it has the shorter ones, one after the other.
    searches = algo == "ars"
    continuous = "Box" in OTHERS[algo].actions and not searches  # type: ignore[index]
    merged: dict[str, dict[str, Any]] = {
        "env": {"id": "Pendulum-v1" if continuous else "CartPole-v1", "n_envs": 1 if searches else 2, "vec": "inline"},
        "run": {"total_timesteps": 4 * PERIOD, "seed": 3, "device": "cpu", "algo": algo},
        "keep": {"checkpoint": {"every_s": 600.0, "last": 3, "spread": 0}},
        algo: SETTINGS[algo],
    }
    for name, table in tables.items():
        merged[name] = {**merged.get(name, {}), **table}
    return msgspec.convert({"preset": "tiny", **merged}, Spec)


@pytest.fixture
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of `PERIOD` environment steps."""
    for module in (sb3_algorithms, periods):
        monkeypatch.setattr(module, "PERIOD_STEPS", PERIOD)
