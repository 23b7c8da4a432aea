"""An SB3 script as somebody has it, with its environments in processes of their own. Words: the learning rate."""

import sys

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import SubprocVecEnv

if __name__ == "__main__":
    vec_env = make_vec_env("CartPole-v1", n_envs=1, seed=1, vec_env_cls=SubprocVecEnv)
    model = PPO("MlpPolicy", vec_env, learning_rate=float(sys.argv[1]), n_steps=64, batch_size=64, device="cpu")
    model.set_logger(configure("logs", ["csv"]))
    model.learn(10_000_000)
    model.save("model")
    vec_env.close()
