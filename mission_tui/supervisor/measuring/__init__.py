"""Runs that are made to be measured, by `bench` and `tune`: what they took, what they left, and their clearing away."""
