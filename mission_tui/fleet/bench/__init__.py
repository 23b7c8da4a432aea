"""Timed runs: in which order they take turns, what is measured of each, and whether one preset is faster. Pure."""
