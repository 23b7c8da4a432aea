"""Engines with very many jobs on one machine: what speaks for Slurm and for Ray is real, what trains is not."""
