"""A folder that a training with stock Stable-Baselines3, or with its zoo, left behind: what is in it, read as text."""
