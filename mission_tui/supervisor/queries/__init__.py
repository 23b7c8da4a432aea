"""Answers that change nothing, from a catalog of runs: the supervisor and the read-only servers give the same ones."""
