"""From a spec to what is trained: its environment, PPO's arguments, the device, the model, and what came of it."""
