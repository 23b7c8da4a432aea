"""What happened while nobody looked, in one sentence for the moment of coming back."""

from __future__ import annotations

from mission_tui.fleet.findings import Finding
from mission_tui.fleet.snapshot import FleetSnapshot, RunView
from mission_tui.tui.standing import alarms

__all__ = ["while_away"]


def while_away(snapshot: FleetSnapshot, last_seen_t: float | None) -> str | None:
    """`While you were away: 2 ended, 1 finding`; None when nothing happened since `last_seen_t` (unix s)."""
    if last_seen_t is None:
        return None
    ended = [view for view in snapshot.runs if view.ended_t is not None and view.ended_t > last_seen_t]
    failed = sum(view.outcome in ("failed", "lost") for view in ended)
    findings = sum(
        _opened_t(finding, view, snapshot.t) > last_seen_t for view in snapshot.runs for finding in alarms(view)
    )
    parts = []
    if ended:
        parts.append(f"{len(ended)} ended" + (f" ({failed} failed)" if failed else ""))
    if findings:
        parts.append(f"{findings} finding{'s' if findings > 1 else ''}")
    return f"While you were away: {', '.join(parts)}" if parts else None


def _opened_t(finding: Finding, view: RunView, now: float) -> float:
    """When a finding opened; where it carries no time, reckoned back from the newest update."""
    if finding.first_t > 0:
        return finding.first_t
    update_length_s = (view.rollout_s or 0.0) + (view.update_s or 0.0)
    return (view.ended_t or now) - max(0, (view.update or 0) - finding.first_update) * update_length_s
