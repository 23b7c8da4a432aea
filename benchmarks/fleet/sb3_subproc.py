"""The other side of `heavy`: Stable-Baselines3's PPO on its SubprocVecEnv, as a script that somebody would write.

It trains a shipped preset's hyper-parameters, begins when it is told to, and after some seconds says how fast it is,
while it goes on, so that the others are not left alone with the machine. An update may take longer than one cares to
wait: what is said is made of the whole rollout and of the minibatches that were done. Workers are forked, which is no
slower and lets them fit: the usual forkserver imports torch in each, 150 MiB, and four times 32 would need 19 GiB.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import SubprocVecEnv

from benchmarks.fleet.shapes import spec_of
from mission_tui.envs import MissionGym
from mission_tui.trainer.building.model import ppo_arguments

LEAST_MINIBATCHES = 2
PATIENCE = 4
"""After so many times the seconds even less has to do; what was not seen then counts as taking no time."""


class Meter(BaseCallback):
    """Times rollouts and minibatches from the outside, and writes what it found to `answer` after `seconds`."""

    def __init__(self, answer: Path, seconds: float, n_steps: int, minibatches: int) -> None:
        super().__init__()
        self._answer, self._seconds = answer, seconds
        self._n_steps, self._per_update = n_steps, minibatches
        self._rollouts: list[float] = []
        self._update_s, self._minibatches, self._steps = 0.0, 0, 0
        self._since = self._begun = time.perf_counter()

    def _on_training_start(self) -> None:
        optimizer = self.model.policy.optimizer
        optimizer.register_step_post_hook(self._on_minibatch)
        self._begun = time.perf_counter()

    def _on_rollout_start(self) -> None:
        self._since = time.perf_counter()

    def _on_rollout_end(self) -> None:
        now = time.perf_counter()
        self._rollouts.append(now - self._since)
        self._since, self._steps = now, 0

    def _on_minibatch(self, *_: Any) -> None:
        now = time.perf_counter()
        self._update_s += now - self._since
        self._since = now
        self._minibatches += 1
        if self._minibatches >= LEAST_MINIBATCHES:
            self._say_after(self._seconds)

    def _on_step(self) -> bool:
        self._steps += 1
        self._say_after(PATIENCE * self._seconds)
        return True

    def _say_after(self, seconds: float) -> None:
        now = time.perf_counter()
        if now - self._begun < seconds or self._answer.exists():
            return
        begun = (now - self._since) / self._steps * self._n_steps if self._steps else 0.0
        rollout_s = sum(self._rollouts) / len(self._rollouts) if self._rollouts else begun
        update_s = self._per_update * self._update_s / max(1, self._minibatches)
        found = {
            "steps_per_s": self._n_steps * self.training_env.num_envs / (rollout_s + update_s),
            "rollout_s": rollout_s,
            "update_s": update_s,
            "share_of_update": self._minibatches / self._per_update,
        }
        half = self._answer.with_suffix(".half")
        half.write_text(json.dumps(found), encoding="utf-8")
        half.replace(self._answer)


def main() -> None:
    """Start the environments, wait for the word, train until killed."""
    parser = argparse.ArgumentParser(prog="benchmarks.fleet.sb3_subproc", description=__doc__)
    parser.add_argument("preset")
    parser.add_argument("assignments", nargs="*")
    parser.add_argument("--folder", type=Path, required=True, help="where `go` appears, and where the answer is put")
    parser.add_argument("--name", required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--threads", type=int, help="torch's threads; left out, they are torch's own choice")
    parser.add_argument("--device", default="cpu")
    asked = parser.parse_args()
    if asked.threads is not None:
        th.set_num_threads(asked.threads)
    spec = spec_of(asked.preset, asked.assignments)
    arguments = ppo_arguments(spec)
    vec = make_vec_env(
        make_env,
        spec.env.n_envs,
        env_kwargs={"config": spec.env.config},
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "fork"},
    )
    model = PPO(env=vec, seed=1, device=asked.device, **arguments)
    model.set_logger(Logger(None, []))
    (asked.folder / f"{asked.name}.ready").touch()
    while not (asked.folder / "go").exists():
        time.sleep(0.05)
    minibatches = arguments["n_epochs"] * -(-spec.env.n_envs * spec.ppo.n_steps // arguments["batch_size"])
    meter = Meter(asked.folder / f"{asked.name}.json", asked.seconds, spec.ppo.n_steps, minibatches)
    model.learn(sys.maxsize, callback=meter)


def make_env(config: str) -> gymnasium.Env[Any, Any]:
    """One MissionGym, by a function that a worker can find."""
    return MissionGym(config=config)


if __name__ == "__main__":
    main()
