"""mission-tui: start, watch, judge and resume Stable-Baselines3 PPO trainings from one terminal screen.

The package root imports nothing, so that every verb pays only for what it uses.
"""

__version__ = "0.2.0"
