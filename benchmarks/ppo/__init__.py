"""Steps per second of PPO, rollout and update together, beside its peers: `python -m benchmarks.ppo`."""
