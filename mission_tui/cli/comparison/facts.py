"""A comparison as the document that `compare --json` prints, and that a report keeps with its curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from mission_tui.fleet.compare import Comparison

__all__ = ["comparison_facts"]


def comparison_facts(found: Comparison, *, curves: bool = False) -> dict[str, Any]:
    """Results by run, groups of seeds, what differs, and sentences; `curves` adds what is drawn."""
    facts: dict[str, Any] = msgspec.to_builtins(found)
    for name in ("curves", "bands"):
        drawn = facts.pop(name)
        if curves:
            facts[name] = drawn
    facts["groups"] = facts.pop("cohorts")
    for run in facts["runs"]:
        run["group"] = run.pop("cohort")
    for place in facts["ranking"]:
        place["group"] = place.pop("cohort")
    return facts
