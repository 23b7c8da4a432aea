"""Whether a run learns as it should: one file per family of rules, and the judge that turns them into incidents."""

from __future__ import annotations

from mission_tui.fleet.health.judge import Judge, is_news

__all__ = ["Judge", "is_news"]
