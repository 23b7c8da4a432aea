"""The GPUs: a probe that may be killed at any time, the lines it prints, and who watches it."""
