# mypy: ignore-errors
"""A JAX trainer as somebody has it. Words: the learning rate."""

import sys

from sbx import PPO

model = PPO("MlpPolicy", "CartPole-v1", learning_rate=float(sys.argv[1]), n_steps=128, batch_size=64, seed=1)
model.learn(10_000_000)
model.save("model")
