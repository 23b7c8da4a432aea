"""Runs on a real Slurm: munge, a controller and two nodes of this machine, in a folder of their own."""
