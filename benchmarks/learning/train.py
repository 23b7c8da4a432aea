"""One training of a preset to its end by one of three engines, and the evaluation of the policy it ended with.

The engines are the trainer's own, `fast` and `stock`, each in a whole attempt with its files, and `sb3`:
Stable-Baselines3's PPO under its own `learn`, on its own vectorised environments where the preset steps single ones and
on our batch where it steps a batch.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import stable_baselines3
import torch as th
from msgspec.structs import replace
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from mission_tui.cli.plan import LaunchArguments, planned
from mission_tui.fleet.events.metrics import MetricRecord, TrainingEnded, UpdateDone
from mission_tui.fleet.specs.spec import Spec
from mission_tui.records.jsonl import read_all
from mission_tui.records.runs.attempt import write_spec
from mission_tui.records.runs.layout import RunDir
from mission_tui.trainer.__main__ import train as train_attempt
from mission_tui.trainer.building.model import build_scratch, ppo_arguments
from mission_tui.trainer.orders import Attempt, Link, Orders
from mission_tui.trainer.record import Record
from mission_tui.trainer.state.boundary import (
    Tensors,
    capture_normalizer,
    copy_parameters,
    put_parameters,
    restore_normalizer,
)
from mission_tui.trainer.state.checkpoint import load_checkpoint
from mission_tui.trainer.tree import Tree
from mission_tui.trainer.vec_env import build_vec_env
from mission_tui.trainer.vec_env.episodes import play

__all__ = ["Engine", "Learned", "learn", "preset"]

ROOT = Path(__file__).resolve().parents[2]
EPISODES = 100
EVALUATION_SEED = 10_000
LANES = 20

Engine = Literal["fast", "stock", "sb3"]
Point = tuple[int, float | None]
"""Environment steps so far, and `rollout/ep_rew_mean` there; None before the first episode has ended."""


class Learned(msgspec.Struct, frozen=True):
    """What a training came to: its curve, the returns of the final policy's episodes, a digest of its parameters."""

    engine: Engine
    spec: Spec
    curve: tuple[Point, ...]
    returns: tuple[float, ...]
    parameters: str
    processor_s: float


@dataclass(frozen=True, slots=True)
class _Trained:
    curve: list[Point]
    parameters: Tensors
    normalizer: Tree | None


def preset(name: str, seed: int, total_timesteps: int | None = None) -> Spec:
    """A shipped preset with a seed on one thread of the CPU, `total_timesteps` long where given."""
    spec = planned(LaunchArguments((name,)), [ROOT / "presets"]).items[0].spec
    total = total_timesteps or spec.run.total_timesteps
    return replace(spec, run=replace(spec.run, seed=seed, device="cpu", threads=1, total_timesteps=total))


def learn(spec: Spec, engine: Engine) -> Learned:
    """Train `spec` to its end by `engine`, then play `EPISODES` episodes with the policy, without its randomness."""
    th.set_num_threads(1)
    begun = time.process_time()
    trained = _by_sb3(spec) if engine == "sb3" else _by_trainer(replace(spec, run=replace(spec.run, engine=engine)))
    spent_s = time.process_time() - begun
    returns = _evaluated(spec, trained)
    return Learned(engine, spec, tuple(trained.curve), returns, _digest(trained.parameters), round(spent_s, 1))


def _by_trainer(spec: Spec) -> _Trained:
    """A whole attempt, with nobody listening."""
    with tempfile.TemporaryDirectory(prefix="learning-") as folder:
        run_dir = RunDir(Path(folder) / "run")
        run_dir.path.mkdir()
        write_spec(run_dir.spec, spec)
        attempt = Attempt(run_dir, 1, None)
        with Record(run_dir, 1, lambda _: None) as record:
            code = train_attempt(attempt, record, Orders(), Link(attempt, {}))
        rows, _ = read_all(run_dir.metrics, MetricRecord)
        end = rows[-1]
        assert code == 0
        assert isinstance(end, TrainingEnded)
        assert end.checkpoint is not None
        boundary = load_checkpoint(run_dir.checkpoints / end.checkpoint).boundary
    updates = [row for row in rows if isinstance(row, UpdateDone)]
    curve: list[Point] = [(row.timesteps, _number(row.metrics.get("rollout/ep_rew_mean"))) for row in updates]
    return _Trained(curve, boundary.parameters, boundary.state["normalizer"])


def _by_sb3(spec: Spec) -> _Trained:
    """Stable-Baselines3 alone, as its documentation trains."""
    watch, vec = _CurveWatch(), _sb3_vec(spec)
    model = stable_baselines3.PPO(env=vec, seed=spec.run.seed, device="cpu", **ppo_arguments(spec))
    model.set_logger(Logger(None, []))
    assert spec.run.total_timesteps is not None
    model.learn(spec.run.total_timesteps, callback=watch)
    normalizer = model.get_vec_normalize_env()
    state = None if normalizer is None else capture_normalizer(normalizer)
    vec.close()
    return _Trained(watch.curve, copy_parameters(model.policy), state)


def _sb3_vec(spec: Spec) -> VecEnv:
    if spec.env.vec == "native":
        return build_vec_env(spec, None).vec
    vec = make_vec_env(spec.env.id, spec.env.n_envs)
    return VecNormalize(vec, gamma=spec.ppo.gamma) if spec.env.normalize else vec


class _CurveWatch(BaseCallback):
    def __init__(self) -> None:
        super().__init__()
        self.curve: list[Point] = []

    def _on_rollout_end(self) -> None:
        returns = [episode["r"] for episode in self.model.ep_info_buffer or ()]
        self.curve.append((self.model.num_timesteps, float(np.mean(returns)) if returns else None))

    def _on_step(self) -> bool:
        return True


def _evaluated(spec: Spec, trained: _Trained) -> tuple[float, ...]:
    lanes = replace(spec, env=replace(spec.env, n_envs=LANES))
    vec = build_vec_env(lanes, None).vec
    if isinstance(vec, VecNormalize):
        assert trained.normalizer is not None
        vec.training, vec.norm_reward = False, False
        restore_normalizer(vec, trained.normalizer, lanes=False)
    model = build_scratch(ppo_arguments(lanes), vec)
    put_parameters(model.policy, trained.parameters)
    played = play(model.player(vec, deterministic=True), vec, EPISODES, EVALUATION_SEED, _nobody)
    vec.close()
    return tuple(played.returns)


def _nobody(_done: int) -> None:
    """Hears of progress."""


def _digest(parameters: Tensors) -> str:
    """SHA-256 of every tensor's name and bytes: equal if and only if all bits are."""
    digest = hashlib.sha256()
    for name in sorted(parameters):
        digest.update(name.encode() + parameters[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _number(metric: Any) -> float | None:
    return None if metric is None else float(metric)
