"""Whether a run learns as it should: one file per family of rules, and the judge that turns them into incidents."""

from __future__ import annotations

from mission_tui.fleet.health.judge import HealthJudge, acts, cleared, is_news, judge_of
from mission_tui.fleet.health.settings import Settings, settings_of

__all__ = ["HealthJudge", "Settings", "acts", "cleared", "is_news", "judge_of", "settings_of"]
