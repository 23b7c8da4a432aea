"""What the health rules say about a run, in the short form: open findings, those that are over, and the readings."""

from __future__ import annotations

from textual.strip import Strip

from mission_tui.fleet.events.outcome import ALIVE, OVER
from mission_tui.fleet.views.snapshot import RunView
from mission_tui.ipc.replies import DetailsReply
from mission_tui.tui.drawing import colours, numbers
from mission_tui.tui.drawing.literal import literal
from mission_tui.tui.drawing.strips import Part, fit, line
from mission_tui.tui.drawing.wrapping import wrap
from mission_tui.tui.listing.run_status import finding_span, open_findings
from mission_tui.tui.sections.finding import finding_rows
from mission_tui.tui.sections.readings import reading_lines

__all__ = ["calm", "health"]


def health(view: RunView, details: DetailsReply | None, width: int, now: float) -> list[Strip]:
    """Open findings first, worst first; then the others in one line each; then the values beside their limits."""
    inside = width - 2
    rows: list[list[Part]] = []
    asking = open_findings(view)
    for finding in asking:
        rows += finding_rows(finding, inside, now, over=view.state in OVER)
    if not asking:
        rows.append([(calm(view), colours.GOOD if view.state in ALIVE and view.update else colours.QUIET)])
    for finding in view.findings:
        if finding.state != "open":
            said = f"{finding.sentence} ({finding_span(finding, now, over=view.state in OVER)})"
            rows.append([(fit(f"{finding.state} {said}", inside), colours.QUIET)])
    for failed in view.failed_duties:
        times = f"since {numbers.clock(failed.first_t, now)}, last {numbers.clock(failed.t, now)}"
        lines = wrap(f"{literal(failed.sentence)} ({times})", max(20, inside - 2))
        leads = ("▲ ", *["  "] * len(lines))
        rows += [[(lead, colours.WARN), (text, colours.INK)] for lead, text in zip(leads, lines, strict=False)]
    strips = [line([(" ", colours.INK), *parts], width) for parts in rows]
    return strips if details is None or not view.update else [*strips, *reading_lines(view, details, width)]


def calm(view: RunView) -> str:
    """What is said where no finding is open."""
    if "metrics" not in view.can:
        return "nothing to judge: it runs a command, which has reported nothing"
    if not view.update:
        return "nothing to judge before the first update"
    if any(finding.state in ("acknowledged", "silenced") for finding in view.findings):
        return "nothing new: every finding is acknowledged or silenced"
    return "ok: no rule has anything to say" if view.state in ALIVE else "ended without an open finding"
