"""The palette: Okabe and Ito's colour-blind-safe hues on a dark ground. Colour never says anything alone."""

from __future__ import annotations

from rich.style import Style

from mission_tui.fleet.findings import Severity
from mission_tui.fleet.outcome import RunState

__all__ = [
    "ALARM",
    "BOLD",
    "CHOSEN",
    "GOOD",
    "GROUND",
    "INK",
    "KEY",
    "LINE",
    "LIVE",
    "PAUSED",
    "QUIET",
    "SHADES",
    "TRACK",
    "UPDATE",
    "WARN",
    "outcome_style",
    "severity_style",
    "state_style",
]

GROUND = "#10151b"
INK = Style(color="#d8dee6")
BOLD = Style(color="#ffffff", bold=True)
QUIET = Style(color="#8d99a8")
LINE = Style(color="#4a5765")
TRACK = Style(color="#36414d")
KEY = Style(color="#f0e442", bold=True)
LIVE = Style(color="#56b4e9")
SHADES = tuple(Style(color=shade) for shade in ("#56b4e9", "#4da2d2", "#4390bb", "#397da3", "#2f6a8b", "#265873"))
"""A chart's rows from top to bottom: one colour a row, because every change of colour costs bytes on the line."""
UPDATE = Style(color="#f0c75e")
PAUSED = Style(color="#cc79a7")
GOOD = Style(color="#2fc49a")
WARN = Style(color="#e69f00", bold=True)
ALARM = Style(color="#ff7f50", bold=True)
CHOSEN = Style(bgcolor="#22303f", bold=True)

_OUTCOMES = {"finished": GOOD, "stopped": QUIET, "killed": PAUSED, "failed": ALARM, "lost": ALARM}
_STATES: dict[RunState, Style] = {
    "running": LIVE,
    "starting": LIVE,
    "stopping": UPDATE,
    "paused": PAUSED,
    "frozen": PAUSED,
    "parked": PAUSED,
}
_SEVERITIES: dict[Severity, Style] = {"critical": ALARM, "warning": WARN, "info": QUIET}


def state_style(state: RunState) -> Style:
    """The colour of a state that has no outcome yet."""
    return _STATES.get(state, QUIET)


def outcome_style(outcome: str) -> Style:
    """The colour of an outcome word."""
    return _OUTCOMES.get(outcome, QUIET)


def severity_style(severity: Severity) -> Style:
    """The colour of a finding."""
    return _SEVERITIES[severity]
