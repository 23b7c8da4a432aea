"""What shows a finding: a stretch of the run's history around it, or the rows that the rule itself had seen.

A resume from before an incident writes the same updates anew, and then the history is no longer the one it was seen in.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mission_tui.fleet.events.findings import Finding
from mission_tui.fleet.events.metrics import Metric, number
from mission_tui.ipc.replies import DetailsReply, HistoryReply

__all__ = ["Points", "evidence_points", "evidence_start", "points_of", "rewritten", "stretch"]

Points = list[tuple[float, float, float]]
"""Place on the axis, minimum and maximum of each bucket."""

_LEAST_BEFORE = 40
_SHARE_BEFORE = 0.5


def evidence_start(finding: Finding) -> int:
    """The first update that the rule looked at when the finding opened."""
    return max(0, finding.first_update - max(1, finding.window) + 1)


def stretch(finding: Finding) -> tuple[int, int | None]:
    """First and last update to draw; None is the newest one, because the finding lasts until now."""
    length = finding.last_update - finding.first_update + 1
    before = max(_LEAST_BEFORE, 2 * finding.window, int(_SHARE_BEFORE * length))
    first = max(0, evidence_start(finding) - before)
    return first, None if finding.state != "cleared" else finding.last_update + before


def rewritten(finding: Finding, details: DetailsReply | None) -> bool:
    """Whether a later attempt went over the updates of `finding` again, as far as `details` know."""
    place = number(finding.evidence[-1].get("timesteps")) if finding.evidence else None
    attempts = details.attempts if details is not None and finding.attempt else ()
    later = [attempt.from_timesteps for attempt in attempts if attempt.attempt > finding.attempt]
    return any(start is None or place is None or start < place for start in later)


def evidence_points(finding: Finding) -> Points:
    """The finding's own evidence as points over updates."""
    pairs = [(_finite(row.get("update")), _finite(row.get(finding.signal))) for row in finding.evidence]
    return [(update, value, value) for update, value in pairs if update is not None and value is not None]


def points_of(history: HistoryReply, tag: str, over: Sequence[int]) -> Points:
    """Those buckets of `tag` that have finite values, over one of the reply's axes."""
    columns = zip(over, history.low.get(tag, ()), history.high.get(tag, ()), strict=False)
    known = ((step, _finite(low), _finite(high)) for step, low, high in columns)
    return [(float(step), low, high) for step, low, high in known if low is not None and high is not None]


def _finite(metric: Metric | None) -> float | None:
    value = number(metric)
    return value if value is not None and math.isfinite(value) else None
