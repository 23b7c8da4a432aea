"""Runs passed on to wandb, MLflow, trackio or TensorBoard: what their files say, in a process beside each run."""
