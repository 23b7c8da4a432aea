"""The thresholds of the health rules: shipped defaults, profiles, and what a `health.toml` says."""
