"""What a comparison says in words."""

from __future__ import annotations

from mission_tui.fleet.comparison import Ranked
from mission_tui.present.comparisons import standing


def test_a_setting_that_came_out_alike_is_not_called_lower() -> None:
    """One seed of each: a difference has no interval, and of none nobody says that it is lower."""
    lower, alike = (Ranked(place=2, cohort=1, settings={}, seeds=1, behind=behind) for behind in (12.0, 0.0))
    assert standing(lower, lambda value: f"{value:g}") == "12 lower, no interval"
    assert standing(alike, lambda value: f"{value:g}") == "as high, no interval"
