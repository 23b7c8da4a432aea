"""What somebody has: an SB3 script that knows nothing of mission-tui, with worker processes and callbacks of its own.

Words: how the workers start (fork, spawn, forkserver, dummy), and where to save.
"""

import sys

import gymnasium as gym
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv


class Mine(BaseCallback):
    """Counts its beginnings and its steps, and logs something."""

    begun = steps = 0

    def _init_callback(self) -> None:
        self.begun += 1

    def _on_step(self) -> bool:
        self.steps += 1
        self.logger.record("custom/steps", self.steps)
        return True


class Named(gym.Wrapper):
    """A class of `__main__`, which workers must find."""


if __name__ == "__main__":
    how, target = sys.argv[1:]
    kwargs = {} if how == "dummy" else {"start_method": how}
    vec = make_vec_env(
        "CartPole-v1",
        1,
        wrapper_class=Named,
        vec_env_cls=DummyVecEnv if how == "dummy" else SubprocVecEnv,
        vec_env_kwargs=kwargs,
        seed=1,
    )
    model = PPO("MlpPolicy", vec, n_steps=64, batch_size=32, n_epochs=2, seed=1, device="cpu")
    mine = Mine()
    evaluation = EvalCallback(make_vec_env("CartPole-v1", 1), eval_freq=80, n_eval_episodes=1, verbose=0)
    model.learn(128, callback=[mine, evaluation])
    model.learn(128, callback=lambda _locals, _globals: True, reset_num_timesteps=False)
    model.learn(64)
    model.save(target)
    vec.close()
    print(mine.begun, mine.steps, model.num_timesteps)
