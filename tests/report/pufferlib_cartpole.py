"""PufferLib's own trainer on CartPole, for `pufferlib_style.py`; docs/recipes/pufferlib.md says how it is built."""

# mypy: disable-error-code="no-untyped-call,no-untyped-def,import-not-found,import-untyped"

import sys

import gymnasium as gym
import pufferlib.emulation
import pufferlib.models
import pufferlib.vector
from pufferlib import pufferl


def _cartpole(buf=None, seed=0):
    env = pufferlib.EpisodeStats(gym.make("CartPole-v1"))
    return pufferlib.emulation.GymnasiumPufferEnv(env=env, buf=buf, seed=seed)


def trainer(total_timesteps, logger):
    """A `PuffeRL` of eight environments, 256 steps an update."""
    sys.argv[1:] = []  # which its settings are read from
    vecenv = pufferlib.vector.make(_cartpole, num_envs=8, backend=pufferlib.vector.Serial)
    config = pufferl.load_config("default")["train"]
    config |= {"env": "CartPole-v1", "device": "cpu", "optimizer": "adam", "learning_rate": 0.003}
    config |= {"total_timesteps": total_timesteps, "batch_size": 256, "minibatch_size": 256, "bptt_horizon": 32}
    return pufferl.PuffeRL(config, vecenv, pufferlib.models.Default(vecenv.driver_env), logger)
