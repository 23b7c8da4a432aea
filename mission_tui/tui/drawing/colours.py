"""The colours ("color" in Textual and CSS): a palette of Okabe and Ito's colour-blind-safe hues on a dark ground, and
darkened ones on a light ground; which of them each curve has, and each state and finding.

`MISSION_TUI_THEME` says which, once, when this is imported. Colour never says anything alone. Textual's theme has them
too, for the few widgets that are its own.
"""

from __future__ import annotations

import os

from msgspec import Struct
from rich.style import Style
from textual.theme import Theme

from mission_tui.fleet.events.findings import Severity
from mission_tui.fleet.events.outcome import RunState


class Palette(Struct, frozen=True):
    """Colours as `#rrggbb`. `shades` are a chart's rows from top to bottom, `band` the span of a curve's values."""

    ground: str
    surface: str
    panel: str
    primary: str
    chosen: str
    ink: str
    bold: str
    quiet: str
    line: str
    track: str
    key: str
    live: str
    band: str
    update: str
    paused: str
    good: str
    warn: str
    alarm: str
    shades: tuple[str, ...]


# fmt: off
DARK = Palette(
    ground="#10151b", surface="#161d25", panel="#1e2833", primary="#4a6a84", chosen="#22303f",
    ink="#d8dee6", bold="#ffffff", quiet="#8d99a8", line="#4a5765", track="#36414d", key="#f0e442",
    live="#56b4e9", band="#36657f", update="#f0c75e", paused="#cc79a7", good="#2fc49a", warn="#e69f00", alarm="#ff7f50",
    shades=("#56b4e9", "#4da2d2", "#4390bb", "#397da3", "#2f6a8b", "#265873"),
)
LIGHT = Palette(
    ground="#fbfaf7", surface="#f1efea", panel="#e7e5df", primary="#5b7f9c", chosen="#dce7f1",
    ink="#1d2733", bold="#000000", quiet="#55606d", line="#9aa4af", track="#c9ced4", key="#7a4f00",
    live="#005f99", band="#a9cbe2", update="#7d5a00", paused="#94366c", good="#00694c", warn="#8f4a00", alarm="#b3260f",
    shades=("#005f99", "#1a71a6", "#3483b3", "#4f95c0", "#6aa7cc", "#85b9d9"),
)
# fmt: on

PALETTE = LIGHT if os.environ.get("MISSION_TUI_THEME") == "light" else DARK
GROUND = PALETTE.ground
INK = Style(color=PALETTE.ink)
BOLD = Style(color=PALETTE.bold, bold=True)
QUIET = Style(color=PALETTE.quiet)
LINE = Style(color=PALETTE.line)
TRACK = Style(color=PALETTE.track)
KEY = Style(color=PALETTE.key, bold=True)
LIVE = Style(color=PALETTE.live)
SHADES = tuple(Style(color=shade) for shade in PALETTE.shades)
"""One colour a row, because every change of colour costs bytes on the line."""
UPDATE = Style(color=PALETTE.update)
PAUSED = Style(color=PALETTE.paused)
GOOD = Style(color=PALETTE.good)
WARN = Style(color=PALETTE.warn, bold=True)
ALARM = Style(color=PALETTE.alarm, bold=True)
CHOSEN = Style(bgcolor=PALETTE.chosen, bold=True)
HEADING = Style(bgcolor=PALETTE.panel)
"""The line of a machine above its runs."""

_HUES = (PALETTE.live, PALETTE.warn, PALETTE.good, PALETTE.paused, PALETTE.key, PALETTE.bold)
MOST_CURVES = len(_HUES)
"""More curves than this cannot be told apart."""
COHORT_HUES = (PALETTE.live, PALETTE.warn, PALETTE.good, PALETTE.paused, PALETTE.key, PALETTE.alarm, PALETTE.bold)
"""A colour for each setting of a comparison, in order; a curve's letter names it without colours."""
_FAINT = 0.45

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


def letter(slot: int) -> str:
    """What the curve in `slot` is called: it says which one it is without colours."""
    return chr(ord("A") + slot)


def hue(slot: int) -> Style:
    """The colour of the curve in `slot`."""
    return Style(color=_HUES[slot % MOST_CURVES])


def faint(slot: int) -> Style:
    """The same colour, nearly sunk in the ground."""
    over, under = _parts(_HUES[slot % MOST_CURVES]), _parts(PALETTE.ground)
    mixed = (round(_FAINT * one + (1 - _FAINT) * other) for one, other in zip(over, under, strict=True))
    return Style(color="#" + "".join(f"{part:02x}" for part in mixed))


def _parts(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


THEME = Theme(
    name="mission",
    primary=PALETTE.primary,
    secondary=PALETTE.live,
    accent=PALETTE.key,
    warning=PALETTE.warn,
    error=PALETTE.alarm,
    success=PALETTE.good,
    foreground=PALETTE.ink,
    background=PALETTE.ground,
    surface=PALETTE.surface,
    panel=PALETTE.panel,
    dark=PALETTE is DARK,
    variables={"line": PALETTE.line, "quiet": PALETTE.quiet},
)
