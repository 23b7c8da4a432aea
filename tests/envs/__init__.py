"""Tests of the `envs` room."""
