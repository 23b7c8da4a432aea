"""Runs and models that others made, read without running anything of theirs."""
