"""What the limits of one rule must be to one another: levels are left below where they are entered, critical is beyond
warning, and no window is shorter than what it must hold.
"""

from __future__ import annotations

from collections.abc import Iterator

from mission_tui.fleet.limits.thresholds import Limits

__all__ = ["contradictions"]

_AT_MOST = {
    "kl-persistent": (
        ("warning_leave", "warning"),
        ("critical_leave", "critical"),
        ("warning", "critical"),
        ("needed", "window"),
    ),
    "policy-frozen": (("u", "idle_u"),),
    "clip-fraction": (
        ("warning_leave", "warning"),
        ("critical_leave", "critical"),
        ("warning", "critical"),
        ("needed", "window"),
    ),
    "policy-std": (("critical_low", "warning_low"), ("warning_high", "critical_high")),
    "actions-at-bound": (("leave", "warning"),),
    "explained-variance": (("critical", "warning"), ("warning", "leave"), ("needed", "window")),
    "value-loss": (("leave", "times_median"),),
    "grad-norm": (("warning", "critical"),),
    "ratio": (("first", "first_reduced"), ("needed", "window")),
    "drawdown": (("leave", "warning"), ("warning", "critical")),
    "reward-oscillation": (("leave", "swings"), ("swings", "window")),
    "stall": (("length_leave", "length_rise"), ("every", "window")),
    "outcomes": (("leave", "bad_share"),),
    "throughput": (("warning", "leave"), ("fewest", "window")),
}
"""By rule, pairs of its fields of which the first must not be above the second."""


def contradictions(limits: Limits, prefix: str = "") -> Iterator[str]:
    """A sentence for each pair that contradicts itself, with the nearest valid value; keys begin with `prefix`."""
    for rule, lower, upper in ((rule, *pair) for rule, pairs in _AT_MOST.items() for pair in pairs):
        written = getattr(limits, rule.replace("-", "_"))
        low, high = getattr(written, lower), getattr(written, upper)
        if low > high:
            yield (
                f"{prefix}{rule}.{lower} = {low:g} must be at most {rule}.{upper} = {high:g}; "
                f"the nearest valid value is {high:g}"
            )
