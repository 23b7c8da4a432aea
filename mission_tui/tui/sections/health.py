"""What the health rules say about a run: each open finding with its cause in this run's settings, and one advice."""

from __future__ import annotations

from textual.strip import Strip

from mission_tui.fleet.findings import Finding
from mission_tui.fleet.outcome import ALIVE
from mission_tui.fleet.snapshot import RunView
from mission_tui.tui import colours, numbers
from mission_tui.tui.standing import open_findings
from mission_tui.tui.strips import Part, line
from mission_tui.tui.wrapping import wrap

__all__ = ["health"]


def health(view: RunView, width: int) -> list[Strip]:
    """Open findings first, worst first; then those that are over, in one line each."""
    inside = width - 2
    rows: list[list[Part]] = []
    asking = open_findings(view)
    for finding in asking:
        rows += _finding(finding, inside)
    if not asking:
        rows.append([(_calm(view), colours.GOOD if view.state in ALIVE and view.update else colours.QUIET)])
    for finding in view.findings:
        if finding.state != "open":
            span = f"updates {numbers.count(finding.first_update)}-{numbers.count(finding.last_update)}"
            rows.append([(f"{finding.state} ", colours.QUIET), (f"{finding.sentence} ({span})", colours.QUIET)])
    return [line([(" ", colours.INK), *parts], width) for parts in rows]


def _calm(view: RunView) -> str:
    if not view.update:
        return "nothing to judge before the first update"
    return "ok: no rule has anything to say" if view.state in ALIVE else "ended without an open finding"


def _finding(finding: Finding, width: int) -> list[list[Part]]:
    style = colours.severity_style(finding.severity)
    span = f"{finding.severity}, since update {numbers.count(finding.first_update)}"
    rows: list[list[Part]] = [
        [(f"▲ {text}" if at == 0 else f"  {text}", style)]
        for at, text in enumerate(wrap(f"{finding.sentence} ({span})", width - 2))
    ]
    for label, said in (
        ("cause", finding.cause),
        ("advice", finding.proposal),
        ("seen", _evidence(finding)),
    ):
        for at, text in enumerate(wrap(said, width - 9)):
            rows.append([(f"  {label if at == 0 else '':<7}", colours.QUIET), (text, colours.INK)])
    return rows  # fmt: skip


def _evidence(finding: Finding) -> str:
    """The newest evidence row, its numbers shortened."""
    if not finding.evidence:
        return ""
    return "  ".join(f"{name} {numbers.reading(value)}" for name, value in finding.evidence[-1].items())
